// Write access to a results database, for one process at a time.
//
// Opening takes an operating-system lock on `<path>.lock` for as long as the Writer lives, so a second writer is
// refused with the holder's pid, and a killed one leaves nothing to clean up. A missing database is created, an older
// one is backed up (db/backup.h) and migrated. Everything that returns OK is durable: each call is one transaction with
// synchronous=FULL.
//
// Errors:  FAILED_PRECONDITION another writer holds the database, or it has a newer version; INVALID_ARGUMENT not a
//          Varifocal database; NOT_FOUND / PERMISSION_DENIED the path. A refused file is left unchanged.
//          Of every call: UNAVAILABLE another process holds SQLite's lock; RESOURCE_EXHAUSTED the disk is full (see
//          IsBlocked); DATA_LOSS the file is damaged, deleted or replaced.
// Threads: any; calls are serialised by a mutex.
// Cost:    one fsync per call.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "db/records.h"

namespace varifocal::db {

// Starts in a row of one job that end with the death of the process before a sample is recorded, each after a time in which
// the process was well without the job, and sooner than that time: these are charged to the job, all others are not.
inline constexpr int kChargedStartsMax = 4;
// How long a process must have run before it starts a job again whose last `unended_count` starts ended so: nothing, then 10,
// 20, 40 .. 600 seconds.
int64_t StartDelayUs(int64_t unended_count);

struct DeletedJob {
  std::string suite;
  int64_t generation_count = 0;
};

struct AddedJob {
  int64_t job_id = 0;
  bool is_existing = false;  // the request_id was seen before with the same body
};

enum class RecordResult {
  kRecorded,
  kReplacedFailure,  // replaced an earlier failed attempt
  kAlreadyAnswered,  // an answer exists and is kept; nothing was written
};

// Whether the same call may succeed later without a change to the database itself: the disk is full or another process
// holds SQLite's lock. The call stored nothing.
inline bool IsBlocked(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsResourceExhausted(status);
}

struct WriterState;  // db/writer_state.h

class Writer {
 public:
  // A call waits at most `busy_timeout_ms` for a lock that another process holds.
  static absl::StatusOr<std::unique_ptr<Writer>> Open(const std::string& path, const Clock& clock = Clock::Real(),
                                                      int busy_timeout_ms = 5000);
  ~Writer();

  absl::StatusOr<int64_t> AddExecution(const ExecutionRecord& execution);

  // Inserts the job, its variants, metrics and cells, in state queued. INVALID_ARGUMENT when request_id was used with
  // another body; a job of an earlier version, whose body_sha256 is its spec's, is the same if the spec is.
  absl::StatusOr<AddedJob> AddJob(const NewJob& job);
  // The job that was created with this request_id and body, if any.
  absl::StatusOr<std::optional<int64_t>> FindRequest(const std::string& request_id, const std::string& body_sha256);
  // All jobs of requests with this body, the newest first.
  absl::StatusOr<std::vector<int64_t>> FindBody(const std::string& body_sha256);

  // Changes the state of a job; FAILED_PRECONDITION names both states when the transition is not one of
  //   queued -> running, cancelled;  running -> queued, succeeded, failed, cancelling, cancelled;
  //   cancelling -> cancelled;
  //   succeeded, failed, cancelled -> queued (resume).
  // Start and end times are set with the transition: no time is before an earlier one of the job, and a run started by
  // this process has its true duration even if the wall clock is set meanwhile. `error` is kept for failed, else
  // cleared.
  absl::Status SetJobState(int64_t job_id, JobState state, const std::string& error = "");

  // Queues a finished job again. Whether its answers may be mixed is stored until the next resume.
  absl::Status ResumeJob(int64_t job_id, bool allow_mixed);
  absl::StatusOr<bool> IsMixingAllowed(int64_t job_id);

  // See db/delete_job.h. NOT_FOUND no such job; FAILED_PRECONDITION it is queued, running or cancelling, where `only_ended`.
  absl::StatusOr<DeletedJob> DeleteJob(int64_t job_id, bool only_ended = true);

  // Models loaded by calls. The same name again replaces the directory; forgetting an unknown name is not an error.
  absl::Status RememberModel(const CalledModel& model);
  absl::Status ForgetModel(const std::string& name);
  absl::StatusOr<std::vector<CalledModel>> CalledModels();  // by name

  // Recovery at start: a job that a killed process left running is queued again, one in cancelling is cancelled. A job
  // with kChargedStartsMax charged starts becomes failed: it would end this process too. The jobs that wait because of
  // earlier ends, each with the time of this process from which on it may start.
  struct WaitingJob {
    int64_t job_id = 0;
    int64_t unended_count = 0;
    int64_t lived_us = 0;  // of the last start
    int64_t due_us = 0;    // since this writer was opened
  };
  absl::StatusOr<std::vector<WaitingJob>> RecoverInterruptedJobs();
  // The oldest one that need not wait; none when there is none.
  absl::StatusOr<std::optional<int64_t>> NextQueuedJob();
  int64_t UptimeMicros() const;  // since this writer was opened
  // A queued job that waits may start now, as if it never had.
  absl::Status ForgetStarts(int64_t job_id);
  // Notes now and then that this process runs the job, while it has no sample yet; called every second.
  absl::Status NoteRunning(int64_t job_id);

  // Refuses (FAILED_PRECONDITION, naming both sides) to continue a job whose answers came from another code version,
  // backend or instruction set unless allow_mixed, and always when a variant's model is another one. `variants` are the
  // variants as they would run now; those not listed are not compared.
  absl::Status CheckResume(int64_t job_id, int64_t execution_id, const std::vector<VariantRecord>& variants,
                           bool allow_mixed);

  // Where a job of an earlier version recorded no function of its models, records those that were accepted, so that it goes
  // on with no others.
  absl::Status RecordFunctions(int64_t job_id, const std::vector<VariantRecord>& variants);

  absl::StatusOr<std::vector<CellRow>> Cells(int64_t job_id);

  // Sample indices of a cell without an answer (db/resume.h), ascending.
  absl::StatusOr<std::vector<int64_t>> ReadPendingSamples(int64_t cell_id);

  // All of them in one transaction, with one fsync, or none. Of the first outcome that has one: FAILED_PRECONDITION when
  // the sample exists with another prompt (the task or the tokenizer changed since), INVALID_ARGUMENT when scores and
  // metrics of the task do not match.
  absl::StatusOr<std::vector<RecordResult>> RecordSamples(absl::Span<const Outcome> outcomes);
  absl::StatusOr<RecordResult> RecordSample(const Outcome& outcome);  // for tests: one of them

  // All or nothing. Replaces an earlier imported value of the same metric and answer. INVALID_ARGUMENT when a value is
  // not from 0 to 1, the metric's name lacks the prefix, or an answer is not the variant's.
  absl::Status ImportScores(int64_t job_id, const std::vector<ScoreImport>& imports);

  // DATA_LOSS when the database file, its write-ahead log or its lock file was deleted, moved or replaced. Checked
  // before every change and before it is acknowledged.
  absl::Status CheckFiles() const;

  // Checkpoints the write-ahead log into the database file, so that the file alone is complete. UNAVAILABLE when a
  // reader blocks it for more than 0.2 s.
  absl::Status Checkpoint();

 private:
  explicit Writer(std::unique_ptr<WriterState> state);
  std::unique_ptr<WriterState> state_;
};

}  // namespace varifocal::db
