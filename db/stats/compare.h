// Baseline against candidate: per task, metric and context length; over the whole suite per length; and whether the
// difference grows with the length.
//
// Everything is computed from rows of v_pairs, or across two jobs from those of db/pairing.h. A failed sample counts as
// the metric's worst value, so failures cannot improve a result; it also makes the comparison incomplete until it is
// resumed or accepted. Differences are candidate minus baseline.
//
// The primary endpoints are the suite differences, one per candidate and length: the mean over tasks of the difference
// of each task's primary metric. Everything else is exploratory. What is adjusted together (a family) does not depend on
// what is shown: db/stats/family.h.
//
// Cost: dominated by the sign-flip draws, below 10 ms for each row of 500 clusters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/comparison.h"

namespace varifocal::stats {

// Pairs of one task, metric and length; at least one with both values.
absl::StatusOr<Comparison> ComparePairs(const std::vector<db::PairRow>& pairs, const MetricInfo& info,
                                        const CompareOptions& options = {});

// Adjusted over the rows of this pair alone; see CompareFamily.
absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                                 const std::string& candidate, const CompareOptions& options = {});

// Of one job or of two; a candidate of another job than the baseline's is called jobs/N/NAME.
absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, const CompareOptions& options = {});

}  // namespace varifocal::stats
