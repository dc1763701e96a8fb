// Which samples a resumed job runs, and whether it may be resumed.
//
// Threads: as the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/records.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// Sample indices of a cell without an answer (never recorded, or recorded as failed), ascending. First start and resume
// both use this rule.
absl::StatusOr<std::vector<int64_t>> ReadPendingSamples(sqlite::Database& database, int64_t cell_id,
                                                        int64_t planned_count);

// The first fact in which a variant's model differs: "weights", "configuration (ropes)", .. Two models are one where weights,
// tokenizer, function and run-time temperature are equal. A row without a function (of a file of an earlier version) differs
// from every model unless `allow_unrecorded`.
struct ModelDifference {
  std::string what, before, after;
};
std::optional<ModelDifference> FindModelDifference(const VariantRecord& before, const VariantRecord& after,
                                                   bool allow_unrecorded);

// See Writer::CheckResume.
absl::Status CheckMayResume(sqlite::Database& database, int64_t job_id, int64_t execution_id,
                            const std::vector<VariantRecord>& variants, bool allow_mixed);

}  // namespace varifocal::db
