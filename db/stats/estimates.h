// The mean of each cell of a job with its interval: the points and bands of a score-by-length figure.
//
// A failed sample counts as the metric's worst value; mean_answered is given beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/stats/score_intervals.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::stats {

struct Estimate {
  std::string variant, task, metric;
  int64_t context_length = 0, planned_count = 0, answered_count = 0, failed_count = 0, cluster_count = 0;
  bool is_incomplete = false;
  std::optional<double> mean;  // failures at the worst value; none when there is no row or no worst value
  std::optional<double> mean_answered;
  std::optional<Interval> interval;  // of `mean`
};

// In the order of the cells, then of the metrics; cells that repeat the prompts of a shorter length are left out.
absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, double confidence = 0.95);
absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, const TestedLengths& tested,
                                                     double confidence = 0.95);

}  // namespace varifocal::stats
