#include "server/jobs/job_manager.h"

#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/parameters.h"
#include "server/jobs/job_records.h"
#include "server/jobs/running_job.h"

namespace varifocal {
namespace {

absl::Status NoSuchJob(int64_t job_id) {
  return WithReason(NotFound("no job ", JobName(job_id), " in this database; `varifocal list` shows its jobs"),
                    ErrorReason::kJobNotFound, {{"job", JobName(job_id)}});
}

}  // namespace

JobManager::JobManager(ModelHost* host, const JobManagerOptions& options) : host_(host), options_(options) {}

absl::StatusOr<std::unique_ptr<JobManager>> JobManager::Create(ModelHost* host, const JobManagerOptions& options) {
  auto manager = std::unique_ptr<JobManager>(new JobManager(host, options));
  ASSIGN_OR_RETURN(manager->writer_, db::Writer::Open(options.database_path, *options.clock, options.busy_timeout_ms));
  ASSIGN_OR_RETURN(manager->reader_, db::Reader::Open(options.database_path));
  ASSIGN_OR_RETURN(manager->list_reader_, db::Reader::Open(options.database_path));
  ASSIGN_OR_RETURN(const std::vector<db::Writer::WaitingJob> waiting, manager->writer_->RecoverInterruptedJobs());
  MutexLock lock(manager->mutex_);
  for (const db::Writer::WaitingJob& job : waiting) {
    manager->waiting_[job.job_id] = job;
    Log(LogLevel::kWarning, "job_waits", {{"job", JobName(job.job_id)}, {"reason", manager->WhyItWaits(job)}});
  }
  return manager;
}

std::string JobManager::WhyItWaits(const db::Writer::WaitingJob& job) const {
  const int64_t left_us = std::max<int64_t>(job.due_us - writer_->UptimeMicros(), 0);
  return absl::StrCat(
      "the daemon ended ", job.unended_count, " times while this job ran and before an answer was recorded, ",
      "the last time ", job.lived_us / 1'000'000, " s or more after its start; it starts again in ",
      (left_us + 999'999) / 1'000'000, " s, or at once with `varifocal resume ", JobName(job.job_id), "`");
}

void JobManager::Start() {
  thread_ = std::thread([this] { RunJobs(); });
  pthread_setname_np(thread_.native_handle(), "vf-job");
}

JobManager::~JobManager() { Stop(); }

void JobManager::Stop() {
  std::shared_ptr<Runner> runner;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    if (running_ != nullptr) runner = running_->runner;
  }
  wake_.NotifyAll();
  // Outside the lock: the runner's hooks take it.
  if (runner != nullptr) runner->Cancel();
  if (thread_.joinable()) thread_.join();
}

absl::Status CheckSpecBytes(const std::string& spec_json) {
  if (spec_json.size() <= kSpecBytesMax) return absl::OkStatus();
  return WithReason(InvalidArgument("the specification has ", spec_json.size(), " bytes, the limit is ", kSpecBytesMax),
                    ErrorReason::kBadJobSpec);
}

absl::Status CheckRequestId(absl::string_view request_id) {
  if (request_id.size() <= kRequestIdBytesMax) return absl::OkStatus();
  return WithReason(InvalidArgument("request_id has ", request_id.size(), " bytes, the limit is ", kRequestIdBytesMax),
                    ErrorReason::kBadRequestId, {{"field", "request_id"}});
}

absl::StatusOr<JobView> JobManager::Submit(JobSpec spec, const SubmitOptions& options) {
  const std::string& request_id = options.request_id;
  RETURN_IF_ERROR(CheckRequestId(request_id));
  if (!request_id.empty() && !options.body_sha256.empty()) {
    // Before the spec is validated: the first call was accepted, and its models and files may have changed since.
    ASSIGN_OR_RETURN(const std::optional<int64_t> known, writer_->FindRequest(request_id, options.body_sha256));
    if (known.has_value()) return Submitted(*known, /*is_repeated=*/true);
  }
  if (options.reuse_equal_job && request_id.empty()) {
    ASSIGN_OR_RETURN(const std::optional<int64_t> known, FindUnchanged(options));
    if (known.has_value()) return Submitted(*known, /*is_repeated=*/true);
    // Of two calls at once, one creates the job.
    SubmitOptions first = options;
    first.request_id = options.body_sha256.substr(0, 32);
    return Submit(std::move(spec), first);
  }
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
  RETURN_IF_ERROR(CheckLengthsArePossible(job, options.is_abandoned));
  db::NewJob row;
  row.suite = job.spec.suite.name;
  row.spec_json = ToCanonicalJson(job.spec);
  RETURN_IF_ERROR(CheckSpecBytes(row.spec_json));
  row.data_seed = job.spec.suite.seed;
  if (!request_id.empty()) row.request_id = request_id;
  row.body_sha256 = options.body_sha256.empty() ? Sha256Hex(row.spec_json) : options.body_sha256;
  row.variants = job.variants;
  row.metrics = ToTaskMetrics(job.spec);
  row.cells = ToCells(job.grid);
  absl::StatusOr<db::AddedJob> added = absl::UnknownError("not tried yet");
  {
    MutexLock lock(models_mutex_);
    RETURN_IF_ERROR(CheckModelsAreSame(job));
    RETURN_IF_ERROR(CheckQueueHasRoom());
    added = writer_->AddJob(row);
  }
  if (!added.ok()) {
    const bool is_reused = row.request_id && absl::IsInvalidArgument(added.status());
    return is_reused ? WithReason(added.status(), ErrorReason::kRequestIdReused,
                                  {{"requestId", request_id}, {"field", "request_id"}})
                     : added.status();
  }
  if (!added->is_existing) {
    Log(LogLevel::kInfo, "job_submitted",
        {{"job", JobName(added->job_id)},
         {"suite", row.suite},
         {"cells", row.cells.size()},
         {"samples", job.grid.SampleCount()}});
    Wake();
  }
  return Submitted(added->job_id, added->is_existing);
}

// The newest job of the same request that would ask the same questions of the same models today; none when there is no job
// of it at all.
absl::StatusOr<std::optional<int64_t>> JobManager::FindUnchanged(const SubmitOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> jobs, writer_->FindBody(options.body_sha256));
  absl::Status of_newest;
  for (const int64_t job_id : jobs) {
    ASSIGN_OR_RETURN(const db::JobRow row, Row(job_id));
    const absl::Status unchanged = CheckUnchanged(row, options.allow_mixed);
    if (unchanged.ok()) return job_id;
    // A model that is not served, or a file that is not there, is no change of either.
    if (!absl::IsFailedPrecondition(unchanged) && !absl::IsInvalidArgument(unchanged)) return unchanged;
    if (of_newest.ok()) of_newest = unchanged;
  }
  if (jobs.empty()) return std::nullopt;
  return WithReason(FailedPrecondition(JobName(jobs.front()),
                                       " was the same request, but something has changed since: ", of_newest.message(),
                                       "; --new asks everything again, in a job of its own"),
                    ErrorReason::kRequestChanged, {{"job", JobName(jobs.front())}});
}

absl::Status JobManager::CheckUnchanged(const db::JobRow& row, bool allow_mixed) {
  ASSIGN_OR_RETURN(const JobSpec recorded, FromCanonicalJson(row.spec_json));
  // Without the recorded digests, so that the present ones can be stated beside them: a file that is no longer of the task's
  // form is refused before.
  JobSpec spec = recorded;
  for (TaskSpec& task : spec.suite.tasks) task.parameters.erase("sha256");
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
  for (size_t i = 0; i < recorded.suite.tasks.size(); ++i) {
    const TaskSpec &then = recorded.suite.tasks[i], &now = job.spec.suite.tasks[i];
    const std::string &before = GetText(then.parameters, "sha256"), &after = GetText(now.parameters, "sha256");
    if (before == after) continue;
    return FailedPrecondition("the SHA-256 of the data of task \"", then.name, "\" is ", after, ", recorded ", before);
  }
  return CheckResumable(row.job_id, job, allow_mixed);
}

absl::StatusOr<JobView> JobManager::Submitted(int64_t job_id, bool is_repeated) {
  ASSIGN_OR_RETURN(JobView view, Get(job_id, /*with_cells=*/false));
  view.is_repeated = is_repeated;
  return view;
}

// The names still refer to the models against which the job was checked.
absl::Status JobManager::CheckModelsAreSame(const ResolvedJob& job) const {
  for (const std::shared_ptr<HostedModel>& model : job.models) {
    ASSIGN_OR_RETURN(const std::shared_ptr<HostedModel> now, host_->Find(model->name));
    if (now == model) continue;
    return WithReason(
        absl::AbortedError(absl::StrCat("model \"", model->name, "\" was reloaded while the job was being checked")),
        ErrorReason::kModelChanged, {{"model", model->name}});
  }
  return absl::OkStatus();
}

absl::Status JobManager::CheckQueueHasRoom() {
  ASSIGN_OR_RETURN(const int64_t queued_count, reader_->CountQueued(kQueuedJobsMax));
  if (queued_count < kQueuedJobsMax) return absl::OkStatus();
  return WithReason(ResourceExhausted(queued_count, " jobs are queued, the limit is ", kQueuedJobsMax),
                    ErrorReason::kQueueFull, {{"limit", absl::StrCat(kQueuedJobsMax)}});
}

absl::StatusOr<JobEstimate> JobManager::Estimate(JobSpec spec, const std::function<bool()>& is_abandoned) {
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
  RETURN_IF_ERROR(CheckSpecBytes(ToCanonicalJson(job.spec)));
  return EstimateJob(job.spec, job.grid, job.models, is_abandoned);
}

absl::StatusOr<db::JobRow> JobManager::Row(int64_t job_id) {
  absl::StatusOr<db::JobRow> row = reader_->Job(job_id);
  if (absl::IsNotFound(row.status())) return NoSuchJob(job_id);
  return row;
}

absl::StatusOr<JobView> JobManager::ToView(db::JobRow row, bool with_cells) {
  JobView view;
  const int64_t job_id = row.job_id;
  view.row = std::move(row);
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader_->Variants(job_id));
  for (const db::VariantRecord& variant : variants) view.variants.push_back(variant.name);
  if (with_cells) {
    ASSIGN_OR_RETURN(view.cells, reader_->Cells(job_id));
  }
  // It reads every answer, and a running job is watched several times a second.
  if (with_cells && view.row.failed_count > 0 && db::IsSettled(view.row.state)) {
    ASSIGN_OR_RETURN(view.failures, reader_->Failures(job_id));
  }
  MutexLock lock(mutex_);
  const auto waiting = waiting_.find(job_id);
  if (waiting != waiting_.end() && view.row.state == db::JobState::kQueued &&
      waiting->second.due_us > writer_->UptimeMicros()) {
    view.paused_reason = WhyItWaits(waiting->second);
  }
  if (running_ != nullptr && running_->job_id == job_id) {
    const int64_t now_us = options_.clock->MonotonicMicros();
    view.tokens_per_second = running_->meter.TokensPerSecond(now_us);
    view.remaining_seconds = running_->meter.RemainingSeconds(now_us);
    view.elapsed_seconds = running_->meter.ElapsedSeconds(now_us);
    view.token_count = running_->progress.prompt_token_count + running_->progress.new_token_count;
    // Pending writes.
    if (view.row.state == db::JobState::kRunning && running_->cancel_requested)
      view.row.state = db::JobState::kCancelling;
    view.paused_reason = running_->paused_reason;
    if (!running_->lost_reason.empty()) {
      view.row.state = db::JobState::kFailed;
      view.remaining_seconds = -1;
      view.row.error = running_->lost_reason;
    }
  }
  return view;
}

absl::StatusOr<JobView> JobManager::Get(int64_t job_id, bool with_cells) {
  ASSIGN_OR_RETURN(db::JobRow row, Row(job_id));
  return ToView(std::move(row), with_cells);
}

absl::StatusOr<std::vector<JobView>> JobManager::List(int64_t before_id, int64_t limit) {
  ASSIGN_OR_RETURN(std::vector<db::JobRow> rows, list_reader_->Jobs(before_id, limit));
  std::vector<JobView> views;
  for (db::JobRow& row : rows) {
    ASSIGN_OR_RETURN(JobView view, ToView(std::move(row), /*with_cells=*/false));
    views.push_back(std::move(view));
  }
  return views;
}

absl::StatusOr<JobView> JobManager::Cancel(int64_t job_id) {
  std::shared_ptr<Runner> runner;
  {
    MutexLock states(states_mutex_);
    ASSIGN_OR_RETURN(const db::JobRow row, Row(job_id));
    switch (row.state) {
      case db::JobState::kQueued:
        RETURN_IF_ERROR(Move(job_id, db::JobState::kCancelled));
        break;
      case db::JobState::kRunning: {
        bool is_in_hand = false;
        bool is_paused = false;
        {
          MutexLock lock(mutex_);
          if (running_ != nullptr && running_->job_id == job_id) {
            is_in_hand = running_->cancel_requested = true;
            is_paused = !running_->paused_reason.empty() || !running_->lost_reason.empty();
            runner = running_->runner;
          }
        }
        if (runner != nullptr) runner->Cancel();
        // While the database is blocked the request is kept in memory: the end of the job is written later.
        if (is_paused) break;
        const absl::Status moved = Move(job_id, is_in_hand ? db::JobState::kCancelling : db::JobState::kCancelled);
        if (!moved.ok() && !(is_in_hand && db::IsBlocked(moved))) return moved;
        break;
      }
      case db::JobState::kCancelling:
      case db::JobState::kCancelled:
        break;
      case db::JobState::kSucceeded:
      case db::JobState::kFailed:
        return WithReason(FailedPrecondition(JobName(job_id), " has ", db::JobStateName(row.state),
                                             "; only a queued or running job can be cancelled"),
                          ErrorReason::kJobFinished,
                          {{"job", JobName(job_id)}, {"state", db::JobStateName(row.state)}});
    }
  }
  Wake();  // it may be waiting for a retry
  return Get(job_id, /*with_cells=*/false);
}

absl::StatusOr<JobView> JobManager::Resume(int64_t job_id, bool allow_mixed) {
  ASSIGN_OR_RETURN(const db::JobRow before, Row(job_id));
  if (before.state == db::JobState::kCancelling) {
    return WithReason(FailedPrecondition(JobName(job_id), " is being cancelled; resume it when it is"),
                      ErrorReason::kJobCancelling, {{"job", JobName(job_id)}});
  }
  const bool is_complete = before.state == db::JobState::kSucceeded && before.answered_count == before.planned_count;
  if (db::IsSettled(before.state) && !is_complete) {
    ASSIGN_OR_RETURN(JobSpec spec, FromCanonicalJson(before.spec_json));
    ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
    RETURN_IF_ERROR(CheckResumable(job_id, job, allow_mixed));
    MutexLock models(models_mutex_);
    RETURN_IF_ERROR(CheckModelsAreSame(job));
    MutexLock states(states_mutex_);
    // Two resumes at once: the second finds it queued already.
    ASSIGN_OR_RETURN(const db::JobRow now, Row(job_id));
    if (db::IsSettled(now.state)) {
      RETURN_IF_ERROR(writer_->ResumeJob(job_id, allow_mixed));
      OnStateWritten(job_id, db::JobState::kQueued);
    }
  } else {
    bool waits = false;
    {
      MutexLock lock(mutex_);
      waits = waiting_.erase(job_id) > 0;
    }
    if (waits) RETURN_IF_ERROR(writer_->ForgetStarts(job_id));
    MutexLock lock(mutex_);
    if (running_ != nullptr && running_->job_id == job_id) running_->retry_now = !running_->paused_reason.empty();
  }
  Wake();
  return Get(job_id, /*with_cells=*/false);
}

absl::StatusOr<db::DeletedJob> JobManager::Delete(int64_t job_id) {
  MutexLock states(states_mutex_);
  ASSIGN_OR_RETURN(const db::JobRow row, Row(job_id));
  {
    // Its row has its final state shortly before the job thread releases it.
    MutexLock lock(mutex_);
    if (running_ != nullptr && running_->job_id == job_id && db::IsSettled(row.state))
      return Unavailable(JobName(job_id), " is just ending; try again");
  }
  ASSIGN_OR_RETURN(db::DeletedJob deleted, writer_->DeleteJob(job_id));
  CountChange(job_id);
  Log(LogLevel::kInfo, "job_deleted", {{"job", JobName(job_id)}, {"generations", deleted.generation_count}});
  return deleted;
}

absl::StatusOr<db::JoinedJudgments> JobManager::ImportScores(const db::Judgments& judgments) {
  if (judgments.job_id.has_value()) RETURN_IF_ERROR(Row(*judgments.job_id).status());
  // Of its own: it reads every answer of a variant, and other calls do not wait for that.
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(options_.database_path));
  absl::StatusOr<db::JoinedJudgments> joined = db::JoinJudgments(*reader, judgments);
  if (absl::IsInvalidArgument(joined.status())) return WithReason(joined.status(), ErrorReason::kBadScores);
  RETURN_IF_ERROR(joined.status());
  RETURN_IF_ERROR(writer_->ImportScores(joined->job_id, joined->imports));
  CountChange(joined->job_id);
  Log(LogLevel::kInfo, "scores_imported",
      {{"job", JobName(joined->job_id)}, {"source", judgments.source}, {"scores", joined->value_count}});
  return joined;
}

absl::Status JobManager::CheckResumable(int64_t job_id, const ResolvedJob& job, bool allow_mixed) {
  for (const std::shared_ptr<HostedModel>& model : job.models) {
    ASSIGN_OR_RETURN(const int64_t execution_id, ExecutionFor(model->provenance));
    // A different model is refused even with allow_mixed.
    RETURN_IF_ERROR(WithReason(writer_->CheckResume(job_id, execution_id, job.variants, /*allow_mixed=*/true),
                               ErrorReason::kModelChanged, {{"job", JobName(job_id)}}));
    RETURN_IF_ERROR(WithReason(writer_->CheckResume(job_id, execution_id, job.variants, allow_mixed),
                               ErrorReason::kMixedExecution, {{"job", JobName(job_id)}}));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> JobManager::ExecutionFor(const ModelProvenance& provenance) {
  const std::string key =
      absl::StrCat(provenance.backend, " ", provenance.isa, " ", provenance.device, " ", provenance.threads);
  MutexLock lock(executions_mutex_);
  const auto known = executions_.find(key);
  if (known != executions_.end()) return known->second;
  const db::ExecutionRecord record = ToExecutionRecord(provenance, options_.command_line);
  ASSIGN_OR_RETURN(const int64_t id, writer_->AddExecution(record));
  executions_[key] = id;
  return id;
}

int64_t JobManager::ChangeCount(int64_t job_id) const {
  MutexLock lock(mutex_);
  const auto found = change_counts_.find(job_id);
  return found == change_counts_.end() ? 0 : found->second;
}

absl::StatusOr<std::shared_ptr<HostedModel>> JobManager::LoadModel(const std::string& name,
                                                                   const std::string& directory) {
  ASSIGN_OR_RETURN(std::shared_ptr<HostedModel> model, host_->Load(name, directory));
  if (options_.own_models.count(name) > 0) return model;
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(directory, error).string();
  const absl::Status stored = writer_->RememberModel({name, error ? directory : absolute});
  if (stored.ok()) return model;
  return Annotate(stored, absl::StrCat("model \"", name, "\" is served, but the next start will not load it"));
}

void JobManager::LoadCalledModels() {
  const absl::StatusOr<std::vector<db::CalledModel>> models = writer_->CalledModels();
  if (!models.ok()) {
    Log(LogLevel::kError, "models_not_restored", {{"error", models.status().message()}});
    return;
  }
  for (const db::CalledModel& model : *models) {
    if (options_.own_models.count(model.name) > 0) continue;  // the command line of this start has it
    const absl::Status loaded = host_->Load(model.name, model.directory).status();
    if (loaded.ok()) continue;
    Log(LogLevel::kError, "model_not_restored",
        {{"model", model.name}, {"directory", model.directory}, {"error", loaded.message()}});
  }
}

absl::Status JobManager::CheckUnused(const std::string& model) {
  ASSIGN_OR_RETURN(const std::optional<db::UnfinishedJob> job, reader_->UnfinishedJobOf(model));
  if (!job.has_value()) return absl::OkStatus();
  return WithReason(FailedPrecondition("model \"", model, "\" is needed by ", JobName(job->job_id), ", which is ",
                                       db::JobStateName(job->state)),
                    ErrorReason::kModelInUse, {{"model", model}, {"job", JobName(job->job_id)}});
}

absl::Status JobManager::UnloadModel(const std::string& model) {
  MutexLock lock(models_mutex_);
  RETURN_IF_ERROR(host_->CheckCanUnload(model));
  RETURN_IF_ERROR(CheckUnused(model));
  RETURN_IF_ERROR(writer_->ForgetModel(model));
  return host_->Unload(model);
}

bool JobManager::HasActiveJob() const {
  MutexLock lock(mutex_);
  return running_ != nullptr;
}

bool JobManager::IsPaused() const {
  MutexLock lock(mutex_);
  return running_ != nullptr && !running_->paused_reason.empty();
}

int64_t JobManager::SilentMicros() const {
  const int64_t beat_us = beat_us_;
  return beat_us < 0 ? 0 : options_.clock->MonotonicMicros() - beat_us;
}

absl::Status JobManager::CheckDatabase() const { return writer_->CheckFiles(); }

void JobManager::CountChange(int64_t job_id) {
  MutexLock lock(mutex_);
  ++change_counts_[job_id];
}

void JobManager::Wake() {
  {
    MutexLock lock(mutex_);
    has_news_ = true;
  }
  wake_.NotifyAll();
}

void JobManager::RecordHeartbeat() { beat_us_ = options_.clock->MonotonicMicros(); }

absl::Status JobManager::Move(int64_t job_id, db::JobState state, const std::string& error) {
  RETURN_IF_ERROR(writer_->SetJobState(job_id, state, error));
  OnStateWritten(job_id, state, error);
  return absl::OkStatus();
}

void JobManager::OnStateWritten(int64_t job_id, db::JobState state, const std::string& error) {
  CountChange(job_id);
  if (state == db::JobState::kFailed) {
    Log(LogLevel::kError, "job_state",
        {{"job", JobName(job_id)}, {"state", db::JobStateName(state)}, {"error", error}});
  } else {
    Log(LogLevel::kInfo, "job_state", {{"job", JobName(job_id)}, {"state", db::JobStateName(state)}});
  }
  if (db::IsSettled(state)) {
    MutexLock lock(mutex_);
    waiting_.erase(job_id);
    needs_checkpoint_ = true;
  }
}

}  // namespace varifocal
