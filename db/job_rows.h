// Rows of the table of jobs with their counts, and questions about the queue. Reader calls these under its lock.
//
// Errors:  NOT_FOUND no such job; DATA_LOSS an unknown state.
// Threads: as the connection.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/records.h"

namespace varifocal::sqlite {
class Database;
}

namespace varifocal::db {

struct JobRow {
  int64_t job_id = 0;
  std::string suite;
  std::string spec_json;
  std::string spec_sha256;
  int64_t data_seed = 0;
  JobState state = JobState::kQueued;
  std::string error;  // for failed jobs
  int64_t create_us = 0;
  std::optional<int64_t> start_us;  // first start
  std::optional<int64_t> end_us;    // last reached a final state
  int64_t planned_count = 0;        // samples over all cells; the other counts are derived from generations
  int64_t answered_count = 0;
  int64_t failed_count = 0;
  bool is_mixed = false;  // answers of more than one (code version, backend, instruction set), endpoints aside
};

struct UnfinishedJob {
  int64_t job_id = 0;
  JobState state = JobState::kQueued;
};

absl::StatusOr<std::vector<JobRow>> ReadJobs(sqlite::Database& database, int64_t before_id, int64_t limit);
absl::StatusOr<JobRow> ReadJob(sqlite::Database& database, int64_t job_id);
absl::StatusOr<std::vector<JobStateCount>> CountJobsByState(sqlite::Database& database);
absl::StatusOr<int64_t> CountQueuedJobs(sqlite::Database& database, int64_t at_most);
absl::StatusOr<std::optional<UnfinishedJob>> FindUnfinishedJob(sqlite::Database& database, const std::string& model);
// In several reads: the caller holds a snapshot.
absl::StatusOr<JobRow> FindLatestJob(sqlite::Database& database, const std::vector<std::string>& variants);

}  // namespace varifocal::db
