#include "server/engine/replicated_engine.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/exceptions.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal {

// An unfinished request. What callbacks count is the current copy's thread's, the rest is guarded by the engine's mutex.
struct ReplicatedEngine::Task {
  Handle handle = 0;
  EngineRequest request;
  EngineCallbacks callbacks;
  std::string context;  // "": it may run anywhere
  int64_t token_count = 0;

  size_t copy = 0;
  int64_t start_count = 0;               // on any copy
  std::optional<Handle> handle_of_copy;  // of the last start, once it is known
  bool is_cancelled = false;
  int lost_count = 0;  // copies that were lost with it

  int64_t generated_count = 0;  // by the last start
  int64_t given_count = 0;      // to the caller
};

namespace {

// By the first tokens where the request names none, whatever follows them.
std::string ContextOf(const EngineRequest& request) {
  if (!request.context.empty()) return absl::StrCat("named ", request.context);
  if (std::ssize(request.token_ids) < ReplicatedEngine::kContextTokens) return "";
  return Sha256Hex(absl::string_view(reinterpret_cast<const char*>(request.token_ids.data()),
                                     ReplicatedEngine::kContextTokens * sizeof(request.token_ids[0])));
}

int64_t TokensOf(const EngineRequest& request) {
  int64_t count = std::ssize(request.token_ids);
  if (const auto* generate = std::get_if<GenerateWork>(&request.work)) count += generate->max_new_tokens;
  return count;
}

absl::Status CheckSameBits(const std::string& name, const std::vector<ReplicatedEngine::Copy>& copies) {
  const ModelProvenance first = copies.front().engine->Describe().model;
  for (const ReplicatedEngine::Copy& copy : copies) {
    const ModelProvenance other = copy.engine->Describe().model;
    if (other.weights_sha256 != first.weights_sha256) {
      return WithReason(
          FailedPrecondition("the files of model \"", name, "\" changed while it was loaded: ", copies.front().device,
                             " has weights ", first.weights_sha256, ", ", copy.device, " ", other.weights_sha256),
          ErrorReason::kDevicesDiffer);
    }
    if (other.kernels == first.kernels && other.device == first.device) continue;
    return WithReason(
        FailedPrecondition("copies of model \"", name, "\" would differ in their bits: ", copies.front().device, " is ",
                           first.device, " with ", first.kernels, ", ", copy.device, " is ", other.device, " with ",
                           other.kernels, "; list devices of one kind"),
        ErrorReason::kDevicesDiffer);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Engine>> ReplicatedEngine::Create(const std::string& name, std::vector<Copy> copies) {
  VF_CHECK(!copies.empty(), "a model has a copy");
  RETURN_IF_ERROR(CheckSameBits(name, copies));
  return std::unique_ptr<Engine>(new ReplicatedEngine(name, std::move(copies)));
}

ReplicatedEngine::ReplicatedEngine(std::string name, std::vector<Copy> copies)
    : name_(std::move(name)), copies_(std::move(copies)), loads_(copies_.size()) {}

ReplicatedEngine::~ReplicatedEngine() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    // A request that leaves a lost copy is being started on another, which must still exist.
    moved_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return moving_count_ == 0; });
  }
  copies_.clear();  // before the members that their callbacks use
}

absl::StatusOr<Engine::Handle> ReplicatedEngine::Start(EngineRequest request, EngineCallbacks callbacks) {
  VF_CHECK(callbacks.on_done != nullptr, "a request needs on_done");
  auto task = std::make_shared<Task>();
  task->context = ContextOf(request);
  task->token_count = TokensOf(request);
  task->request = std::move(request);
  task->callbacks = std::move(callbacks);
  {
    MutexLock lock(mutex_);
    task->handle = next_handle_++;
    tasks_[task->handle] = task;
  }
  const Handle handle = task->handle;
  const absl::Status started = StartOnACopy(task);
  if (started.ok()) return handle;
  MutexLock lock(mutex_);
  tasks_.erase(handle);
  return started;
}

// A copy may have no room, or may be lost: then another is tried. Without any, the status of the first that refused, or the fault.
absl::Status ReplicatedEngine::StartOnACopy(const std::shared_ptr<Task>& task) {
  std::vector<bool> refused(copies_.size());
  absl::Status why;
  for (;;) {
    Engine* engine = nullptr;
    size_t copy = 0;
    int64_t start = 0;
    {
      MutexLock lock(mutex_);
      if (stopping_) return WithReason(Unavailable("the engine is shutting down"), ErrorReason::kShuttingDown);
      const std::optional<size_t> chosen = Choose(*task, refused);
      if (!chosen.has_value()) break;
      copy = task->copy = *chosen;
      start = ++task->start_count;
      task->handle_of_copy.reset();
      loads_[copy].tokens += task->token_count;
      engine = copies_[copy].engine.get();
    }
    task->generated_count = 0;
    const absl::StatusOr<Handle> handle =
        CatchExceptions("starting a request", [&] { return engine->Start(task->request, CallbacksOf(task)); });
    bool is_cancelled = false;
    {
      MutexLock lock(mutex_);
      if (handle.ok()) {
        // It may have ended by now, or run elsewhere.
        if (task->start_count == start) task->handle_of_copy = *handle;
        is_cancelled = task->is_cancelled;
      } else {
        loads_[copy].tokens -= task->token_count;
        if (HasReason(handle.status(), ErrorReason::kDeviceFaulted)) SetLost(copy, handle.status());
      }
    }
    if (is_cancelled) engine->Cancel(*handle);
    if (handle.ok()) return absl::OkStatus();
    const bool is_lost = HasReason(handle.status(), ErrorReason::kDeviceFaulted);
    if (!is_lost && !absl::IsResourceExhausted(handle.status())) return handle.status();
    if (!is_lost) why.Update(handle.status());
    refused[copy] = true;
  }
  return why.ok() ? Fault() : why;
}

std::optional<size_t> ReplicatedEngine::Choose(const Task& task, const std::vector<bool>& refused) {
  for (size_t copy = 0; copy < copies_.size(); ++copy) SetLost(copy, copies_[copy].engine->Fault());
  const auto is_usable = [&](size_t copy) VF_REQUIRES(mutex_) { return !refused[copy] && loads_[copy].fault.ok(); };
  if (const size_t* kept = contexts_.Find(task.context); kept != nullptr && is_usable(*kept)) return *kept;
  std::optional<size_t> best;
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    if (is_usable(copy) && (!best.has_value() || loads_[copy].tokens < loads_[*best].tokens)) best = copy;
  }
  if (best.has_value() && !task.context.empty()) contexts_.Put(task.context, *best);
  return best;
}

void ReplicatedEngine::SetLost(size_t copy, const absl::Status& fault) {
  if (fault.ok() || !loads_[copy].fault.ok()) return;
  loads_[copy].fault = fault;
  const auto left = std::count_if(loads_.begin(), loads_.end(), [](const Load& load) { return load.fault.ok(); });
  Log(LogLevel::kError, "copy_lost",
      {{"model", name_}, {"device", copies_[copy].device}, {"copies_left", left}, {"error", fault.message()}});
}

EngineCallbacks ReplicatedEngine::CallbacksOf(const std::shared_ptr<Task>& task) {
  EngineCallbacks callbacks;
  callbacks.on_progress = task->callbacks.on_progress;
  if (task->callbacks.on_token) {
    callbacks.on_token = [task](int32_t token_id, double log_prob) {
      if (++task->generated_count <= task->given_count) return;  // the same one, of a copy that was lost
      ++task->given_count;
      task->callbacks.on_token(token_id, log_prob);
    };
  }
  callbacks.on_done = [this, task](absl::StatusOr<EngineResult> result) { OnDone(task, std::move(result)); };
  return callbacks;
}

void ReplicatedEngine::OnDone(const std::shared_ptr<Task>& task, absl::StatusOr<EngineResult> result) {
  const bool is_lost = !result.ok() && HasReason(result.status(), ErrorReason::kDeviceFaulted);
  bool is_moved = false, is_cancelled = false;
  {
    MutexLock lock(mutex_);
    loads_[task->copy].tokens -= task->token_count;
    is_cancelled = task->is_cancelled;
    if (is_lost) {
      SetLost(task->copy, result.status());
      ++task->lost_count;
      is_moved = !is_cancelled;
      moving_count_ += is_moved;
    }
    if (!is_moved) tasks_.erase(task->handle);
  }
  if (is_moved) {
    const absl::Status moved = CatchExceptions("moving a request", [&] { return StartOnACopy(task); });
    MutexLock lock(mutex_);
    --moving_count_;
    moved_.NotifyAll();
    if (moved.ok()) return;
    result = moved;
    tasks_.erase(task->handle);
  } else if (is_lost && is_cancelled) {
    result = absl::CancelledError("the request was cancelled");
  }
  if (result.ok()) result->attempt_count = 1 + task->lost_count;
  task->callbacks.on_done(std::move(result));
}

void ReplicatedEngine::Cancel(Handle handle) {
  Engine* engine = nullptr;
  Handle handle_of_copy = 0;
  {
    MutexLock lock(mutex_);
    const auto found = tasks_.find(handle);
    if (found == tasks_.end()) return;
    Task& task = *found->second;
    task.is_cancelled = true;
    if (!task.handle_of_copy.has_value()) return;  // who starts it cancels it
    engine = copies_[task.copy].engine.get();
    handle_of_copy = *task.handle_of_copy;
  }
  engine->Cancel(handle_of_copy);
}

EngineDescription ReplicatedEngine::Describe() const {
  EngineDescription all = copies_.front().engine->Describe();
  std::vector<std::string> devices = {copies_.front().device};
  for (size_t copy = 1; copy < copies_.size(); ++copy) {
    const EngineDescription more = copies_[copy].engine->Describe();
    devices.push_back(copies_[copy].device);
    all.model.weight_bytes += more.model.weight_bytes;
    all.batch_size_max += more.batch_size_max;
    all.kv_cache_bytes += more.kv_cache_bytes;
    all.page_count += more.page_count;
    all.context_tokens_max = std::min(all.context_tokens_max, more.context_tokens_max);
    all.cache_tokens_max = std::min(all.cache_tokens_max, more.cache_tokens_max);
    all.buffer_bytes += more.buffer_bytes;
    all.shared_weight_bytes += more.shared_weight_bytes;
    all.memory_total_bytes += more.memory_total_bytes;
    all.memory_free_bytes += more.memory_free_bytes;
  }
  if (devices.size() > 1)
    all.model.device = absl::StrCat(devices.size(), " x ", all.model.device, " (", absl::StrJoin(devices, ", "), ")");
  return all;
}

EngineStatus ReplicatedEngine::Status() const {
  EngineStatus all;
  for (const Copy& copy : copies_) all.Add(copy.engine->Status());
  return all;
}

absl::StatusOr<EngineEstimate> ReplicatedEngine::Estimate(int64_t prompt_token_count, int64_t new_token_count,
                                                          int64_t cached_token_count) {
  for (const Copy& copy : copies_) {
    absl::StatusOr<EngineEstimate> estimate =
        copy.engine->Estimate(prompt_token_count, new_token_count, cached_token_count);
    if (estimate.ok() || !HasReason(estimate.status(), ErrorReason::kDeviceFaulted)) return estimate;
  }
  return Fault();
}

void ReplicatedEngine::DropPrefixCache() {
  for (const Copy& copy : copies_) copy.engine->DropPrefixCache();
}

absl::Status ReplicatedEngine::Fault() const {
  std::vector<std::string> causes;
  MutexLock lock(mutex_);
  for (size_t copy = 0; copy < copies_.size(); ++copy) {
    const absl::Status fault = loads_[copy].fault.ok() ? copies_[copy].engine->Fault() : loads_[copy].fault;
    if (fault.ok()) return absl::OkStatus();
    causes.push_back(absl::StrCat(copies_[copy].device, ": ", fault.message()));
  }
  return WithReason(Unavailable("all ", causes.size(), " copies are lost: ", absl::StrJoin(causes, "; ")),
                    ErrorReason::kDeviceFaulted);
}

std::vector<EngineCopy> ReplicatedEngine::Copies() const {
  std::vector<EngineCopy> copies;
  for (const Copy& copy : copies_) copies.push_back({copy.device, copy.engine.get()});
  return copies;
}

}  // namespace varifocal
