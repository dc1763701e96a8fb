#include "server/workers/dispatcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {

EngineHandle Dispatcher::Start(const std::string& model, EngineRequest request, bool has_bounds,
                               RemoteWorkers::Done done) {
  auto task = std::make_shared<WorkerTask>();
  task->model = model;
  task->request = std::move(request);
  task->has_bounds = has_bounds;
  task->done = std::move(done);
  Calls calls;
  EngineHandle handle = 0;
  bool is_refused = false;
  {
    const MutexLock lock(mutex_);
    handle = task->handle = next_handle_++;
    is_refused = stopping_;
    if (!is_refused) {
      tasks_[handle].task = task;
      queue_.push_back(handle);
      calls = TakeCalls();
    }
  }
  for (const auto& call : calls) call->Send();
  if (is_refused) task->done(Unavailable("the daemon is shutting down"));
  return handle;
}

void Dispatcher::Cancel(EngineHandle handle) {
  std::shared_ptr<WorkerTask> task;
  std::shared_ptr<WorkerCall> call;
  {
    const MutexLock lock(mutex_);
    const auto found = tasks_.find(handle);
    if (found == tasks_.end()) return;
    task = found->second.task;
    found->second.is_cancelled = true;
    call = found->second.call;
    if (call == nullptr) {  // it is queued
      queue_.erase(std::find(queue_.begin(), queue_.end(), handle));
      tasks_.erase(found);
    }
  }
  if (call != nullptr) return call->Cancel();
  task->done(absl::CancelledError("the request was cancelled"));
}

int64_t Dispatcher::queued_count() const {
  const MutexLock lock(mutex_);
  return std::ssize(queue_);
}

int64_t Dispatcher::running_count() const {
  const MutexLock lock(mutex_);
  return std::ssize(tasks_) - std::ssize(queue_);
}

void Dispatcher::ResolveWorkers() {
  const WorkerSet::Addresses addresses = WorkerSet::Resolve(options_.addresses);
  const MutexLock lock(mutex_);
  workers_.Update(addresses);
}

void Dispatcher::PollWorkers() {
  std::vector<std::shared_ptr<const WorkerStub>> asked;
  {
    const MutexLock lock(mutex_);
    asked = workers_.Stubs();
  }
  std::vector<v1::Inference::Stub*> stubs;
  for (const auto& worker : asked) stubs.push_back(worker->stub.get());
  const std::vector<std::vector<ModelReply>> replies = AskForModels(stubs, options_.model_names);
  Calls abandoned, calls;
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (replies[i].empty()) continue;
      for (const EngineHandle handle : workers_.UpdateHealth(asked[i]->address, replies[i]))
        abandoned.push_back(tasks_.at(handle).call);
    }
    calls = TakeCalls();
  }
  for (const auto& call : calls) call->Send();
  for (const auto& call : abandoned) call->Cancel();
}

absl::StatusOr<bool> Dispatcher::HasWorker(std::string* problem) {
  const MutexLock lock(mutex_);
  return workers_.HasWorker(problem);
}

v1::Model Dispatcher::model(const std::string& name) const {
  const MutexLock lock(mutex_);
  return workers_.model(name);
}

std::string Dispatcher::KindsInWords() const {
  const MutexLock lock(mutex_);
  return workers_.KindsInWords();
}

std::vector<std::string> Dispatcher::UsableAddresses() const {
  const MutexLock lock(mutex_);
  return workers_.UsableAddresses();
}

bool Dispatcher::WaitFor(std::chrono::milliseconds period) {
  const MutexLock lock(mutex_);
  return !changed_.WaitFor(mutex_, period, [this]() VF_REQUIRES(mutex_) { return stopping_; });
}

void Dispatcher::BeginStop() {
  std::vector<std::shared_ptr<WorkerTask>> queued;
  Calls calls;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    for (const EngineHandle handle : queue_) queued.push_back(tasks_.extract(handle).mapped().task);
    queue_.clear();
    for (const auto& [handle, active] : tasks_) calls.push_back(active.call);
    changed_.NotifyAll();
  }
  for (const auto& call : calls) call->Cancel();
  calls.clear();
  for (const auto& task : queued) task->done(Unavailable("the daemon is shutting down"));
}

void Dispatcher::WaitUntilDone() {
  const MutexLock lock(mutex_);
  changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return tasks_.empty() && call_count_ == 0; });
}

Dispatcher::Calls Dispatcher::TakeCalls() {
  Calls calls;
  for (auto it = queue_.begin(); it != queue_.end() && !stopping_;) {
    Active& active = tasks_.at(*it);
    std::shared_ptr<const WorkerStub> worker = workers_.Assign(*it, active.task->model, active.task->request.context);
    if (worker == nullptr) {
      ++it;
      continue;
    }
    it = queue_.erase(it);
    ++active.attempt_count;
    ++call_count_;
    calls.push_back(MakeCall(active, std::move(worker)));
  }
  return calls;
}

std::shared_ptr<WorkerCall> Dispatcher::MakeCall(Active& active, std::shared_ptr<const WorkerStub> worker) {
  active.call = WorkerCall::Make(active.task, std::move(worker), [this](const WorkerCall& call, absl::Status status) {
    OnCallEnded(call, std::move(status));
  });
  return active.call;
}

void Dispatcher::OnCallEnded(const WorkerCall& call, absl::Status status) {
  const std::shared_ptr<WorkerTask> task = call.task();
  std::shared_ptr<WorkerCall> second;
  std::optional<absl::StatusOr<EngineResult>> outcome;
  Calls calls;
  {
    const MutexLock lock(mutex_);
    Active& active = tasks_.at(task->handle);
    active.call = nullptr;
    const bool may_run_again = !active.is_cancelled && !stopping_;
    if (status.ok() && task->NeedsScores() && may_run_again) {
      second = MakeCall(active, call.worker());  // of the same worker
    } else {
      const std::string& worker = call.worker()->address;
      workers_.Release(task->handle, worker);
      const bool is_lost = absl::IsUnavailable(status) || (absl::IsCancelled(status) && !active.is_cancelled);
      const bool is_full = HasReason(status, ErrorReason::kLaneFull) || HasReason(status, ErrorReason::kTooManyCalls) ||
                           HasReason(status, ErrorReason::kQueueFull);
      if (is_lost && !stopping_) workers_.MarkLost(worker, std::string(status.message()));
      if ((is_lost || is_full) && may_run_again && active.attempt_count < options_.attempts_max) {
        if (is_full) {
          workers_.MarkFull(worker);
          --active.attempt_count;  // it has not run
        }
        task->result = {};
        task->is_generated = false;
        queue_.push_front(task->handle);
        calls = TakeCalls();
      } else {
        outcome = TakeOutcome(task->handle, worker, std::move(status), is_lost);
      }
    }
  }
  if (second != nullptr) return second->Send();
  if (outcome.has_value()) {
    task->done(*std::move(outcome));
    const MutexLock lock(mutex_);
    calls = TakeCalls();
  }
  for (const auto& next : calls) next->Send();
  const MutexLock lock(mutex_);
  --call_count_;
  changed_.NotifyAll();
}

absl::StatusOr<EngineResult> Dispatcher::TakeOutcome(EngineHandle handle, const std::string& worker,
                                                     absl::Status status, bool is_lost) {
  const Active active = tasks_.extract(handle).mapped();
  if (stopping_) {
    status = Unavailable("the daemon is shutting down");
  } else if (active.is_cancelled && is_lost) {
    status = absl::CancelledError("the request was cancelled");
  } else if (is_lost) {
    status = Internal(active.attempt_count, " workers were lost while they ran it, the limit is ",
                      options_.attempts_max, "; the last: ", status.message());
  }
  if (!status.ok()) return status;
  EngineResult& result = active.task->result;
  result.attempt_count = active.attempt_count;
  result.worker = worker;
  return std::move(result);
}

}  // namespace varifocal
