// The daemon's queue of jobs: durable in the database, one job at a time, oldest first.
//
//   submit -> QUEUED -> RUNNING -> SUCCEEDED | FAILED
//                  \         \-> CANCELLING -> CANCELLED        resume: SUCCEEDED, FAILED, CANCELLED -> QUEUED
//                   \-> CANCELLED
//
// While the database cannot be written (the disk is full, another process holds its lock) the current job is paused:
// its row remains in state running, its view has a paused_reason, and the write is retried with exponential backoff
// until it succeeds, the job is cancelled, or the manager stops. The same applies to the write of its end. Once the
// files of the database are deleted or replaced (DATA_LOSS) the current job is shown as failed, and no other job runs.
//
// The row of a job is complete, so a job survives a crash of the daemon: the next start queues a job left running again
// and runs exactly its missing samples; a job in state cancelling is cancelled. A job whose earlier answers come from
// another code version, backend or instruction set is not mixed silently: it becomes FAILED with a message on how to
// resume it. Stop puts the running job back in the queue; the next daemon runs its unfinished samples again.
//
// Errors:  NOT_FOUND (JOB_NOT_FOUND, MODEL_NOT_FOUND), INVALID_ARGUMENT (BAD_FOCAL_TEMPERATURE, CONTEXT_TOO_LONG,
//          REQUEST_ID_REUSED, ..), RESOURCE_EXHAUSTED (QUEUE_FULL),
//          FAILED_PRECONDITION (JOB_FINISHED, MIXED_EXECUTION, MODEL_WITHOUT_TOKENIZER), and
//          the database's own.
// Threads: any; jobs run on a thread of the manager. Calls block on the database, so not from gRPC's own threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "db/delete_job.h"
#include "db/judgments.h"
#include "db/reader.h"
#include "db/writer.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/runner.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/progress_meter.h"
#include "server/jobs/resolved_job.h"
#include "server/jobs/sample_counts.h"

namespace varifocal {

// Jobs that wait; further ones are refused.
inline constexpr int64_t kQueuedJobsMax = 10'000;
inline constexpr size_t kRequestIdBytesMax = 64;
// Of a job as it is stored, JSON with all its texts.
inline constexpr size_t kSpecBytesMax = 1 << 20;

absl::Status CheckRequestId(absl::string_view request_id);
absl::Status CheckSpecBytes(const std::string& spec_json);

struct JobManagerOptions {
  std::string database_path;
  std::string command_line;             // of this process, for provenance
  std::set<std::string> own_models;     // given on the command line, so not stored
  int in_flight = 0;                    // for jobs without a value; 0: 8 for each copy of a model
  int busy_timeout_ms = 5000;           // how long a write waits for another process's lock before the job is paused
  const Clock* clock = &Clock::Real();  // also of the pauses between attempts
};

// The caller's request id and cancellation, for long calls.
struct SubmitOptions {
  std::string request_id;        // empty: every call creates a job
  std::string body_sha256;       // of the request as it was sent; empty: the resolved spec's
  bool reuse_equal_job = false;  // without request_id, see SubmitJobRequest
  bool allow_mixed = false;
  std::function<bool()> is_abandoned;  // polled between steps; true ends the call with CANCELLED, nothing is stored
};

// The current state of a job.
struct JobView {
  db::JobRow row;
  std::vector<std::string> variants;
  std::vector<db::CellRow> cells;          // empty unless requested
  std::vector<db::FailureGroup> failures;  // likewise, and until the job has ended
  double tokens_per_second = 0;            // these four are 0 (remaining: -1) unless it runs
  double remaining_seconds = -1;
  double elapsed_seconds = 0;
  int64_t token_count = 0;
  bool is_repeated = false;   // of Submit: the request id was known
  std::string paused_reason;  // why it does not run although its row is in state running or queued; empty: it may
};

struct RunningJob;  // server/jobs/running_job.h

class JobManager {
 public:
  // Takes the database and recovers the jobs of a daemon that crashed. `host` outlives the manager.
  static absl::StatusOr<std::unique_ptr<JobManager>> Create(ModelHost* host, const JobManagerOptions& options);
  ~JobManager();  // Stop

  // Starts running jobs: call once, when the models are loaded.
  void Start();
  // What the thread of Start does: runs jobs until Stop. A simulation calls it instead of Start.
  void RunJobs();

  // `spec` need not be validated; in_flight 0 means the manager's. The same request_id and body return the first job,
  // even if its models or data have changed since.
  absl::StatusOr<JobView> Submit(JobSpec spec, const SubmitOptions& options);
  absl::StatusOr<JobEstimate> Estimate(JobSpec spec, const std::function<bool()>& is_abandoned = {});
  absl::StatusOr<JobView> Get(int64_t job_id, bool with_cells);
  absl::StatusOr<std::vector<JobView>> List(int64_t before_id,
                                            int64_t limit);  // newest first; before_id 0: the first page
  absl::StatusOr<JobView> Cancel(int64_t job_id);
  absl::StatusOr<JobView> Resume(int64_t job_id, bool allow_mixed);
  // Of a job that has ended; see db/delete_job.h. Records of the running job wait for it.
  absl::StatusOr<db::DeletedJob> Delete(int64_t job_id);

  // Scores of stored answers, also of the running job. INVALID_ARGUMENT (BAD_SCORES), NOT_FOUND: see db/judgments.h.
  absl::StatusOr<db::JoinedJudgments> ImportScores(const db::Judgments& judgments);

  // Increases whenever the job may have changed; cheap enough to poll.
  int64_t ChangeCount(int64_t job_id) const;
  // ModelHost::Load, and stores the model to be loaded again at the next start. If that write fails it returns an error
  // but serves the model; the same call again retries the write.
  absl::StatusOr<std::shared_ptr<HostedModel>> LoadModel(const std::string& name, const std::string& directory);
  // At start: loads the stored models. Failures are logged and retried at the next start; a job that needs such a model
  // fails with the reason.
  void LoadCalledModels();
  // FAILED_PRECONDITION (MODEL_IN_USE) while a queued or running job names the model.
  absl::Status CheckUnused(const std::string& model);
  // CheckUnused and ModelHost::Unload, atomic with respect to new jobs; the next start does not load the model.
  absl::Status UnloadModel(const std::string& model);

  // Whether a job is running or paused.
  bool HasActiveJob() const;
  // Microseconds since the last heartbeat of the job thread; 0 while it is idle.
  int64_t SilentMicros() const;
  // The first error of the database as a whole: DATA_LOSS when its files are not the ones that were opened.
  absl::Status CheckDatabase() const;

  const SampleCounts& sample_counts() const { return sample_counts_; }
  // Of the whole database; a paused job counts as running.
  absl::StatusOr<std::vector<db::JobStateCount>> CountJobs() const { return list_reader_->CountJobs(); }
  bool IsPaused() const;

  // Cancels running samples, puts the running job back in the queue, ends the thread. Idempotent.
  void Stop();

 private:
  JobManager(ModelHost* host, const JobManagerOptions& options);
  absl::StatusOr<int64_t> ExecutionFor(const ModelProvenance& provenance);
  absl::StatusOr<std::optional<int64_t>> FindUnchanged(const SubmitOptions& options);
  absl::Status CheckUnchanged(const db::JobRow& row, bool allow_mixed);
  absl::Status CheckResumable(int64_t job_id, const ResolvedJob& job, bool allow_mixed);
  absl::Status CheckModelsAreSame(const ResolvedJob& job) const VF_REQUIRES(models_mutex_);
  absl::Status CheckQueueHasRoom() VF_REQUIRES(models_mutex_);
  absl::StatusOr<JobView> Submitted(int64_t job_id, bool is_repeated);
  absl::StatusOr<db::JobRow> Row(int64_t job_id);
  absl::StatusOr<JobView> ToView(db::JobRow row, bool with_cells);
  absl::Status Move(int64_t job_id, db::JobState state, const std::string& error = "") VF_REQUIRES(states_mutex_)
      VF_EXCLUDES(mutex_);
  void OnStateWritten(int64_t job_id, db::JobState state, const std::string& error = "") VF_REQUIRES(states_mutex_)
      VF_EXCLUDES(mutex_);
  void CountChange(int64_t job_id) VF_EXCLUDES(mutex_);  // for ChangeCount
  void Wake() VF_EXCLUDES(mutex_);
  std::string WhyItWaits(const db::Writer::WaitingJob& job) const;

  absl::StatusOr<std::optional<int64_t>> TakeNextJob();  // none when no job is queued
  void RunJob(int64_t job_id);
  absl::StatusOr<RunOutcome> RunSamples(int64_t job_id);
  void Settle(int64_t job_id, const absl::StatusOr<RunOutcome>& outcome);
  void TryCheckpoint();

  // Waits before attempt `attempt_count` + 1 at a write of the current job that failed with `status`. False for no
  // further attempt: the manager stops or, unless `also_cancelled`, the job is cancelled.
  bool Pause(const absl::Status& status, int attempt_count, bool also_cancelled);
  void EndPause();
  // Retries the call while the database is blocked.
  template <typename Call>
  auto WhileBlocked(Call&& call) -> decltype(call());
  void RecordHeartbeat();

  ModelHost* const host_;
  const JobManagerOptions options_;
  std::unique_ptr<db::Writer> writer_;
  std::unique_ptr<db::Reader> reader_;
  std::unique_ptr<db::Reader> list_reader_;  // of List and CountJobs, so that one job's state does not wait for them

  // The first three are held during database writes, which may take as long as the busy timeout; mutex_ is not, so that
  // reading a job's state does not wait for a write.
  Mutex models_mutex_ VF_ACQUIRED_BEFORE(states_mutex_);      // a job is accepted, or a model is unloaded
  Mutex states_mutex_ VF_ACQUIRED_BEFORE(executions_mutex_);  // every change of a job's state
  Mutex executions_mutex_ VF_ACQUIRED_BEFORE(mutex_);
  mutable Mutex mutex_;
  CondVar wake_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  bool has_news_ VF_GUARDED_BY(mutex_) = false;  // the queue may have changed since the last check
  bool needs_checkpoint_ VF_GUARDED_BY(mutex_) = false;
  std::unique_ptr<RunningJob> running_ VF_GUARDED_BY(mutex_) VF_PT_GUARDED_BY(mutex_);
  std::map<int64_t, int64_t> change_counts_ VF_GUARDED_BY(mutex_);
  std::map<int64_t, db::Writer::WaitingJob> waiting_ VF_GUARDED_BY(mutex_);  // because of earlier ends of the daemon

  SampleCounts sample_counts_;

  // By backend, instruction set, device and threads.
  std::map<std::string, int64_t> executions_ VF_GUARDED_BY(executions_mutex_);
  std::atomic<int64_t> beat_us_{-1};  // -1 while idle

  std::thread thread_;
};

}  // namespace varifocal
