#include "server/workers/remote_workers.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/rpc/status.h"
#include "server/workers/worker_addresses.h"
#include "server/workers/worker_models.h"
#include "server/workers/worker_request.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

constexpr int kLooksPerResolve = 5;
constexpr auto kQuietConnect = std::chrono::seconds(2);
constexpr auto kConnectLinePeriod = std::chrono::seconds(30);
constexpr int kFailuresMax = 3;  // in a row, until a worker's requests are ended

}  // namespace

class RemoteWorkers::Impl {
 public:
  explicit Impl(const RemoteWorkersOptions& options) : options_(options), models_(options.allow_mixed) {}

  absl::Status Connect() {
    const auto deadline = std::chrono::steady_clock::now() + options_.connect_timeout;
    const bool has_deadline = options_.connect_timeout > milliseconds(0);
    auto next_line = std::chrono::steady_clock::now() + kQuietConnect;
    std::string last_problem = "no address was found";
    while (true) {
      Refresh();
      Look();
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        for (const auto& [address, worker] : workers_) {
          if (!worker->difference.empty()) {
            return WithReason(absl::FailedPreconditionError(worker->difference), ErrorReason::kWorkersDiffer);
          }
          if (!worker->problem.empty()) last_problem = absl::StrCat(address, ": ", worker->problem);
        }
        if (UsableCount() > 0) {
          models_.FixKinds();
          break;
        }
      }
      if (!has_deadline && std::chrono::steady_clock::now() >= next_line) {
        next_line += kConnectLinePeriod;
        Log(LogLevel::kWarning, "waiting_for_workers",
            {{"workers", absl::StrJoin(options_.addresses, ",")}, {"problem", last_problem}});
      }
      if (has_deadline && std::chrono::steady_clock::now() >= deadline) {
        return absl::UnavailableError(absl::StrCat("no worker of ", absl::StrJoin(options_.addresses, ","),
                                                   " answered within ", options_.connect_timeout.count() / 1000,
                                                   " s; the last: ", last_problem));
      }
      std::this_thread::sleep_for(std::min<milliseconds>(options_.period, milliseconds(200)));
    }
    thread_ = std::thread([this] { WatchLoop(); });
    return absl::OkStatus();
  }

  const v1::Model& model(const std::string& name) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return models_.model(name);
  }

  std::string KindsInWords() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return models_.KindsInWords();
  }

  std::vector<std::string> Addresses() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<std::string> addresses;
    for (const auto& [address, worker] : workers_) {
      if (worker->is_usable) addresses.push_back(address);
    }
    return addresses;
  }

  EngineHandle Start(const std::string& model, EngineRequest request, bool has_bounds, Done done) {
    std::unique_lock<std::mutex> lock(mutex_);
    const EngineHandle handle = next_handle_++;
    auto task = std::make_shared<Task>();
    task->handle = handle;
    task->model = model;
    task->request = std::move(request);
    task->has_bounds = has_bounds;
    task->done = std::move(done);
    if (stopping_) {
      lock.unlock();
      task->done(absl::UnavailableError("the daemon is shutting down"));
      return handle;
    }
    tasks_[handle] = task;
    queue_.push_back(task);
    Dispatch(lock);
    return handle;
  }

  void Cancel(EngineHandle handle) {
    std::unique_lock<std::mutex> lock(mutex_);
    const auto found = tasks_.find(handle);
    if (found == tasks_.end()) return;
    const std::shared_ptr<Task> task = found->second;
    task->is_cancelled = true;
    if (const std::shared_ptr<Call> call = task->call; call != nullptr) {
      lock.unlock();  // gRPC may run callbacks here
      return call->context.TryCancel();
    }
    const auto queued = std::find(queue_.begin(), queue_.end(), task);
    if (queued == queue_.end()) return;  // it is being sent or returned
    queue_.erase(queued);
    tasks_.erase(handle);
    lock.unlock();
    task->done(absl::CancelledError("the request was cancelled"));
  }

  int64_t queued_count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::ssize(queue_);
  }
  int64_t running_count() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::ssize(tasks_) - std::ssize(queue_);
  }

  void Stop() {
    std::deque<std::shared_ptr<Task>> queued;
    std::vector<std::shared_ptr<Call>> calls;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
      queued.swap(queue_);
      for (const auto& task : queued) tasks_.erase(task->handle);
      for (const auto& [handle, task] : tasks_) {
        if (task->call != nullptr) calls.push_back(task->call);
      }
      changed_.notify_all();
    }
    for (const auto& call : calls) call->context.TryCancel();
    calls.clear();
    for (const auto& task : queued) task->done(absl::UnavailableError("the daemon is shutting down"));
    if (thread_.joinable()) thread_.join();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.empty() && call_count_ == 0; });
  }

 private:
  struct Worker {
    std::string address;
    std::unique_ptr<v1::Inference::Stub> stub;
    bool is_usable = false;
    bool is_listed = true;   // in the latest resolution
    bool is_full = false;    // refused a request for lack of room; until the next look
    int failure_count = 0;   // of looks, in a row
    std::string problem;     // of the last look
    std::string difference;  // why it cannot be used beside the others; logged once
    std::set<EngineHandle> running;
  };

  struct Task;

  // One RPC; holds itself until it has ended.
  struct Call : public grpc::ClientReadReactor<v1::GenerateResponse> {
    std::shared_ptr<Call> self;
    Impl* impl = nullptr;
    std::shared_ptr<Task> task;
    std::shared_ptr<Worker> worker;
    grpc::ClientContext context;
    v1::GenerateRequest generate;
    v1::GenerateResponse part;
    v1::GenerationResult generated;
    bool has_result = false;
    v1::ComputeLogLikelihoodsRequest score;
    v1::ComputeLogLikelihoodsResponse scored;

    void OnReadDone(bool is_read) override {
      if (!is_read) return;
      if (part.has_result()) {
        generated.Swap(part.mutable_result());
        has_result = true;
      }
      StartRead(&part);
    }
    void OnDone(const grpc::Status& status) override {
      absl::Status ended = FromGrpcStatus(status);
      if (ended.ok() && !has_result) ended = absl::UnavailableError("the worker ended the stream without a result");
      impl->Ended(this, ended);
    }
  };

  struct Task {
    EngineHandle handle = 0;
    std::string model;
    EngineRequest request;
    bool has_bounds = false;
    Done done;
    bool is_cancelled = false;
    int attempt_count = 0;  // that reached a worker
    EngineResult result;
    bool is_generated = false;   // the first of two RPCs is done
    std::shared_ptr<Call> call;  // while one runs
  };

  int UsableCount() const {
    return std::count_if(workers_.begin(), workers_.end(), [](const auto& entry) { return entry.second->is_usable; });
  }

  // Creates workers for new addresses, and marks those that are gone.
  void Refresh() {
    std::map<std::string, std::string> found;  // address, and the name that it was given as
    std::set<std::string> unresolved;
    for (const std::string& name : options_.addresses) {
      const std::vector<std::string> addresses = ResolveWorker(name);
      if (addresses.empty()) unresolved.insert(name);
      for (const std::string& address : addresses) found.emplace(address, name);
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    // A failed resolution does not take workers away.
    for (auto& [address, worker] : workers_) worker->is_listed = found.count(address) > 0 || !unresolved.empty();
    for (const auto& [address, name] : found) {
      if (workers_.count(address) > 0) continue;
      auto worker = std::make_shared<Worker>();
      worker->address = address;
      worker->stub = v1::Inference::NewStub(MakeWorkerChannel(address, name, options_.secrets));
      workers_[address] = std::move(worker);
    }
    for (auto it = workers_.begin(); it != workers_.end();) {
      const bool is_gone = !it->second->is_listed && !it->second->is_usable && it->second->running.empty();
      it = is_gone ? workers_.erase(it) : std::next(it);
    }
  }

  // Asks every worker for its models and updates its state.
  void Look() {
    std::vector<std::shared_ptr<Worker>> asked;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [address, worker] : workers_) asked.push_back(worker);
    }
    std::vector<v1::Inference::Stub*> stubs;
    for (const auto& worker : asked) stubs.push_back(worker->stub.get());
    const std::vector<std::vector<ModelReply>> replies = AskForModels(stubs, options_.model_names);
    std::vector<std::shared_ptr<Call>> abandoned;
    std::unique_lock<std::mutex> lock(mutex_);
    for (size_t i = 0; i < asked.size(); ++i) {
      if (!replies[i].empty()) Judge(*asked[i], replies[i], &abandoned);
    }
    Dispatch(lock);
    lock.unlock();
    for (const auto& call : abandoned) call->context.TryCancel();
  }

  void Judge(Worker& worker, const std::vector<ModelReply>& replies, std::vector<std::shared_ptr<Call>>* abandoned) {
    worker.is_full = false;
    const std::string problem = ProblemOf(replies);
    const std::string difference = problem.empty() ? models_.Compare(worker.address, replies) : "";
    const bool was_usable = worker.is_usable;
    worker.problem = problem;
    worker.failure_count = problem.empty() ? 0 : worker.failure_count + 1;
    worker.is_usable = problem.empty() && difference.empty() && worker.is_listed;
    if (!difference.empty() && worker.difference != difference) {
      Log(LogLevel::kError, "worker_refused", {{"worker", worker.address}, {"cause", difference}});
    }
    worker.difference = difference;
    if (worker.is_usable && !was_usable) Log(LogLevel::kInfo, "worker_joined", {{"worker", worker.address}});
    if (!worker.is_usable && was_usable) LogLost(worker, problem.empty() ? difference : problem);
    if (worker.failure_count < kFailuresMax) return;
    for (const EngineHandle handle : worker.running) {
      if (const auto& call = tasks_.at(handle)->call; call != nullptr) abandoned->push_back(call);
    }
  }

  void LogLost(const Worker& worker, const std::string& cause) const {
    Log(LogLevel::kWarning, "worker_lost",
        {{"worker", worker.address}, {"cause", cause}, {"running", worker.running.size()}});
  }

  void WatchLoop() {
    std::unique_lock<std::mutex> lock(mutex_);
    for (int look = 1; !stopping_; ++look) {
      changed_.wait_for(lock, options_.period, [this] { return stopping_; });
      if (stopping_) return;
      lock.unlock();
      if (look % kLooksPerResolve == 0) Refresh();
      Look();
      lock.lock();
    }
  }

  // The worker for a request, null when it must wait.
  std::shared_ptr<Worker> Choose(const Task& task) {
    const std::string key = absl::StrCat(task.model, "\n", task.request.context);
    if (!task.request.context.empty()) {
      const auto kept = worker_of_.find(key);
      if (kept != worker_of_.end() && kept->second->is_usable) {
        return HasRoom(*kept->second) ? kept->second : nullptr;
      }
    }
    std::shared_ptr<Worker> best;
    for (const auto& [address, worker] : workers_) {
      if (!worker->is_usable || !HasRoom(*worker)) continue;
      if (best == nullptr || worker->running.size() < best->running.size()) best = worker;
    }
    if (best != nullptr && !task.request.context.empty()) {
      worker_of_[key] = best;
      contexts_.push_back(key);
      if (contexts_.size() > kContextsMax) {
        worker_of_.erase(contexts_.front());
        contexts_.pop_front();
      }
    }
    return best;
  }
  bool HasRoom(const Worker& worker) const {
    return !worker.is_full && std::ssize(worker.running) < options_.in_flight;
  }

  // Sends what can be sent. The lock is released while RPCs start.
  void Dispatch(std::unique_lock<std::mutex>& lock) {
    std::vector<std::shared_ptr<Call>> calls;
    for (auto it = queue_.begin(); it != queue_.end() && !stopping_;) {
      const std::shared_ptr<Task> task = *it;
      const std::shared_ptr<Worker> worker = Choose(*task);
      if (worker == nullptr) {
        ++it;
        continue;
      }
      it = queue_.erase(it);
      worker->running.insert(task->handle);
      ++task->attempt_count;
      calls.push_back(MakeCall(task, worker));
    }
    lock.unlock();
    for (const auto& call : calls) Send(call.get());
    lock.lock();
  }

  std::shared_ptr<Call> MakeCall(const std::shared_ptr<Task>& task, const std::shared_ptr<Worker>& worker) {
    auto call = std::make_shared<Call>();
    call->self = call;
    call->impl = this;
    call->task = task;
    call->worker = worker;
    task->call = call;
    ++call_count_;
    return call;
  }

  static void Send(Call* call) {
    const Task& task = *call->task;
    v1::Inference::Stub& stub = *call->worker->stub;
    if (std::holds_alternative<GenerateWork>(task.request.work) && !task.is_generated) {
      call->generate = ToGenerateProto(task.model, task.request);
      stub.async()->Generate(&call->context, &call->generate, call);
      call->StartRead(&call->part);
      call->StartCall();
      return;
    }
    call->score = ToScoreProto(task.model, task.request);
    stub.async()->ComputeLogLikelihoods(
        &call->context, &call->score, &call->scored,
        [call](const grpc::Status& status) { call->impl->Ended(call, FromGrpcStatus(status)); });
  }

  void Ended(Call* call, absl::Status status) {
    const std::shared_ptr<Call> owned = std::move(call->self);
    const std::shared_ptr<Task> task = call->task;
    if (status.ok()) Keep(*call);
    std::unique_lock<std::mutex> lock(mutex_);
    task->call = nullptr;
    Worker& worker = *call->worker;
    // What a generation scores beside it is a second RPC of the same worker.
    if (status.ok() && NeedsScores(*task) && !task->is_cancelled && !stopping_) {
      const std::shared_ptr<Call> second = MakeCall(task, call->worker);
      --call_count_;
      lock.unlock();
      return Send(second.get());
    }
    worker.running.erase(task->handle);
    const bool is_lost = absl::IsUnavailable(status) || (absl::IsCancelled(status) && !task->is_cancelled);
    const bool is_full = HasReason(status, ErrorReason::kLaneFull) || HasReason(status, ErrorReason::kTooManyCalls) ||
                         HasReason(status, ErrorReason::kQueueFull);
    if (is_lost && worker.is_usable && !stopping_) {
      worker.is_usable = false;  // until it answers a look again
      LogLost(worker, std::string(status.message()));
    }
    if ((is_lost || is_full) && !task->is_cancelled && !stopping_ && task->attempt_count < options_.attempts_max) {
      if (is_full) {
        worker.is_full = true;
        --task->attempt_count;  // it has not run
      }
      task->result = {};
      task->is_generated = false;
      queue_.push_front(task);
    } else {
      Finish(lock, *task, worker.address, std::move(status), is_lost);
    }
    Dispatch(lock);
    --call_count_;
    changed_.notify_all();
  }

  static bool NeedsScores(const Task& task) {
    const auto* work = std::get_if<GenerateWork>(&task.request.work);
    return work != nullptr && !work->scored.empty() && task.result.continuations.empty() &&
           task.result.finish_reason != EngineFinishReason::kCancelled;
  }

  // The task is of one call, so no other thread touches its result.
  static void Keep(const Call& call) {
    Task& task = *call.task;
    if (std::holds_alternative<GenerateWork>(task.request.work) && !task.is_generated) {
      task.is_generated = true;
      FromProto(call.generated, task.has_bounds, &task.result);
    } else {
      FromProto(call.scored, task.request, &task.result);
    }
  }

  void Finish(std::unique_lock<std::mutex>& lock, Task& task, const std::string& worker, absl::Status status,
              bool is_lost) {
    tasks_.erase(task.handle);
    if (stopping_) {
      status = absl::UnavailableError("the daemon is shutting down");
    } else if (task.is_cancelled && is_lost) {
      status = absl::CancelledError("the request was cancelled");
    } else if (is_lost) {
      status =
          absl::InternalError(absl::StrCat(task.attempt_count, " workers were lost while they ran it, the limit is ",
                                           options_.attempts_max, "; the last: ", status.message()));
    }
    task.result.attempt_count = task.attempt_count;
    task.result.worker = worker;
    lock.unlock();
    if (status.ok()) {
      task.done(std::move(task.result));
    } else {
      task.done(std::move(status));
    }
    lock.lock();
  }

  static constexpr size_t kContextsMax = 10'000;

  const RemoteWorkersOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::map<std::string, std::shared_ptr<Worker>> workers_;
  WorkerModels models_;
  std::deque<std::shared_ptr<Task>> queue_;
  std::map<EngineHandle, std::shared_ptr<Task>> tasks_;  // queued or running
  EngineHandle next_handle_ = 0;
  int64_t call_count_ = 0;                                    // RPCs whose end has not returned yet
  std::map<std::string, std::shared_ptr<Worker>> worker_of_;  // by model and context
  std::deque<std::string> contexts_;                          // in the order of their first request
  std::thread thread_;
};

RemoteWorkers::RemoteWorkers(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RemoteWorkers::~RemoteWorkers() { Stop(); }

absl::StatusOr<std::unique_ptr<RemoteWorkers>> RemoteWorkers::Connect(const RemoteWorkersOptions& options) {
  VF_CHECK(options.secrets.token.empty() || !options.secrets.root_certificates.empty(), "a token without TLS");
  RETURN_IF_ERROR(CheckWorkerAddresses(options.addresses));
  auto impl = std::make_unique<Impl>(options);
  const absl::Status connected = impl->Connect();
  if (!connected.ok()) {
    impl->Stop();
    return connected;
  }
  return std::unique_ptr<RemoteWorkers>(new RemoteWorkers(std::move(impl)));
}

const v1::Model& RemoteWorkers::model(const std::string& name) const { return impl_->model(name); }
std::string RemoteWorkers::KindsInWords() const { return impl_->KindsInWords(); }
std::vector<std::string> RemoteWorkers::Addresses() const { return impl_->Addresses(); }
EngineHandle RemoteWorkers::Start(const std::string& model, EngineRequest request, bool has_bounds, Done done) {
  return impl_->Start(model, std::move(request), has_bounds, std::move(done));
}
void RemoteWorkers::Cancel(EngineHandle handle) { impl_->Cancel(handle); }
int64_t RemoteWorkers::queued_count() const { return impl_->queued_count(); }
int64_t RemoteWorkers::running_count() const { return impl_->running_count(); }
void RemoteWorkers::Stop() { impl_->Stop(); }

}  // namespace varifocal
