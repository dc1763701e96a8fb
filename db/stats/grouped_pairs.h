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

namespace varifocal::stats {

struct GroupedPairs {
  // By (task, metric index, metric), then by length.
  std::map<std::tuple<std::string, int64_t, std::string>, std::map<int64_t, std::vector<db::PairRow>>> pairs;
  std::map<std::pair<std::string, std::string>, MetricInfo> metrics;  // by task and metric
  std::map<std::pair<std::string, int64_t>, int64_t> planned;         // by task and length
  std::map<std::pair<std::string, int64_t>, db::PairedCell> cells;    // across jobs

  DeclaredTests Declared() const;
};

// Has a span, so that its differences can be averaged with those of other tasks.
bool CanBeAveraged(const MetricInfo& info);

// Leaves the pairs of these contexts. A cell that was finished remains finished.
void KeepContexts(Contexts contexts, GroupedPairs& grouped);

// Both fill in the pairing fields of `report`.
absl::StatusOr<GroupedPairs> ReadPairs(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                       const std::string& candidate, ComparisonReport& report);
absl::StatusOr<GroupedPairs> ReadPairsAcrossJobs(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, ComparisonReport& report);

}  // namespace varifocal::stats
