// Private state of Reader, for the sources that implement it.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "db/epochs.h"
#include "db/question_rows.h"
#include "db/reader.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// The answers of a job with the value of their primary metric.
inline constexpr char kFromAnswers[] =
    " FROM variants JOIN cells ON cells.variant_id = variants.variant_id"
    " JOIN generations ON generations.cell_id = cells.cell_id"
    " JOIN samples ON samples.sample_id = generations.sample_id"
    " LEFT JOIN task_metrics ON task_metrics.job_id = variants.job_id AND task_metrics.task = cells.task"
    " AND task_metrics.metric_index = 0"
    " LEFT JOIN scores ON scores.generation_id = generations.generation_id AND scores.metric = task_metrics.metric"
    " WHERE variants.job_id = ?";

inline constexpr char kCountAttentionHeads[] = "SELECT count(*) FROM sqlite_schema WHERE name = 'attention_heads'";

struct Reader::State {
  Mutex mutex;
  std::unique_ptr<sqlite::Database> database VF_PT_GUARDED_BY(mutex);
  std::optional<sqlite::Transaction> held VF_GUARDED_BY(mutex);  // of HoldSnapshot
  EpochStatistic epoch_statistic VF_GUARDED_BY(mutex);

  // For the duration of a call; that of HoldSnapshot where there is one.
  absl::StatusOr<std::optional<sqlite::Transaction>> Snapshot() VF_REQUIRES(mutex) {
    if (held.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(sqlite::Transaction begun,
                     sqlite::Transaction::Begin(*database, sqlite::Transaction::Kind::kRead));
    return std::optional<sqlite::Transaction>(std::move(begun));
  }

  absl::StatusOr<JobEpochs> Epochs(int64_t job_id) VF_REQUIRES(mutex) {
    ASSIGN_OR_RETURN(const int64_t count, ReadEpochCount(*database, job_id, epoch_statistic));
    return JobEpochs{count, epoch_statistic};
  }
};

}  // namespace varifocal::db
