// The pairs of two variants by task, metric and length, read from one job or two, with the planned counts.
//
// Errors: those of db::Reader and db/pairing.h; NOT_FOUND for an unknown variant; INVALID_ARGUMENT for a variant
//         compared with itself; DATA_LOSS for a value that its metric cannot have.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/comparison.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::stats {

struct GroupedPairs {
  // By (task, metric index, metric), then by length.
  std::map<std::tuple<std::string, int64_t, std::string>, std::map<int64_t, std::vector<db::PairRow>>> pairs;
  std::map<std::pair<std::string, std::string>, MetricInfo> metrics;  // by task and metric
  std::map<std::pair<std::string, int64_t>, int64_t> planned;         // by task and length
  std::map<std::pair<std::string, int64_t>, db::PairedCell> cells;    // across jobs
  TestedLengths tested;                                               // of the baseline's job; all lengths here are its

  DeclaredTests Declared() const;
};

// Pairs of which every planned answer is there, answered or failed.
int64_t FinishedCount(const std::vector<db::PairRow>& pairs);

// Has a span, so that its differences can be averaged with those of other tasks.
bool CanBeAveraged(const MetricInfo& info);

// Leaves the pairs of these contexts. A cell that was finished remains finished.
void KeepContexts(Contexts contexts, GroupedPairs& grouped);

// Of a variant's answers, by task, length of the suite and question: marks of db/answer_kinds.h.
using AnswerKindMarks = std::map<std::tuple<std::string, int64_t, std::string>, uint32_t>;

// See db::Reader::DataSeeds.
using QuestionSeeds = std::map<std::pair<std::string, std::string>, int64_t>;

// What is read once for several comparisons of one database.
struct PairSource {
  std::map<int64_t, TestedLengths> tested;                              // by job
  std::map<std::pair<int64_t, std::string>, AnswerKindMarks> variants;  // by job and name
  std::map<int64_t, QuestionSeeds> seeds;                               // by job
};

// Both fill in the pairing fields of `report`.
absl::StatusOr<GroupedPairs> ReadPairs(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                       const std::string& candidate, PairSource& source, ComparisonReport& report);
absl::StatusOr<GroupedPairs> ReadPairsAcrossJobs(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, PairSource& source,
                                                 ComparisonReport& report);

}  // namespace varifocal::stats
