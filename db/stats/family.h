// The families of tests that are adjusted together, independent of what is shown: all variants of the baseline's job
// except the baseline, at all planned lengths, and requested variants of other jobs. `compare` of one candidate and a
// report of all of them therefore print the same adjusted p.
//
// Seven families, each by Holm's method, the first with CompareOptions::with_max_t by max-t (db/stats/max_t.h): means over
// tasks (the primary endpoints), rows of the tasks' primary metrics, rows of other metrics; changes and slopes over the
// lengths, each of the mean over tasks and of single tasks. The first three count the tests that are planned, also those
// that have no answers yet.
//
// Cost: reads and compares every variant of the job; sign flips are computed for the candidates asked for.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/compare.h"

namespace varifocal::stats {

struct CandidateReport {
  db::JobVariant candidate;
  ComparisonReport report;  // empty when there is a problem
  std::string problem;      // why there are no comparisons yet
};

// A report for each of `candidates`, in their order.
absl::StatusOr<std::vector<CandidateReport>> CompareFamily(db::Reader& reader, const db::JobVariant& baseline,
                                                           const std::vector<db::JobVariant>& candidates,
                                                           const CompareOptions& options = {});

}  // namespace varifocal::stats
