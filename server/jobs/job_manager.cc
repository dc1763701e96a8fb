#include "server/jobs/job_manager.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/jobs/database_sink.h"
#include "server/jobs/engine_generator.h"
#include "server/jobs/job_records.h"

namespace varifocal {
namespace {

constexpr size_t kRequestIdBytesMax = 64;

std::string JobName(int64_t job_id) { return absl::StrCat("jobs/", job_id); }

absl::Status NoSuchJob(int64_t job_id) {
  return WithReason(absl::NotFoundError(absl::StrCat("no job ", JobName(job_id), " in this database")),
                    ErrorReason::kJobNotFound, {{"job", JobName(job_id)}});
}

// The sentence that stands in the job. A lost device is no sample's fault: those under way have no record, and are
// asked again like those that were never asked.
std::string WhyItFailed(int64_t job_id, const absl::Status& status) {
  if (!HasReason(status, ErrorReason::kDeviceFaulted)) return std::string(status.message());
  return absl::StrCat(status.message(), "; then `varifocal resume ", JobName(job_id),
                      "` asks the samples that have no answer");
}

}  // namespace

// The job in hand; the runner is there from the moment its samples start.
struct JobManager::Running {
  int64_t job_id = 0;
  bool cancel_requested = false;
  std::shared_ptr<Runner> runner;
  Progress progress;
  ProgressMeter meter;
};

JobManager::JobManager(ModelHost* host, const JobManagerOptions& options) : host_(host), options_(options) {}

absl::StatusOr<std::unique_ptr<JobManager>> JobManager::Create(ModelHost* host, const JobManagerOptions& options) {
  auto manager = std::unique_ptr<JobManager>(new JobManager(host, options));
  ASSIGN_OR_RETURN(manager->writer_, db::Writer::Open(options.database_path, *options.clock));
  ASSIGN_OR_RETURN(manager->reader_, db::Reader::Open(options.database_path));
  RETURN_IF_ERROR(manager->writer_->RecoverInterruptedJobs());
  return manager;
}

void JobManager::Start() {
  thread_ = std::thread([this] { Loop(); });
}

JobManager::~JobManager() { Stop(); }

void JobManager::Stop() {
  std::shared_ptr<Runner> runner;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    if (running_ != nullptr) runner = running_->runner;
  }
  wake_.notify_all();
  // Outside the lock: the runner's hooks take it.
  if (runner != nullptr) runner->Cancel();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<JobView> JobManager::Submit(JobSpec spec, const std::string& request_id) {
  if (request_id.size() > kRequestIdBytesMax) {
    return WithReason(absl::InvalidArgumentError(absl::StrCat("request_id has ", request_id.size(),
                                                              " bytes, the limit is ", kRequestIdBytesMax)),
                      ErrorReason::kBadRequestId, {{"field", "request_id"}});
  }
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
  RETURN_IF_ERROR(CheckLengthsArePossible(job));
  db::NewJob row;
  row.suite = job.spec.suite.name;
  row.spec_json = ToCanonicalJson(job.spec);
  row.data_seed = job.spec.suite.seed;
  if (!request_id.empty()) row.request_id = request_id;
  row.body_sha256 = Sha256Hex(row.spec_json);
  row.variants = job.variants;
  row.metrics = ToTaskMetrics(job.spec);
  row.cells = ToCells(job.grid);
  const absl::StatusOr<db::AddedJob> added = writer_->AddJob(row);
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
    { std::lock_guard<std::mutex> lock(mutex_); }  // the loop is either waiting or has yet to look
    wake_.notify_all();
  }
  return Get(added->job_id, /*with_cells=*/false);
}

absl::StatusOr<JobEstimate> JobManager::Estimate(JobSpec spec) {
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
  return EstimateJob(job.spec, job.grid, job.models);
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
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_ != nullptr && running_->job_id == job_id) {
    const int64_t now_us = options_.clock->MonotonicMicros();
    view.tokens_per_second = running_->meter.TokensPerSecond(now_us);
    view.remaining_seconds = running_->meter.RemainingSeconds(now_us);
    view.elapsed_seconds = running_->meter.ElapsedSeconds(now_us);
    view.token_count = running_->progress.prompt_token_count + running_->progress.new_token_count;
  }
  return view;
}

absl::StatusOr<JobView> JobManager::Get(int64_t job_id, bool with_cells) {
  ASSIGN_OR_RETURN(db::JobRow row, Row(job_id));
  return ToView(std::move(row), with_cells);
}

absl::StatusOr<std::vector<JobView>> JobManager::List(int64_t before_id, int64_t limit) {
  ASSIGN_OR_RETURN(std::vector<db::JobRow> rows, reader_->Jobs(before_id, limit));
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
    std::lock_guard<std::mutex> lock(mutex_);
    ASSIGN_OR_RETURN(const db::JobRow row, Row(job_id));
    switch (row.state) {
      case db::JobState::kQueued:
        RETURN_IF_ERROR(Move(job_id, db::JobState::kCancelled));
        break;
      case db::JobState::kRunning:
        RETURN_IF_ERROR(Move(job_id, db::JobState::kCancelling));
        if (running_ != nullptr && running_->job_id == job_id) {
          running_->cancel_requested = true;
          runner = running_->runner;
        } else {  // its end could not be written down: nobody is left to settle it
          RETURN_IF_ERROR(Move(job_id, db::JobState::kCancelled));
        }
        break;
      case db::JobState::kCancelling:
      case db::JobState::kCancelled:
        break;
      case db::JobState::kSucceeded:
      case db::JobState::kFailed:
        return WithReason(
            absl::FailedPreconditionError(absl::StrCat(JobName(job_id), " has ", db::JobStateName(row.state),
                                                       "; only a queued or running job can be cancelled")),
            ErrorReason::kJobFinished, {{"job", JobName(job_id)}, {"state", db::JobStateName(row.state)}});
    }
  }
  wake_.notify_all();  // it may be waiting to ask again
  if (runner != nullptr) runner->Cancel();
  return Get(job_id, /*with_cells=*/false);
}

absl::StatusOr<JobView> JobManager::Resume(int64_t job_id, bool allow_mixed) {
  ASSIGN_OR_RETURN(const db::JobRow before, Row(job_id));
  if (before.state == db::JobState::kCancelling) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(JobName(job_id), " is being cancelled; resume it when it is")),
        ErrorReason::kJobCancelling, {{"job", JobName(job_id)}});
  }
  const bool is_complete = before.state == db::JobState::kSucceeded && before.answered_count == before.planned_count;
  if (db::IsSettled(before.state) && !is_complete) {
    ASSIGN_OR_RETURN(JobSpec spec, FromCanonicalJson(before.spec_json));
    ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(spec), *host_, options_.in_flight));
    RETURN_IF_ERROR(CheckResumable(job_id, job, allow_mixed));
    std::lock_guard<std::mutex> lock(mutex_);
    // Two resumes at once: the second finds it queued already.
    ASSIGN_OR_RETURN(const db::JobRow now, Row(job_id));
    if (db::IsSettled(now.state)) {
      if (allow_mixed) allow_mixed_.insert(job_id);
      RETURN_IF_ERROR(Move(job_id, db::JobState::kQueued));
    }
  }
  wake_.notify_all();
  return Get(job_id, /*with_cells=*/false);
}

absl::Status JobManager::CheckResumable(int64_t job_id, const ResolvedJob& job, bool allow_mixed) {
  ASSIGN_OR_RETURN(const int64_t execution_id, ExecutionFor(job.models[0]->provenance));
  // What even allow_mixed cannot allow is another model.
  RETURN_IF_ERROR(WithReason(writer_->CheckResume(job_id, execution_id, job.variants, /*allow_mixed=*/true),
                             ErrorReason::kModelChanged, {{"job", JobName(job_id)}}));
  return WithReason(writer_->CheckResume(job_id, execution_id, job.variants, allow_mixed), ErrorReason::kMixedExecution,
                    {{"job", JobName(job_id)}});
}

absl::StatusOr<int64_t> JobManager::ExecutionFor(const ModelProvenance& provenance) {
  const std::string key =
      absl::StrCat(provenance.backend, " ", provenance.isa, " ", provenance.device, " ", provenance.threads);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = executions_.find(key);
  if (known != executions_.end()) return known->second;
  const db::ExecutionRecord record = ToExecutionRecord(provenance, options_.command_line);
  ASSIGN_OR_RETURN(const int64_t id, writer_->AddExecution(record));
  executions_[key] = id;
  return id;
}

int64_t JobManager::ChangeCount(int64_t job_id) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = change_counts_.find(job_id);
  return found == change_counts_.end() ? 0 : found->second;
}

absl::Status JobManager::CheckUnused(const std::string& model) {
  // Unsettled jobs are few and recent, but a job resumed long after its submission may be anywhere: look at all.
  for (int64_t before_id = 0;;) {
    ASSIGN_OR_RETURN(const std::vector<db::JobRow> rows, reader_->Jobs(before_id, 100));
    if (rows.empty()) return absl::OkStatus();
    for (const db::JobRow& row : rows) {
      before_id = row.job_id;
      if (db::IsSettled(row.state)) continue;
      ASSIGN_OR_RETURN(const JobSpec spec, FromCanonicalJson(row.spec_json));
      for (const Variant& variant : spec.variants) {
        if (variant.model != model) continue;
        return WithReason(
            absl::FailedPreconditionError(absl::StrCat("model \"", model, "\" is needed by ", JobName(row.job_id),
                                                       ", which is ", db::JobStateName(row.state))),
            ErrorReason::kModelInUse, {{"model", model}, {"job", JobName(row.job_id)}});
      }
    }
  }
}

void JobManager::Changed(int64_t job_id) { ++change_counts_[job_id]; }

absl::Status JobManager::Move(int64_t job_id, db::JobState state, const std::string& error) {
  RETURN_IF_ERROR(writer_->SetJobState(job_id, state, error));
  Changed(job_id);
  if (state == db::JobState::kFailed) {
    Log(LogLevel::kError, "job_state",
        {{"job", JobName(job_id)}, {"state", db::JobStateName(state)}, {"error", error}});
  } else {
    Log(LogLevel::kInfo, "job_state", {{"job", JobName(job_id)}, {"state", db::JobStateName(state)}});
  }
  return absl::OkStatus();
}

void JobManager::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const absl::StatusOr<std::optional<int64_t>> next = writer_->NextQueuedJob();
    if (next.ok() && !*next) {
      wake_.wait(lock);
      continue;
    }
    const absl::Status moved = next.ok() ? Move(**next, db::JobState::kRunning) : next.status();
    if (!moved.ok()) {  // a full disk, for example: look again rather than spin
      Log(LogLevel::kError, "job_start_failed", {{"error", moved.ToString()}});
      wake_.wait_for(lock, std::chrono::seconds(2));
      continue;
    }
    running_ = std::make_unique<Running>();
    running_->job_id = **next;
    lock.unlock();
    RunJob(**next);
    lock.lock();
  }
}

void JobManager::RunJob(int64_t job_id) {
  const absl::StatusOr<RunOutcome> outcome = RunSamples(job_id);
  std::lock_guard<std::mutex> lock(mutex_);
  absl::Status moved;
  if (running_->cancel_requested) {
    moved = Move(job_id, db::JobState::kCancelled);
  } else if (stopping_ && (!outcome.ok() || *outcome == RunOutcome::kCancelled)) {
    moved = Move(job_id, db::JobState::kQueued);
  } else if (!outcome.ok()) {
    moved = Move(job_id, db::JobState::kFailed, WhyItFailed(job_id, outcome.status()));
  } else {
    moved = Move(job_id, db::JobState::kSucceeded);
  }
  // The row then still says running, which the next start of a daemon repairs.
  if (!moved.ok()) Log(LogLevel::kError, "job_end_failed", {{"job", JobName(job_id)}, {"error", moved.ToString()}});
  running_.reset();
}

absl::StatusOr<RunOutcome> JobManager::RunSamples(int64_t job_id) {
  ASSIGN_OR_RETURN(const db::JobRow row, Row(job_id));
  ASSIGN_OR_RETURN(JobSpec stored, FromCanonicalJson(row.spec_json));
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(stored), *host_, options_.in_flight));
  bool allow_mixed = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    allow_mixed = allow_mixed_.count(job_id) > 0;
  }
  RETURN_IF_ERROR(CheckResumable(job_id, job, allow_mixed));

  DatabaseSink::Options sink_options;
  sink_options.job_id = job_id;
  sink_options.keep_prompts = job.spec.keep_prompts;
  std::map<const HostedModel*, std::unique_ptr<EngineGenerator>> generators;  // variants of a model share one
  std::vector<RunVariant> run_variants;
  for (size_t i = 0; i < job.models.size(); ++i) {
    const auto& model = job.models[i];
    auto& generator = generators[model.get()];
    if (generator == nullptr) generator = std::make_unique<EngineGenerator>(model);
    run_variants.push_back(
        {generator.get(), MakeTokenCounter(model->tokenizer), MakeTokenCounter(model->tokenizer, model->chat_format)});
    ASSIGN_OR_RETURN(sink_options.execution_ids[job.variants[i].name], ExecutionFor(model->provenance));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DatabaseSink> sink,
                   DatabaseSink::Create(writer_.get(), std::move(sink_options)));

  RunnerHooks hooks;
  hooks.on_progress = [this, job_id](const Progress& progress) {
    std::lock_guard<std::mutex> lock(mutex_);
    running_->progress = progress;
    running_->meter.Update(progress, options_.clock->MonotonicMicros());
    Changed(job_id);
  };
  hooks.wait_before_retry = [this](int attempt_count) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto pause = std::chrono::milliseconds(100 << std::min(attempt_count, 5));
    wake_.wait_for(lock, pause, [this] { return stopping_ || running_->cancel_requested; });
  };
  auto runner = std::make_shared<Runner>(job.spec, run_variants, sink.get(), std::move(hooks));
  bool stop_at_once = false;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    running_->runner = runner;
    stop_at_once = stopping_ || running_->cancel_requested;
  }
  if (stop_at_once) runner->Cancel();
  const absl::StatusOr<RunOutcome> outcome = runner->Run();
  std::lock_guard<std::mutex> lock(mutex_);
  running_->runner.reset();
  return outcome;
}

}  // namespace varifocal
