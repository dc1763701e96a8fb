#include "server/jobs/job_manager.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/grid.h"
#include "server/jobs/code_version.h"
#include "server/jobs/database_sink.h"
#include "server/jobs/engine_generator.h"
#include "server/jobs/reason.h"

namespace varifocal {
namespace {

constexpr size_t kRequestIdBytesMax = 64;

std::string JobName(int64_t job_id) { return absl::StrCat("jobs/", job_id); }

absl::Status NoSuchJob(int64_t job_id) {
  return WithReason(absl::NotFoundError(absl::StrCat("no job ", JobName(job_id), " in this database")), "JOB_NOT_FOUND",
                    {{"job", JobName(job_id)}});
}

std::string HostName() {
  char name[256] = "";
  gethostname(name, sizeof(name) - 1);
  return name;
}

// "AMD EPYC 7763 64-Core Processor" for a CPU, the backend's own name for anything else.
std::string DeviceName(const ModelProvenance& provenance) {
  if (provenance.device != "cpu") return provenance.device;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "cpu";
}

Json NumberOrList(const std::vector<double>& values) {
  const bool all_equal = std::all_of(values.begin(), values.end(), [&](double v) { return v == values[0]; });
  return all_equal && !values.empty() ? Json(values[0]) : Json(values);
}

// The attention that a checkpoint says, with the words of its config.json.
Json AttentionJson(const AttentionSetting& setting) {
  switch (setting.mode) {
    case AttentionMode::kBaseline: return Json::object();
    case AttentionMode::kFocalConstant:
      return {{"focal_attention", {{"mode", "constant"}, {"temperature", NumberOrList(setting.temperatures)}}}};
    case AttentionMode::kFocalLearned: break;
  }
  const char* mean = setting.tau_mean == TauMean::kCausal ? "causal" : setting.tau_mean == TauMean::kToken ? "token" : "sequence";
  return {{"focal_attention",
           {{"mode", "learned"}, {"tau_min", setting.tau_min}, {"tau_max", setting.tau_max}, {"tau_mean", mean}}}};
}

db::VariantRecord ToVariantRecord(const Variant& variant, const HostedModel& model) {
  db::VariantRecord record;
  record.name = variant.Name();
  record.model.name = model.name;
  record.model.architecture = model.config.model_type;
  record.model.weights_sha256 = model.provenance.weights_sha256;
  record.model.tokenizer_sha256 = model.provenance.tokenizer_sha256;
  record.model.dtype = model.provenance.dtype;
  record.model.attention_json = AttentionJson(model.config.attention).dump();
  record.model.context_length_max = model.config.max_position;
  record.model.trained_context_length = model.config.trained_context_length;
  if (!variant.focal_temperatures.empty()) {
    record.focal_temperature_json = NumberOrList(variant.focal_temperatures).dump();
  }
  return record;
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

// A spec with everything that it names.
struct JobManager::ResolvedJob {
  JobSpec spec;
  Grid grid;
  std::vector<std::shared_ptr<HostedModel>> models;  // in spec.variants order
  std::vector<db::VariantRecord> variants;
};

JobManager::JobManager(ModelHost* host, const JobManagerOptions& options) : host_(host), options_(options) {}

absl::StatusOr<std::unique_ptr<JobManager>> JobManager::Create(ModelHost* host, const JobManagerOptions& options) {
  auto manager = std::unique_ptr<JobManager>(new JobManager(host, options));
  ASSIGN_OR_RETURN(manager->writer_, db::Writer::Open(options.database_path, *options.clock));
  ASSIGN_OR_RETURN(manager->reader_, db::Reader::Open(options.database_path));
  RETURN_IF_ERROR(manager->writer_->RecoverInterruptedJobs());
  return manager;
}

void JobManager::Start() { thread_ = std::thread([this] { Loop(); }); }

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

absl::StatusOr<JobManager::ResolvedJob> JobManager::Resolve(JobSpec spec) const {
  if (spec.in_flight == 0) spec.in_flight = options_.in_flight;
  ResolvedJob job;
  absl::StatusOr<JobSpec> valid = ValidateJobSpec(std::move(spec));
  if (!valid.ok()) return WithReason(valid.status(), "BAD_JOB_SPEC");
  job.spec = *std::move(valid);
  for (const Variant& variant : job.spec.variants) {
    ASSIGN_OR_RETURN(std::shared_ptr<HostedModel> model, host_->Find(variant.model));
    if (model->tokenizer == nullptr) {
      return WithReason(absl::FailedPreconditionError(absl::StrCat("model \"", model->name, "\" has no tokenizer")),
                        "MODEL_WITHOUT_TOKENIZER", {{"model", model->name}});
    }
    const absl::Status temperatures = CheckFocalTemperatures(model->config, variant.focal_temperatures);
    if (!temperatures.ok()) {
      return WithReason(Annotate(temperatures, absl::StrCat("variant \"", variant.Name(), "\"")), "BAD_FOCAL_TEMPERATURE",
                        {{"variant", variant.Name()}, {"field", "spec.variants"}});
    }
    for (int length : job.spec.suite.lengths) {
      if (length <= model->config.max_position) continue;
      return WithReason(absl::InvalidArgumentError(absl::StrCat("context length ", length, " exceeds the limit of model \"",
                                                                model->name, "\", ", model->config.max_position, " tokens")),
                        "CONTEXT_TOO_LONG",
                        {{"model", model->name}, {"limit", absl::StrCat(model->config.max_position)}, {"field", "spec.suite.lengths"}});
    }
    job.variants.push_back(ToVariantRecord(variant, *model));
    job.models.push_back(std::move(model));
  }
  absl::StatusOr<Grid> grid = MakeGrid(job.spec);
  if (!grid.ok()) return WithReason(grid.status(), "BAD_JOB_SPEC");
  job.grid = *std::move(grid);
  PinData(job.grid, job.spec);  // what is stored names the data it was asked on
  return job;
}

absl::StatusOr<JobView> JobManager::Submit(JobSpec spec, const std::string& request_id) {
  if (request_id.size() > kRequestIdBytesMax) {
    return WithReason(absl::InvalidArgumentError(absl::StrCat("request_id has ", request_id.size(), " bytes, the limit is ", kRequestIdBytesMax)),
                      "BAD_REQUEST_ID", {{"field", "request_id"}});
  }
  ASSIGN_OR_RETURN(const ResolvedJob job, Resolve(std::move(spec)));
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
    return is_reused ? WithReason(added.status(), "REQUEST_ID_REUSED", {{"requestId", request_id}, {"field", "request_id"}})
                     : added.status();
  }
  if (!added->is_existing) {
    Log(LogLevel::kInfo, "job_submitted",
        {{"job", JobName(added->job_id)}, {"suite", row.suite}, {"cells", row.cells.size()}, {"samples", job.grid.SampleCount()}});
    { std::lock_guard<std::mutex> lock(mutex_); }  // the loop is either waiting or has yet to look
    wake_.notify_all();
  }
  return Get(added->job_id, /*with_cells=*/false);
}

absl::StatusOr<JobEstimate> JobManager::Estimate(JobSpec spec) {
  ASSIGN_OR_RETURN(const ResolvedJob job, Resolve(std::move(spec)));
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
      case db::JobState::kQueued: RETURN_IF_ERROR(Move(job_id, db::JobState::kCancelled)); break;
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
      case db::JobState::kCancelled: break;
      case db::JobState::kSucceeded:
      case db::JobState::kFailed:
        return WithReason(absl::FailedPreconditionError(absl::StrCat(JobName(job_id), " has ", db::JobStateName(row.state),
                                                                     "; only a queued or running job can be cancelled")),
                          "JOB_FINISHED", {{"job", JobName(job_id)}, {"state", db::JobStateName(row.state)}});
    }
  }
  wake_.notify_all();  // it may be waiting to ask again
  if (runner != nullptr) runner->Cancel();
  return Get(job_id, /*with_cells=*/false);
}

absl::StatusOr<JobView> JobManager::Resume(int64_t job_id, bool allow_mixed) {
  ASSIGN_OR_RETURN(const db::JobRow before, Row(job_id));
  if (before.state == db::JobState::kCancelling) {
    return WithReason(absl::FailedPreconditionError(absl::StrCat(JobName(job_id), " is being cancelled; resume it when it is")),
                      "JOB_CANCELLING", {{"job", JobName(job_id)}});
  }
  const bool is_complete = before.state == db::JobState::kSucceeded && before.answered_count == before.planned_count;
  if (db::IsSettled(before.state) && !is_complete) {
    ASSIGN_OR_RETURN(JobSpec spec, FromCanonicalJson(before.spec_json));
    ASSIGN_OR_RETURN(const ResolvedJob job, Resolve(std::move(spec)));
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
  RETURN_IF_ERROR(WithReason(writer_->CheckResume(job_id, execution_id, job.variants, /*allow_mixed=*/true), "MODEL_CHANGED",
                             {{"job", JobName(job_id)}}));
  return WithReason(writer_->CheckResume(job_id, execution_id, job.variants, allow_mixed), "MIXED_EXECUTION",
                    {{"job", JobName(job_id)}});
}

absl::StatusOr<int64_t> JobManager::ExecutionFor(const ModelProvenance& provenance) {
  const std::string key = absl::StrCat(provenance.backend, " ", provenance.isa, " ", provenance.device, " ", provenance.threads);
  std::lock_guard<std::mutex> lock(mutex_);
  const auto known = executions_.find(key);
  if (known != executions_.end()) return known->second;
  db::ExecutionRecord record;
  record.code_version = CodeVersion();
  record.backend = provenance.backend;
  record.instruction_set = provenance.isa;
  record.device = DeviceName(provenance);
  record.host = HostName();
  record.thread_count = provenance.threads;
  record.command_line = options_.command_line;
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
        return WithReason(absl::FailedPreconditionError(absl::StrCat("model \"", model, "\" is needed by ", JobName(row.job_id),
                                                                     ", which is ", db::JobStateName(row.state))),
                          "MODEL_IN_USE", {{"model", model}, {"job", JobName(row.job_id)}});
      }
    }
  }
}

void JobManager::Changed(int64_t job_id) { ++change_counts_[job_id]; }

absl::Status JobManager::Move(int64_t job_id, db::JobState state, const std::string& error) {
  RETURN_IF_ERROR(writer_->SetJobState(job_id, state, error));
  Changed(job_id);
  if (state == db::JobState::kFailed) {
    Log(LogLevel::kError, "job_state", {{"job", JobName(job_id)}, {"state", db::JobStateName(state)}, {"error", error}});
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
    moved = Move(job_id, db::JobState::kFailed, std::string(outcome.status().message()));
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
  ASSIGN_OR_RETURN(const ResolvedJob job, Resolve(std::move(stored)));
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
    run_variants.push_back({generator.get(), MakeTokenCounter(model->tokenizer)});
    ASSIGN_OR_RETURN(sink_options.execution_ids[job.variants[i].name], ExecutionFor(model->provenance));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<DatabaseSink> sink, DatabaseSink::Create(writer_.get(), std::move(sink_options)));

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
