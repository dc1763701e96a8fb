// The engine's thread: accepts requests, runs the steps planned by the scheduler, delivers results.
#include "server/engine/engine.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <numeric>
#include <thread>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/engine/estimate.h"
#include "server/engine/memory_ledger.h"
#include "server/engine/request_check.h"
#include "server/engine/scheduler.h"
#include "server/model/forward.h"
#include "server/model/kernel_status.h"
#include "server/model/rope_tables.h"
#include "server/model/transformer.h"

namespace varifocal {
namespace {

// Rates are measured again after this time: the load of a machine changes.
constexpr int64_t kRatesAgeUsMax = 10 * 60 * int64_t{1000000};
// Rows whose logits are computed in one call of the head: enough to use the CPU, small compared to the weights.
constexpr int64_t kHeadRowsMax = 64;

class EngineThread final : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<Engine>> Create(std::shared_ptr<const LoadedModel> model,
                                                        EngineOptions options);
  ~EngineThread() override;

  absl::StatusOr<Handle> Start(EngineRequest request, EngineCallbacks callbacks) override;
  void Cancel(Handle handle) override;
  const LoadedModel& model() const override { return *model_; }
  EngineDescription Describe() const override;
  EngineStatus Status() const override;
  absl::StatusOr<EngineEstimate> Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                          int64_t cached_token_count) override;
  void DropPrefixCache() override;
  absl::Status Fault() const override;

 private:
  EngineThread(std::shared_ptr<const LoadedModel> model, const EngineOptions& options,
               const std::vector<int64_t>& page_counts)
      : model_(std::move(model)),
        options_(options),
        limits_{.groups = PageGroupShapes(model_->transformer()),
                .page_counts = page_counts,
                .prefill_rows_max = options.prefill_chunk_tokens,
                .step_rows_max = StepRowsMax(options),
                .prefix_cache = options.prefix_cache},
        cache_tokens_max_(LongestSequence(limits_.groups, page_counts, model_->config().extended_position_max,
                                          options.prefill_chunk_tokens)),
        context_tokens_max_(std::min(cache_tokens_max_, model_->config().max_position)),
        step_positions_max_(context_tokens_max_),
        scheduler_(*model_, options_, page_counts, Clock::Real()) {}
  absl::Status Allocate();
  absl::Status WarmUp();
  ForwardLimits StepLimits() const;
  absl::StatusOr<Handle> Submit(EngineRequest request, EngineCallbacks callbacks, bool timing_only);

  void Loop();
  bool DrainInbox();
  void RunStep(StepPlan& plan);
  void FailAll(const absl::Status& status);
  absl::Status MakeRoomFor(int64_t positions);
  absl::Status RunForward(StepPlan& plan);
  void Deliver();

  const std::shared_ptr<const LoadedModel> model_;
  const EngineOptions options_;
  const RequestLimits limits_;
  const int64_t cache_tokens_max_;    // of one sequence: room in the pages
  const int64_t context_tokens_max_;  // of one sequence under the model's own rotation

  // The engine thread's own.
  int64_t step_positions_max_;  // what forward_ has buffers for
  std::unique_ptr<RopeTableCache> ropes_;
  std::vector<std::unique_ptr<kernels::KvPool>> pools_;  // one per page group
  std::unique_ptr<Forward> forward_;
  std::unique_ptr<MemoryLedger::Entry> memory_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Sequence>> taken_;  // not yet passed to the scheduler
  ForwardOutput output_;
  std::vector<float> logits_;  // scratch of the head

  mutable Mutex mutex_;
  CondVar wake_;
  std::vector<std::unique_ptr<Sequence>> arrived_ VF_GUARDED_BY(mutex_);
  std::vector<Handle> cancels_ VF_GUARDED_BY(mutex_);
  std::vector<Handle> in_step_ VF_GUARDED_BY(mutex_);  // of the prefill step being computed
  bool drop_prefix_cache_ VF_GUARDED_BY(mutex_) = false;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  Handle next_handle_ VF_GUARDED_BY(mutex_) = 1;
  EngineStatus status_ VF_GUARDED_BY(mutex_);

  std::atomic<bool> step_cancelled_{false};
  Mutex estimate_mutex_;
  std::optional<CostRates> rates_ VF_GUARDED_BY(estimate_mutex_);
  int64_t rates_us_ VF_GUARDED_BY(estimate_mutex_) = 0;  // when they were measured
  std::thread thread_;
};

absl::StatusOr<std::unique_ptr<Engine>> EngineThread::Create(std::shared_ptr<const LoadedModel> model,
                                                             EngineOptions options) {
  RETURN_IF_ERROR(CheckOptions(options));
  options.prefill_chunk_tokens = std::min(options.prefill_chunk_tokens, model->config().max_position);
  ASSIGN_OR_RETURN(const std::vector<int64_t> page_counts, ChoosePageCounts(*model, options));
  auto engine = std::unique_ptr<EngineThread>(new EngineThread(std::move(model), options, page_counts));
  RETURN_IF_ERROR(engine->Allocate());
  RETURN_IF_ERROR(engine->WarmUp());
  engine->thread_ = std::thread([raw = engine.get()] { raw->Loop(); });
  pthread_setname_np(engine->thread_.native_handle(), "vf-engine");
  return std::unique_ptr<Engine>(std::move(engine));
}

ForwardLimits EngineThread::StepLimits() const {
  return {.row_count_max = limits_.step_rows_max,
          .sequence_count_max = options_.batch_size_max,
          .head_row_count_max = kHeadRowsMax,
          .context_length_max = step_positions_max_};
}

absl::Status EngineThread::Allocate() {
  const Transformer& transformer = model_->transformer();
  ropes_ = std::make_unique<RopeTableCache>(transformer, options_.batch_size_max);
  for (size_t group = 0; group < limits_.groups.size(); ++group) {
    ASSIGN_OR_RETURN(
        std::unique_ptr<kernels::KvPool> pool,
        ToStatusOr(transformer.backend().CreateKvPool(transformer.KvShape(group), limits_.page_counts[group])));
    pools_.push_back(std::move(pool));
  }
  ASSIGN_OR_RETURN(forward_, Forward::Create(transformer, StepLimits()));
  const int64_t cache_bytes = CacheBytes(limits_);
  memory_ =
      MemoryLedger::Get().Add({.what = options_.name.empty() ? model_->directory() : options_.name,
                               .weight_bytes = transformer.weight_bytes(),
                               .shared_weight_bytes = [&transformer] { return transformer.shared_weight_bytes(); },
                               .buffer_bytes = Forward::BytesNeeded(transformer, StepLimits()),
                               .cache_bytes = cache_bytes,
                               .touched_bytes = IsOnHost(model_->transformer().backend()) ? 0 : cache_bytes});
  return absl::OkStatus();
}

EngineThread::~EngineThread() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    step_cancelled_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

// ---- Any thread ----

absl::StatusOr<Engine::Handle> EngineThread::Start(EngineRequest request, EngineCallbacks callbacks) {
  return Submit(std::move(request), std::move(callbacks), false);
}

absl::StatusOr<Engine::Handle> EngineThread::Submit(EngineRequest request, EngineCallbacks callbacks,
                                                    bool timing_only) {
  VF_CHECK(callbacks.on_done != nullptr, "a request needs on_done");
  RequestLimits limits = limits_;
  if (timing_only) limits.prefix_cache = false;
  RETURN_IF_ERROR(Fault());
  ASSIGN_OR_RETURN(std::unique_ptr<Sequence> sequence, CheckRequest(*model_, limits, std::move(request)));
  sequence->callbacks = std::move(callbacks);
  sequence->timing_only = timing_only;
  sequence->arrival_us = Clock::Real().MonotonicMicros();
  Handle handle = 0;
  {
    MutexLock lock(mutex_);
    if (stopping_) return WithReason(Unavailable("the engine is shutting down"), ErrorReason::kShuttingDown);
    const int64_t queued = status_.queued_count + std::ssize(arrived_);
    if (queued >= options_.queue_length_max) {
      return WithReason(ResourceExhausted(queued, " requests are waiting; the limit is ", options_.queue_length_max),
                        ErrorReason::kQueueFull);
    }
    handle = next_handle_++;
    sequence->handle = handle;
    arrived_.push_back(std::move(sequence));
  }
  wake_.NotifyAll();
  return handle;
}

void EngineThread::Cancel(Handle handle) {
  {
    MutexLock lock(mutex_);
    cancels_.push_back(handle);
    if (std::find(in_step_.begin(), in_step_.end(), handle) != in_step_.end()) step_cancelled_ = true;
  }
  wake_.NotifyAll();
}

void EngineThread::DropPrefixCache() {
  {
    MutexLock lock(mutex_);
    drop_prefix_cache_ = true;
  }
  wake_.NotifyAll();
}

absl::Status EngineThread::Fault() const {
  const kernels::Error error = model_->transformer().backend().Fault();
  if (error.ok()) return absl::OkStatus();
  return WithReason(absl::UnavailableError(error.message), ErrorReason::kDeviceFaulted);
}

EngineDescription EngineThread::Describe() const {
  const DeviceMemoryLeft memory = MemoryLeftOn(model_->transformer().backend());
  return {.model = model_->provenance(),
          .prefill_chunk_tokens = options_.prefill_chunk_tokens,
          .batch_size_max = options_.batch_size_max,
          .kv_cache_bytes = CacheBytes(limits_),
          .page_count = std::accumulate(limits_.page_counts.begin(), limits_.page_counts.end(), int64_t{0}),
          .context_tokens_max = context_tokens_max_,
          .cache_tokens_max = cache_tokens_max_,
          .buffer_bytes = Forward::BytesNeeded(model_->transformer(), StepLimits()),
          .shared_weight_bytes = model_->transformer().shared_weight_bytes(),
          .memory_total_bytes = memory.total_bytes,
          .memory_free_bytes = memory.free_bytes,
          .prefix_cache = options_.prefix_cache};
}

EngineStatus EngineThread::Status() const {
  MutexLock lock(mutex_);
  EngineStatus status = status_;
  status.queued_count += std::ssize(arrived_);
  if (status.oldest_arrival_us < 0 && !arrived_.empty()) status.oldest_arrival_us = arrived_.front()->arrival_us;
  return status;
}

absl::StatusOr<EngineEstimate> EngineThread::Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                                      int64_t cached_token_count) {
  // A setting may extend the limit of the model.
  RETURN_IF_ERROR(CheckLength(model_->config().extended_position_max, prompt_token_count, new_token_count));
  MutexLock lock(estimate_mutex_);
  const int64_t now_us = Clock::Real().MonotonicMicros();
  if (!rates_.has_value() || now_us - rates_us_ > kRatesAgeUsMax) {
    rates_us_ = now_us;
    const auto time = [&](EngineRequest request) {
      return WaitFor([&](EngineCallbacks callbacks) { return Submit(std::move(request), std::move(callbacks), true); });
    };
    ASSIGN_OR_RETURN(
        rates_, MeasureCostRates(model_->config(), model_->provenance().parameter_count, context_tokens_max_, time));
  }
  EngineEstimate estimate;
  const CacheNeed need = NeedOf(*model_, limits_, model_->attention(),
                                ExtentOf(limits_, model_->attention(), prompt_token_count, new_token_count,
                                         /*scores_continuations=*/false));
  estimate.cache_bytes = need.bytes;
  estimate.cache_bytes_limit = CacheBytes(limits_);
  estimate.fits = need.fits;
  estimate.seconds = EstimateSeconds(*rates_, prompt_token_count, new_token_count,
                                     std::clamp<int64_t>(cached_token_count, 0, prompt_token_count - 1));
  return estimate;
}

// ---- The engine thread ----

// New requests and cancellations reach the scheduler between steps. False when it is time to stop.
bool EngineThread::DrainInbox() {
  std::vector<Handle> cancels;
  bool drop = false;
  {
    MutexLock lock(mutex_);
    wake_.Wait(mutex_, [&]() VF_REQUIRES(mutex_) {
      return stopping_ || !arrived_.empty() || !cancels_.empty() || drop_prefix_cache_ || !scheduler_.idle();
    });
    if (stopping_) return false;
    taken_.swap(arrived_);
    cancels.swap(cancels_);
    drop = std::exchange(drop_prefix_cache_, false);
    // Counted as queued until the scheduler's count is published, so that the limit holds in between.
    status_.queued_count += std::ssize(taken_);
  }
  if (drop) scheduler_.DropPrefixCache();
  for (auto& sequence : taken_) scheduler_.Enqueue(std::move(sequence));
  taken_.clear();
  for (const Handle handle : cancels) scheduler_.Cancel(handle);
  return true;
}

void EngineThread::Loop() {
  bool is_running = true;
  while (is_running) {
    const absl::Status status = CatchExceptions("planning a step", [&] {
      is_running = DrainInbox();
      StepPlan plan;
      if (is_running) plan = scheduler_.NextStep([&](int64_t position) { return forward_->StepRowsMax(position); });
      if (!plan.empty()) RunStep(plan);
      Deliver();
      return absl::OkStatus();
    });
    if (status.ok()) continue;
    // The request that caused the exception is unknown: all active requests end, and the engine continues.
    Log(LogLevel::kError, "engine_exception", {{"model", model_->directory()}, {"error", status.message()}});
    // Without memory for this either, the requests that are left remain in the scheduler.
    CatchExceptions("ending the requests", [&] {
      FailAll(status);
      Deliver();
      return absl::OkStatus();
    }).IgnoreError();
  }
  FailAll(WithReason(Unavailable("the engine shut down before the request was done"), ErrorReason::kShuttingDown));
  Deliver();
}

void EngineThread::FailAll(const absl::Status& status) {
  {
    MutexLock lock(mutex_);
    for (auto* sequences : {&taken_, &arrived_}) {
      for (auto& sequence : *sequences) {
        if (sequence != nullptr) scheduler_.Enqueue(std::move(sequence));
      }
      sequences->clear();
    }
  }
  scheduler_.FailAll(status);
}

void EngineThread::RunStep(StepPlan& plan) {
  {
    MutexLock lock(mutex_);
    step_cancelled_ = stopping_;
    // A decode step is short and runs to completion; a prefill step can be cancelled.
    if (plan.phase == kernels::Phase::kPrefill) {
      for (const StepEntry& entry : plan.entries) {
        in_step_.push_back(entry.sequence->handle);
        if (std::find(cancels_.begin(), cancels_.end(), entry.sequence->handle) != cancels_.end())
          step_cancelled_ = true;
      }
    }
  }
  const absl::Status status = CatchExceptions("computing a step", [&]() -> absl::Status {
    RETURN_IF_ERROR(RunForward(plan));
    return CountPromptGroups(model_->transformer(), pools_, plan);
  });
  {
    MutexLock lock(mutex_);
    in_step_.clear();
  }
  if (status.ok()) {
    scheduler_.Apply(plan, output_);
  } else if (const absl::Status fault = Fault(); !fault.ok()) {
    Log(LogLevel::kError, "device_faulted", {{"model", model_->directory()}, {"error", fault.message()}});
    FailAll(fault);
  } else if (!absl::IsCancelled(status)) {  // a cancelled step is discarded; the remaining sequences run again
    Log(LogLevel::kError, "step_failed", {{"rows", plan.tokens.size()}, {"error", status.message()}});
    scheduler_.Fail(plan, status);
  }
}

// A device loads a kernel at its first launch, which can take long and memory: a prompt of one token, then a step whose
// token is drawn, on a page that no sequence has yet.
absl::Status EngineThread::WarmUp() {
  const ModelConfig& config = model_->config();
  if (IsOnHost(model_->transformer().backend()) || context_tokens_max_ < 2) return absl::OkStatus();
  const int32_t token = 0, page = 0;
  const kernels::HeadRow row{.draw = {.temperature = 1}};
  ForwardSequence sequence{.row_count = 1, .prompt_length = 1};
  ASSIGN_OR_RETURN(sequence.rope, ropes_->Get(config.ropes, context_tokens_max_, RopeLength(config.ropes, 2)));
  sequence.pages.assign(limits_.groups.size(), std::span(&page, 1));
  for (const kernels::Phase phase : {kernels::Phase::kPrefill, kernels::Phase::kDecode}) {
    RETURN_IF_ERROR(forward_->Run(pools_,
                                  {.phase = phase,
                                   .tokens = std::span(&token, 1),
                                   .sequences = std::span(&sequence, 1),
                                   .attention = &config.attention,
                                   .head_rows = std::span(&row, 1),
                                   .takes_turns = false},
                                  &output_));
    ++sequence.first_position;
  }
  return absl::OkStatus();
}

// To a power of two, so that prompts of about one length share a table.
int64_t RoundedUp(int64_t positions) {
  return std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(positions, 1024)));
}

// A run-time rotation may extend the model's limit: the first such sequence gets larger buffers.
absl::Status EngineThread::MakeRoomFor(int64_t positions) {
  if (positions <= step_positions_max_) return absl::OkStatus();
  ForwardLimits limits = StepLimits();
  limits.context_length_max = positions;
  ASSIGN_OR_RETURN(forward_, Forward::Create(model_->transformer(), limits));
  step_positions_max_ = positions;
  return absl::OkStatus();
}

absl::Status EngineThread::RunForward(StepPlan& plan) {
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const Sequence& sequence = *plan.entries[i].sequence;
    const int64_t limit = std::min(sequence.position_max, cache_tokens_max_);
    // The model's own tables are made once; those of other rotations are as long as they have been needed.
    const bool is_own = sequence.ropes == model_->config().ropes;
    const int64_t needed = sequence.extent.prompt_rows + sequence.extent.later_rows;
    const int64_t positions = is_own ? context_tokens_max_ : std::min(limit, RoundedUp(needed));
    ASSIGN_OR_RETURN(plan.forward_sequences[i].rope, ropes_->Get(sequence.ropes, positions, sequence.rope_length));
    RETURN_IF_ERROR(MakeRoomFor(positions));
  }
  for (const PageCopy& copy : plan.page_copies)
    RETURN_IF_ERROR(ToStatus(model_->transformer().backend().CopyPage(*pools_[copy.group], copy.from, copy.to)));
  logits_.resize(plan.logits_slot_count * model_->config().vocabulary_size);
  std::vector<InspectedAttention> inspected;
  const std::vector<RowInspection> inspections = Inspections(plan, &inspected);
  const ForwardStep step{.phase = plan.phase,
                         .tokens = plan.tokens,
                         .sequences = plan.forward_sequences,
                         .attention = &plan.entries.front().sequence->attention,
                         .head_rows = plan.head_rows,
                         .logits = logits_.data(),
                         .inspections = inspections,
                         // A step that overwrote states cannot be run again.
                         .cancelled = limits_.groups.back().holds_states ? nullptr : &step_cancelled_};
  const int64_t row_count = plan.tokens.size();
  std::unique_ptr<Forward> large;
  if (row_count > limits_.step_rows_max) {
    VF_CHECK(plan.whole_prompt, "only a whole prompt exceeds a step");
    // Its memory was counted at admission and is released immediately: such prompts are rare.
    ASSIGN_OR_RETURN(large, Forward::Create(model_->transformer(), {.row_count_max = row_count,
                                                                    .sequence_count_max = 1,
                                                                    .head_row_count_max = kHeadRowsMax,
                                                                    .context_length_max = row_count}));
  }
  RETURN_IF_ERROR((large != nullptr ? large : forward_)->Run(pools_, step, &output_));
  KeepInspections(plan, std::move(inspected));
  return absl::OkStatus();
}

void EngineThread::Deliver() {
  std::vector<Finished> finished = scheduler_.TakeFinished();
  {
    MutexLock lock(mutex_);
    scheduler_.GetStatus(&status_);
    if (IsOnHost(model_->transformer().backend())) memory_->SetTouched(status_.cache_bytes_peak);
  }
  for (Finished& done : finished) {
    auto on_done = std::move(done.sequence->callbacks.on_done);
    const absl::Status status = CatchExceptions("delivering a result", [&] {
      on_done(done.status.ok() ? absl::StatusOr<EngineResult>(std::move(done.sequence->result)) : done.status);
      return absl::OkStatus();
    });
    if (!status.ok()) Log(LogLevel::kError, "engine_exception", {{"error", status.message()}});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(std::shared_ptr<const LoadedModel> model,
                                                       const EngineOptions& options) {
  return EngineThread::Create(std::move(model), options);
}

absl::StatusOr<EngineResult> Engine::WaitFor(absl::FunctionRef<absl::StatusOr<Handle>(EngineCallbacks)> start) {
  struct {
    Mutex mutex;
    CondVar done;
    std::optional<absl::StatusOr<EngineResult>> outcome VF_GUARDED_BY(mutex);
  } end;
  EngineCallbacks callbacks;
  callbacks.on_done = [&](absl::StatusOr<EngineResult> result) {
    MutexLock lock(end.mutex);
    end.outcome = std::move(result);
    end.done.NotifyAll();  // under the lock: the waiter may free `end` as soon as it is released
  };
  RETURN_IF_ERROR(start(std::move(callbacks)).status());
  MutexLock lock(end.mutex);
  end.done.Wait(end.mutex, [&]() VF_REQUIRES(end.mutex) { return end.outcome.has_value(); });
  return *std::move(end.outcome);
}

int Engine::ServingCopyCount() const {
  int count = 0;
  for (const EngineCopy& copy : Copies()) count += copy.engine->Fault().ok();
  return std::max(count, 1);
}

absl::StatusOr<EngineResult> Engine::Run(EngineRequest request) {
  return WaitFor([&](EngineCallbacks callbacks) { return Start(std::move(request), std::move(callbacks)); });
}

}  // namespace varifocal
