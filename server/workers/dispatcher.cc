#include "server/workers/dispatcher.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
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
      tasks_[handle] = task;
      queue_.push_back(task);
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
    task = found->second;
    task->is_cancelled = true;
    call = task->call;
    if (call == nullptr) {  // it is queued
      queue_.erase(std::find(queue_.begin(), queue_.end(), task));
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
  std::vector<std::shared_ptr<Worker>> asked;
  {
    const MutexLock lock(mutex_);
    for (const auto& [address, worker] : workers_.by_address()) asked.push_back(worker);
  }
  std::vector<v1::Inference::Stub*> stubs;
  for (const auto& worker : asked) stubs.push_back(worker->stub.get());
  const std::vector<std::vector<ModelReply>> replies = AskForModels(stubs, options_.model_names);
  Calls abandoned, calls;
  {
    const MutexLock lock(mutex_);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (replies[i].empty() || !workers_.UpdateHealth(*asked[i], replies[i])) continue;
      for (const EngineHandle handle : asked[i]->running) abandoned.push_back(tasks_.at(handle)->call);
    }
    calls = TakeCalls();
  }
  for (const auto& call : calls) call->Send();
  for (const auto& call : abandoned) call->Cancel();
}

absl::StatusOr<bool> Dispatcher::HasWorker(std::string* problem) {
  const MutexLock lock(mutex_);
  bool has_worker = false;
  for (const auto& [address, worker] : workers_.by_address()) {
    if (!worker->difference.empty()) {
      return WithReason(absl::FailedPreconditionError(worker->difference), ErrorReason::kWorkersDiffer);
    }
    if (!worker->problem.empty()) *problem = absl::StrCat(address, ": ", worker->problem);
    has_worker = has_worker || worker->is_usable;
  }
  if (has_worker) workers_.models().FixKinds();
  return has_worker;
}

const v1::Model& Dispatcher::model(const std::string& name) const {
  const MutexLock lock(mutex_);
  return workers_.models().model(name);
}

std::string Dispatcher::KindsInWords() const {
  const MutexLock lock(mutex_);
  return workers_.models().KindsInWords();
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
  std::deque<std::shared_ptr<WorkerTask>> queued;
  Calls calls;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    queued.swap(queue_);
    for (const auto& task : queued) tasks_.erase(task->handle);
    for (const auto& [handle, task] : tasks_) calls.push_back(task->call);
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

std::shared_ptr<Worker> Dispatcher::Choose(const WorkerTask& task) {
  const std::string key = absl::StrCat(task.model, "\n", task.request.context);
  if (!task.request.context.empty()) {
    const std::shared_ptr<Worker>* const kept = worker_of_.Find(key);
    if (kept != nullptr && (*kept)->is_usable) return HasRoom(**kept) ? *kept : nullptr;
  }
  std::shared_ptr<Worker> best;
  for (const auto& [address, worker] : workers_.by_address()) {
    if (!worker->is_usable || !HasRoom(*worker)) continue;
    if (best == nullptr || worker->running.size() < best->running.size()) best = worker;
  }
  if (best != nullptr && !task.request.context.empty()) worker_of_.Put(key, best);
  return best;
}

bool Dispatcher::HasRoom(const Worker& worker) const {
  return !worker.is_full && std::ssize(worker.running) < options_.in_flight;
}

Dispatcher::Calls Dispatcher::TakeCalls() {
  Calls calls;
  for (auto it = queue_.begin(); it != queue_.end() && !stopping_;) {
    const std::shared_ptr<WorkerTask> task = *it;
    const std::shared_ptr<Worker> worker = Choose(*task);
    if (worker == nullptr) {
      ++it;
      continue;
    }
    it = queue_.erase(it);
    worker->running.insert(task->handle);
    ++task->attempt_count;
    ++call_count_;
    calls.push_back(MakeCall(task, worker));
  }
  return calls;
}

std::shared_ptr<WorkerCall> Dispatcher::MakeCall(const std::shared_ptr<WorkerTask>& task,
                                                 const std::shared_ptr<Worker>& worker) {
  task->call = WorkerCall::Make(
      task, worker, [this](const WorkerCall& call, absl::Status status) { OnCallEnded(call, std::move(status)); });
  return task->call;
}

void Dispatcher::OnCallEnded(const WorkerCall& call, absl::Status status) {
  const std::shared_ptr<WorkerTask> task = call.task();
  std::shared_ptr<WorkerCall> second;
  std::optional<absl::StatusOr<EngineResult>> outcome;
  Calls calls;
  {
    const MutexLock lock(mutex_);
    task->call = nullptr;
    Worker& worker = *call.worker();
    if (status.ok() && task->NeedsScores() && !task->is_cancelled && !stopping_) {
      second = MakeCall(task, call.worker());  // of the same worker
    } else {
      worker.running.erase(task->handle);
      const bool is_lost = absl::IsUnavailable(status) || (absl::IsCancelled(status) && !task->is_cancelled);
      const bool is_full = HasReason(status, ErrorReason::kLaneFull) || HasReason(status, ErrorReason::kTooManyCalls) ||
                           HasReason(status, ErrorReason::kQueueFull);
      if (is_lost && worker.is_usable && !stopping_) WorkerSet::MarkLost(worker, std::string(status.message()));
      if ((is_lost || is_full) && !task->is_cancelled && !stopping_ && task->attempt_count < options_.attempts_max) {
        if (is_full) {
          worker.is_full = true;
          --task->attempt_count;  // it has not run
        }
        task->result = {};
        task->is_generated = false;
        queue_.push_front(task);
        calls = TakeCalls();
      } else {
        outcome = TakeOutcome(*task, worker.address, std::move(status), is_lost);
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

absl::StatusOr<EngineResult> Dispatcher::TakeOutcome(WorkerTask& task, const std::string& worker, absl::Status status,
                                                     bool is_lost) {
  tasks_.erase(task.handle);
  if (stopping_) {
    status = Unavailable("the daemon is shutting down");
  } else if (task.is_cancelled && is_lost) {
    status = absl::CancelledError("the request was cancelled");
  } else if (is_lost) {
    status = Internal(task.attempt_count, " workers were lost while they ran it, the limit is ", options_.attempts_max,
                      "; the last: ", status.message());
  }
  if (!status.ok()) return status;
  task.result.attempt_count = task.attempt_count;
  task.result.worker = worker;
  return std::move(task.result);
}

}  // namespace varifocal
