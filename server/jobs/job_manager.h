// The daemon's queue of jobs: durable in the database, one job at a time, oldest first.
//
//   submit -> QUEUED -> RUNNING -> SUCCEEDED | FAILED
//                  \         \-> CANCELLING -> CANCELLED        resume: SUCCEEDED, FAILED, CANCELLED -> QUEUED
//                   \-> CANCELLED
//
// While the database cannot be written (the disk is full, another process holds its lock) the job in hand is paused: its
// row still says running, its view has a paused_reason, and the write is tried again with growing pauses until it
// succeeds, the job is cancelled, or the manager stops. So is the write of its end. Once the files of the database are
// deleted or replaced (DATA_LOSS) the job in hand is shown as failed, and nothing else runs.
//
// Everything a job needs is in its row, so a job survives any death of the daemon: what a dead daemon left running is
// queued again when the next one starts and goes on by itself, with exactly the samples that are missing; what was
// being cancelled is cancelled. A job whose answers so far come from another code version, backend or instruction set
// is not mixed silently: it becomes FAILED and says how to resume it. An orderly Stop puts the running job back in the
// queue and its samples under way are asked again by the next daemon.
//
// Errors:  NOT_FOUND (JOB_NOT_FOUND, MODEL_NOT_FOUND), INVALID_ARGUMENT (BAD_FOCAL_TEMPERATURE, CONTEXT_TOO_LONG,
//          REQUEST_ID_REUSED, ..), FAILED_PRECONDITION (JOB_FINISHED, MIXED_EXECUTION, MODEL_WITHOUT_TOKENIZER), and
//          the database's own.
// Threads: any; jobs run on a thread of the manager. Calls wait for the database, so not from gRPC's own threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "db/reader.h"
#include "db/writer.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/runner.h"
#include "server/hosting/model_host.h"
#include "server/jobs/job_estimate.h"
#include "server/jobs/progress_meter.h"
#include "server/jobs/resolved_job.h"

namespace varifocal {

struct JobManagerOptions {
  std::string database_path;
  std::string command_line;             // of this process, for the record
  std::set<std::string> own_models;     // named by this process itself, so not to be remembered
  int in_flight = 8;                    // for jobs that do not say
  int busy_timeout_ms = 5000;           // how long a write waits for another process's lock before the job is paused
  const Clock* clock = &Clock::Real();  // also of the pauses between attempts
};

// Who asks for a job, for the calls that may take long.
struct SubmitOptions {
  std::string request_id;              // empty: every call makes a job
  std::string body_sha256;             // of the request as it was sent; empty: the resolved spec's
  std::function<bool()> is_abandoned;  // looked at between steps; true ends the call with CANCELLED, nothing is stored
};

// A job as it is now.
struct JobView {
  db::JobRow row;
  std::vector<std::string> variants;
  std::vector<db::CellRow> cells;  // empty unless asked for
  double tokens_per_second = 0;    // these four are 0 (remaining: -1) unless it runs
  double remaining_seconds = -1;
  double elapsed_seconds = 0;
  int64_t token_count = 0;
  std::string paused_reason;  // why it waits although its row says running; empty: it does not
};

class JobManager {
 public:
  // Takes the database and recovers what a dead daemon left behind. `host` outlives the manager.
  static absl::StatusOr<std::unique_ptr<JobManager>> Create(ModelHost* host, const JobManagerOptions& options);
  ~JobManager();  // Stop

  // Begins to run jobs: once, when the models are there.
  void Start();

  // `spec` need not be validated; in_flight 0 takes the manager's. The same request_id and body give the first job back,
  // whatever has become of its models and data since.
  absl::StatusOr<JobView> Submit(JobSpec spec, const SubmitOptions& options);
  absl::StatusOr<JobEstimate> Estimate(JobSpec spec, const std::function<bool()>& is_abandoned = {});
  absl::StatusOr<JobView> Get(int64_t job_id, bool with_cells);
  absl::StatusOr<std::vector<JobView>> List(int64_t before_id,
                                            int64_t limit);  // newest first; before_id 0: from the top
  absl::StatusOr<JobView> Cancel(int64_t job_id);
  absl::StatusOr<JobView> Resume(int64_t job_id, bool allow_mixed);

  // Grows whenever anything about the job may have changed; cheap enough to poll.
  int64_t ChangeCount(int64_t job_id) const;
  // ModelHost::Load, and the model is loaded again when the next daemon of this database starts. An error when that
  // cannot be stored; the model is served then, and the same call again stores it.
  absl::StatusOr<std::shared_ptr<HostedModel>> LoadModel(const std::string& name, const std::string& directory);
  // At start: loads what calls of earlier daemons loaded. What cannot be loaded any more is logged, and tried again by the
  // next start; a job that needs it fails and says so.
  void LoadCalledModels();
  // FAILED_PRECONDITION (MODEL_IN_USE) while a queued or running job names the model.
  absl::Status CheckUnused(const std::string& model);
  // CheckUnused and ModelHost::Unload; no job is accepted in between, and the next start does not load it.
  absl::Status UnloadModel(const std::string& model);

  // Whether a job is running or paused.
  bool HasJobInHand() const;
  // Microseconds since the thread of the jobs last showed that it is alive; 0 while it has nothing to do.
  int64_t SilentMicros() const;
  // The first error that concerns the database as a whole: DATA_LOSS when its files are not what was opened.
  absl::Status CheckDatabase() const;

  // Cancels what is under way, puts the running job back in the queue, ends the thread. Idempotent.
  void Stop();

 private:
  struct Running;

  JobManager(ModelHost* host, const JobManagerOptions& options);
  absl::StatusOr<int64_t> ExecutionFor(const ModelProvenance& provenance);
  absl::Status CheckResumable(int64_t job_id, const ResolvedJob& job, bool allow_mixed);
  absl::Status CheckModelsAreSame(const ResolvedJob& job) const;
  absl::StatusOr<db::JobRow> Row(int64_t job_id);
  absl::StatusOr<JobView> ToView(db::JobRow row, bool with_cells);
  absl::Status Move(int64_t job_id, db::JobState state, const std::string& error = "");
  void Moved(int64_t job_id, db::JobState state, const std::string& error = "");  // the news of it
  void Changed(int64_t job_id);
  void Wake();

  void Loop();
  absl::StatusOr<bool> TakeNextJob();
  void RunJob(int64_t job_id);
  absl::StatusOr<RunOutcome> RunSamples(int64_t job_id);
  void Settle(int64_t job_id, const absl::StatusOr<RunOutcome>& outcome);
  void TryCheckpoint();

  // Waits before attempt `attempt_count` + 1 at a write of the job in hand that failed with `status`. False when there
  // shall be no further attempt: the manager stops or, unless `also_cancelled`, the job is cancelled.
  bool Pause(const absl::Status& status, int attempt_count, bool also_cancelled);
  void EndPause();
  // The call, again and again while the database is blocked.
  template <typename Call>
  auto WhileBlocked(Call&& call) -> decltype(call());
  void Beat();

  ModelHost* const host_;
  const JobManagerOptions options_;
  std::unique_ptr<db::Writer> writer_;
  std::unique_ptr<db::Reader> reader_;

  // Locks are taken in this order. The first three are held while the database is written, which may take as long as
  // the busy timeout; mutex_ never is, so that looking at a job does not wait for a write.
  std::mutex models_mutex_;      // a job is accepted, or a model is unloaded
  std::mutex states_mutex_;      // every change of a job's state
  std::mutex executions_mutex_;  // guards executions_
  mutable std::mutex mutex_;     // guards what follows
  std::condition_variable wake_;
  bool stopping_ = false;
  bool has_news_ = false;  // the queue may have changed since the loop looked
  bool needs_checkpoint_ = false;
  std::unique_ptr<Running> running_;
  std::map<int64_t, int64_t> change_counts_;

  std::map<std::string, int64_t> executions_;  // by backend, instruction set, device and threads
  std::atomic<int64_t> beat_us_{-1};           // -1 while there is nothing to do

  std::thread thread_;
};

}  // namespace varifocal
