// The thread of a JobManager: takes the next job, runs it, pauses it while the database is blocked, records its end.
#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/engine/estimate.h"
#include "server/jobs/database_sink.h"
#include "server/jobs/engine_generator.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/running_job.h"

namespace varifocal {
namespace {

constexpr int64_t kFirstPauseUs = 100'000;       // doubled with every attempt ..
constexpr int64_t kLongestPauseUs = 10'000'000;  // .. up to here
constexpr int64_t kPauseSliceUs = 1'000'000;     // between heartbeats of a paused thread
constexpr int64_t kCheckpointPeriodUs = 1'000'000;
constexpr int64_t kQueuePeriodUs = 2'000'000;  // between looks at a queue that could not be read

// The error message of the job. A device failure is not an outcome of a sample: unfinished samples have no record and
// run again on resume.
std::string WhyItFailed(int64_t job_id, const absl::Status& status) {
  if (!HasReason(status, ErrorReason::kDeviceFaulted) && !HasReason(status, ErrorReason::kEndpointFaulted) &&
      !HasReason(status, ErrorReason::kEndpointBudgetSpent))
    return std::string(status.message());
  return absl::StrCat(status.message(), "; then `varifocal resume ", JobName(job_id),
                      "` runs the samples without an answer");
}

// What the job's cells cost, in operations; nothing where an engine does not count these.
std::vector<CellCost> CellCosts(const ResolvedJob& job) {
  std::map<std::pair<int, int>, int64_t> context_counts;  // by task and length
  for (const GridGroup& group : job.grid.groups) ++context_counts[{group.task_index, group.context_length}];
  std::vector<CellCost> costs;
  for (const GridCell& cell : job.grid.cells) {
    const HostedModel& model = *job.models[cell.variant_index];
    if (model.provenance.parameter_count == 0) return {};
    const double context =
        RowCost::Of(model.config, model.provenance.parameter_count).Operations(0, cell.key.context_length);
    const bool reuses = model.engine->Describe().prefix_cache && !model.config.attention.NeedsWholePrompt();
    const int64_t read_count =
        reuses ? context_counts[{cell.task_index, cell.key.context_length}] : std::max(cell.asked_count, 1);
    costs.push_back({context, context * read_count / std::max(cell.asked_count, 1)});
  }
  return costs;
}

ComputedWork WorkOf(const std::set<const HostedModel*>& models) {
  ComputedWork work;
  constexpr size_t kLane = static_cast<size_t>(EngineLane::kJob);
  for (const HostedModel* model : models) {
    const EngineStatus status = model->engine->Status();
    work.token_count += status.lane_tokens[kLane];
    work.cost += status.lane_prompt_operations[kLane];
  }
  return work;
}

const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <typename T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace

void JobManager::RunJobs() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    has_news_ = false;
    lock.Unlock();
    RecordHeartbeat();
    const absl::StatusOr<std::optional<int64_t>> taken = TakeNextJob();
    if (taken.ok() && taken->has_value()) {
      RunJob(**taken);
      TryCheckpoint();
    } else if (taken.ok()) {
      TryCheckpoint();
    } else {
      Log(LogLevel::kError, "job_start_failed", {{"error", taken.status().ToString()}});
    }
    beat_us_ = -1;
    lock.Lock();
    const auto has_come = [this]() VF_REQUIRES(mutex_) { return stopping_ || has_news_; };
    const bool is_idle = taken.ok() && !taken->has_value();
    if (!taken.ok() || (is_idle && !waiting_.empty())) {  // for example a full disk: poll instead of spinning
      options_.clock->Wait(wake_, mutex_, kQueuePeriodUs, has_come);
    } else if (is_idle && needs_checkpoint_) {
      options_.clock->Wait(wake_, mutex_, kCheckpointPeriodUs, has_come);
    } else if (is_idle) {
      options_.clock->WaitUntil(wake_, mutex_, has_come);
    }
  }
}

absl::StatusOr<std::optional<int64_t>> JobManager::TakeNextJob() {
  MutexLock states(states_mutex_);
  ASSIGN_OR_RETURN(const std::optional<int64_t> next, writer_->NextQueuedJob());
  if (!next.has_value()) return next;
  RETURN_IF_ERROR(Move(*next, db::JobState::kRunning));
  MutexLock lock(mutex_);
  waiting_.erase(*next);
  running_ = std::make_unique<RunningJob>();
  running_->job_id = *next;
  return next;
}

// So that a copy of the file alone has every finished job; retried while idle if a reader blocks it.
void JobManager::TryCheckpoint() {
  {
    MutexLock lock(mutex_);
    if (!needs_checkpoint_) return;
    needs_checkpoint_ = false;
  }
  const absl::Status done = writer_->Checkpoint();
  if (done.ok()) return;
  MutexLock lock(mutex_);
  needs_checkpoint_ = true;
}

bool JobManager::Pause(const absl::Status& status, int attempt_count, bool also_cancelled) {
  MutexLock lock(mutex_);
  RunningJob& running = *running_;
  const auto ends = [&]() VF_REQUIRES(mutex_) { return stopping_ || (running.cancel_requested && !also_cancelled); };
  if (ends()) return false;
  if (running.paused_reason != status.message())
    Log(LogLevel::kWarning, "job_paused", {{"job", JobName(running.job_id)}, {"reason", status.message()}});
  running.paused_reason = std::string(status.message());
  ++change_counts_[running.job_id];
  const int64_t pause_us = std::min(kLongestPauseUs, kFirstPauseUs << std::min(attempt_count - 1, 10));
  const int64_t due_us = options_.clock->MonotonicMicros() + pause_us;
  const auto is_over = [&]() VF_REQUIRES(mutex_) { return ends() || running.retry_now; };
  for (int64_t left_us = pause_us; left_us > 0; left_us = due_us - options_.clock->MonotonicMicros()) {
    RecordHeartbeat();
    if (options_.clock->Wait(wake_, mutex_, std::min(left_us, kPauseSliceUs), is_over)) break;
  }
  running.retry_now = false;
  return !ends();
}

void JobManager::EndPause() {
  MutexLock lock(mutex_);
  if (running_->paused_reason.empty()) return;
  Log(LogLevel::kInfo, "job_goes_on", {{"job", JobName(running_->job_id)}});
  running_->paused_reason.clear();
  ++change_counts_[running_->job_id];
}

template <typename Call>
auto JobManager::WhileBlocked(Call&& call) -> decltype(call()) {
  for (int attempt_count = 1;; ++attempt_count) {
    auto result = call();
    if (!db::IsBlocked(StatusOf(result)) || !Pause(StatusOf(result), attempt_count, /*also_cancelled=*/false)) {
      EndPause();
      return result;
    }
  }
}

void JobManager::RunJob(int64_t job_id) {
  const absl::StatusOr<RunOutcome> outcome = CatchExceptions("running the job", [&] { return RunSamples(job_id); });
  Settle(job_id, outcome);
  MutexLock lock(mutex_);
  running_.reset();
}

// Records the end of the job, with retries until that succeeds: otherwise its row would remain in state running.
void JobManager::Settle(int64_t job_id, const absl::StatusOr<RunOutcome>& outcome) {
  for (int attempt_count = 1;; ++attempt_count) {
    RecordHeartbeat();
    absl::Status moved;
    {
      MutexLock states(states_mutex_);
      bool is_cancelled = false;
      bool is_stopping = false;
      {
        MutexLock lock(mutex_);
        is_cancelled = running_->cancel_requested;
        is_stopping = stopping_;
        if (absl::IsDataLoss(outcome.status())) running_->lost_reason = std::string(outcome.status().message());
      }
      if (is_cancelled) {
        moved = Move(job_id, db::JobState::kCancelled);
      } else if (is_stopping && (!outcome.ok() || *outcome == RunOutcome::kCancelled)) {
        moved = Move(job_id, db::JobState::kQueued);
      } else if (!outcome.ok()) {
        moved = Move(job_id, db::JobState::kFailed, WhyItFailed(job_id, outcome.status()));
      } else {
        moved = Move(job_id, db::JobState::kSucceeded);
      }
    }
    if (moved.ok()) return;
    Log(LogLevel::kError, "job_end_failed", {{"job", JobName(job_id)}, {"error", moved.ToString()}});
    if (absl::IsDataLoss(moved)) {
      MutexLock lock(mutex_);
      running_->lost_reason = std::string(moved.message());
      ++change_counts_[job_id];
    }
    // When the manager stops, the row remains in state running, which the next start of a daemon repairs.
    if (!Pause(moved, attempt_count, /*also_cancelled=*/true)) return;
  }
}

absl::StatusOr<RunOutcome> JobManager::RunSamples(int64_t job_id) {
  ASSIGN_OR_RETURN(const db::JobRow row, WhileBlocked([&] { return Row(job_id); }));
  ASSIGN_OR_RETURN(JobSpec stored, FromCanonicalJson(row.spec_json));
  ASSIGN_OR_RETURN(const ResolvedJob job, ResolveJob(std::move(stored), *host_, options_.in_flight));
  ASSIGN_OR_RETURN(const bool allow_mixed, WhileBlocked([&] { return writer_->IsMixingAllowed(job_id); }));
  RETURN_IF_ERROR(WhileBlocked([&] { return CheckResumable(job_id, job, allow_mixed); }));
  RETURN_IF_ERROR(WhileBlocked([&] { return writer_->RecordFunctions(job_id, job.variants); }));

  DatabaseSink::Options sink_options;
  sink_options.job_id = job_id;
  sink_options.keep_prompts = job.spec.keep_prompts;
  std::map<const HostedModel*, std::unique_ptr<EngineGenerator>> generators;  // variants of a model share one
  std::vector<RunVariant> run_variants;
  for (size_t i = 0; i < job.models.size(); ++i) {
    const auto& model = job.models[i];
    auto& generator = generators[model.get()];
    if (generator == nullptr) generator = std::make_unique<EngineGenerator>(model);
    const std::optional<bool> thinking = ThinkingOf(job.spec.variants[i].overrides);
    run_variants.push_back({generator.get(),
                            MakeVariantCounter(model->tokenizer, model->chat_format, /*is_chat=*/false, thinking),
                            MakeVariantCounter(model->tokenizer, model->chat_format, /*is_chat=*/true, thinking)});
    ASSIGN_OR_RETURN(sink_options.execution_ids[job.variants[i].name],
                     WhileBlocked([&] { return ExecutionFor(model->provenance); }));
  }
  sink_options.execution_of_workers = [this, &job](const std::string& variant, const std::set<std::string>& workers) {
    size_t i = 0;
    while (job.variants[i].name != variant) ++i;
    ModelProvenance provenance = job.models[i]->provenance;
    provenance.device = absl::StrCat(workers.size() > 1 ? "workers " : "worker ", absl::StrJoin(workers, ", "));
    return WhileBlocked([&] { return ExecutionFor(provenance); });
  };
  sink_options.wait_to_retry = [this](const absl::Status& error, int attempt_count) {
    return Pause(error, attempt_count, /*also_cancelled=*/false);
  };
  std::map<std::string, std::string> labels;  // of the variants' models
  for (size_t i = 0; i < job.models.size(); ++i) labels[job.variants[i].name] = host_->labels().Of(job.models[i]->name);
  sink_options.on_recorded = [this, labels](const SampleResult& record) {
    sample_counts_.Add(labels.at(record.cell.variant), record.error.ok() ? "" : ReasonOf(record.error).name);
  };
  ASSIGN_OR_RETURN(const std::unique_ptr<DatabaseSink> sink,
                   WhileBlocked([&] { return DatabaseSink::Create(writer_.get(), sink_options); }));

  std::set<const HostedModel*> models;
  for (const auto& model : job.models) models.insert(model.get());
  {
    MutexLock lock(mutex_);
    running_->meter.Plan(CellCosts(job), job.spec.in_flight);
  }
  RunnerHooks hooks;
  hooks.on_progress = [this, job_id, models](const RunProgress& progress) {
    RecordHeartbeat();
    EndPause();  // what is reported was written
    const ComputedWork computed = WorkOf(models);
    MutexLock lock(mutex_);
    running_->progress = progress;
    running_->meter.Update(progress, computed, options_.clock->MonotonicMicros());
    ++change_counts_[job_id];
  };
  hooks.on_wait = [this, job_id, models] {
    RecordHeartbeat();
    {
      const ComputedWork computed = WorkOf(models);
      MutexLock lock(mutex_);
      running_->meter.Update(computed, options_.clock->MonotonicMicros());
      ++change_counts_[job_id];
    }
    // How long it has run when the process ends; without it the end counts as an early one.
    (void)writer_->NoteRunning(job_id);
  };
  hooks.wait_before_retry = [this](int attempt_count) {
    MutexLock lock(mutex_);
    const int64_t pause_us = kFirstPauseUs << std::min(attempt_count, 5);
    options_.clock->Wait(wake_, mutex_, pause_us,
                         [this]() VF_REQUIRES(mutex_) { return stopping_ || running_->cancel_requested; });
  };
  auto runner = std::make_shared<Runner>(job.spec, run_variants, sink.get(), std::move(hooks),
                                         RunnerOptions{.clock = options_.clock});
  bool stop_at_once = false;
  {
    MutexLock lock(mutex_);
    running_->runner = runner;
    stop_at_once = stopping_ || running_->cancel_requested;
  }
  if (stop_at_once) runner->Cancel();
  const absl::StatusOr<RunOutcome> outcome = runner->Run();
  MutexLock lock(mutex_);
  running_->runner.reset();
  return outcome;
}

}  // namespace varifocal
