// The best of several candidates at each length, chosen on one half of the contexts and tested once on the other half.
//
// The score of the best of many is biased upwards on the data that chose it, so the test uses other contexts: its interval
// needs no correction for the number of candidates, only for the number of choices (Holm). The halves are those of
// CompareOptions::contexts.
//
// Errors:  those of CompareVariants; a candidate without answers is left out, as is a length where no candidate has any.
// Cost:    reads and compares every candidate once and the chosen ones twice.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/compare.h"

namespace varifocal::stats {

struct Choice {
  db::JobVariant candidate;
  double choice_difference = 0;  // of the mean over tasks, on the contexts that chose it
  int64_t choice_cluster_count = 0;
  SuiteComparison confirmation;  // on the others; adjusted over all choices
  bool is_baseline = false;      // no candidate's mean was above the baseline's: it is kept, and nothing is tested
};

// By length, ascending: the candidate with the largest difference of the mean over tasks; of equal ones the first. With
// `keeps_baseline`, the baseline itself where none is above zero.
absl::StatusOr<std::vector<Choice>> ChooseAndConfirm(db::Reader& reader, const db::JobVariant& baseline,
                                                     const std::vector<db::JobVariant>& candidates, bool keeps_baseline,
                                                     CompareOptions options = {});

}  // namespace varifocal::stats
