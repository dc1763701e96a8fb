// The one process that may change a results database.
//
// Opening takes an operating-system lock on `<path>.lock` for as long as the Writer lives, so a second writer is
// refused with the holder's pid, and a killed one leaves nothing to clean up. A missing database is made, an older one
// is migrated, after a copy of it was made beside it (db/backup.h). Everything that returns OK is durable: each call is
// one transaction with synchronous=FULL.
//
// Errors:  FAILED_PRECONDITION another writer holds the database, or it belongs to a newer version; INVALID_ARGUMENT it
//          is not a database of ours; NOT_FOUND / PERMISSION_DENIED the path. A refused file is left as it was.
//          Of every call: UNAVAILABLE another process holds SQLite's lock; RESOURCE_EXHAUSTED the disk is full (see
//          IsBlocked); DATA_LOSS the file is damaged, deleted or replaced.
// Threads: any; calls are serialised inside.
// Cost:    one fsync per call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "db/records.h"

namespace varifocal::db {

// Starts of one job, in a row, that end with the death of the process before one sample is recorded.
inline constexpr int kUnendedStartsMax = 3;

struct AddedJob {
  int64_t job_id = 0;
  bool is_existing = false;  // the request_id was seen before with the same body
};

enum class RecordResult {
  kRecorded,
  kReplacedFailure,  // an earlier failed attempt gave way
  kAlreadyAnswered,  // an answer is there and stays; nothing was written
};

// Whether the same call may succeed later, without anything done about the database itself: the disk is full or another
// process holds SQLite's lock. Nothing of the call was stored.
inline bool IsBlocked(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

class Writer {
 public:
  // A call waits at most `busy_timeout_ms` for a lock that another process holds.
  static absl::StatusOr<std::unique_ptr<Writer>> Open(const std::string& path, const Clock& clock = Clock::Real(),
                                                      int busy_timeout_ms = 5000);
  ~Writer();

  absl::StatusOr<int64_t> AddExecution(const ExecutionRecord& execution);

  // The job, its variants, metrics and cells, in state queued. INVALID_ARGUMENT when request_id came before with
  // another body; a job of an earlier version, whose body_sha256 is its spec's, is the same when the spec is.
  absl::StatusOr<AddedJob> AddJob(const NewJob& job);
  // The job that this request_id and body made, if any.
  absl::StatusOr<std::optional<int64_t>> FindRequest(const std::string& request_id, const std::string& body_sha256);

  // Moves a job; FAILED_PRECONDITION names both states when the step is not one of
  //   queued -> running, cancelled;  running -> queued, succeeded, failed, cancelling, cancelled;
  //   cancelling -> cancelled;
  //   succeeded, failed, cancelled -> queued (resume).
  // start and end times follow from the step: no time is before an earlier one of the job, and a run that this process began
  // has its true length, wherever the wall clock is set in between. `error` is kept for failed and cleared otherwise.
  absl::Status SetJobState(int64_t job_id, JobState state, const std::string& error = "");

  // A settled job is queued again, by the same step. Whether its answers may be mixed is kept with it until the next resume.
  absl::Status ResumeJob(int64_t job_id, bool allow_mixed);
  absl::StatusOr<bool> IsMixingAllowed(int64_t job_id);

  // Models that calls loaded. The same name again replaces the directory; forgetting an unknown name is fine.
  absl::Status RememberModel(const CalledModel& model);
  absl::Status ForgetModel(const std::string& name);
  absl::StatusOr<std::vector<CalledModel>> CalledModels();  // by name

  // At start: what a killed process left running is queued again, what it was cancelling is cancelled. A job whose last
  // kUnendedStartsMax starts all ended so, without one sample, becomes failed: it would stop this process as well.
  absl::Status RecoverInterruptedJobs();
  absl::StatusOr<std::optional<int64_t>> NextQueuedJob();  // the oldest one; none when nothing waits

  // Refuses (FAILED_PRECONDITION, naming both sides) to continue a job whose answers came from another code version,
  // backend or instruction set unless allow_mixed, and always when a variant's weights, tokenizer, attention or number
  // format changed. `variants` are the variants as they would run now; those not listed are not compared.
  absl::Status CheckResume(int64_t job_id, int64_t execution_id, const std::vector<VariantRecord>& variants,
                           bool allow_mixed);

  absl::StatusOr<std::vector<CellRow>> Cells(int64_t job_id);

  // Sample indices of a cell that a job still asks for (db/resume.h), ascending.
  absl::StatusOr<std::vector<int64_t>> SamplesToAsk(int64_t cell_id);

  // FAILED_PRECONDITION when the sample exists with another prompt (the task or the tokenizer changed under the job);
  // INVALID_ARGUMENT when scores and metrics of the task do not match.
  absl::StatusOr<RecordResult> RecordSample(const Outcome& outcome);

  // All of them or none. A value of the same metric and answer that was imported before gives way. INVALID_ARGUMENT
  // when a value is not from 0 to 1, the metric's name has no mark, or an answer is not the variant's.
  absl::Status ImportScores(int64_t job_id, const std::vector<ScoreImport>& imports);

  // DATA_LOSS when the database file, its write-ahead log or its lock file was deleted, moved or replaced. Every change
  // asks this before it begins and before it is acknowledged.
  absl::Status CheckFiles() const;

  // Moves everything from the write-ahead log into the database file, so that the file alone is complete. UNAVAILABLE
  // when a reader is in the way; it waits for it a fifth of a second at most.
  absl::Status Checkpoint();

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  int64_t EndOfRun(int64_t job_id, int64_t now_us);
  absl::Status Step(int64_t job_id, JobState state, const std::string& error);
  std::unique_ptr<State> state_;
};

}  // namespace varifocal::db
