// The queue of requests for workers, and the choice of the worker for each.
//
// A request goes to the worker that had its context before, else to the one that runs the fewest; it waits while none has
// room. One whose worker is lost returns to the front of the queue.
//
// Threads: any. One lock protects queue, tasks and workers; RPCs start, and callbacks run, without it.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/workers/remote_workers.h"
#include "server/workers/worker_call.h"
#include "server/workers/worker_set.h"

namespace varifocal {

class Dispatcher {
 public:
  explicit Dispatcher(const RemoteWorkersOptions& options)
      : options_(options), workers_(options.secrets, options.allow_mixed, options.in_flight) {}

  EngineHandle Start(const std::string& model, EngineRequest request, bool has_bounds, RemoteWorkers::Done done);
  void Cancel(EngineHandle handle);
  int64_t queued_count() const;
  int64_t running_count() const;

  void ResolveWorkers();  // blocks, like PollWorkers
  // Asks every worker for its models and updates its state.
  void PollWorkers();
  // Whether a worker can be used; the kinds of workers are fixed then. FAILED_PRECONDITION (WORKERS_DIFFER) when one
  // differs from another. `problem` becomes that of the last worker that has one.
  absl::StatusOr<bool> HasWorker(std::string* problem);
  v1::Model model(const std::string& name) const;
  std::string KindsInWords() const;
  std::vector<std::string> UsableAddresses() const;

  // False as soon as BeginStop is called, true after `period`.
  bool WaitFor(std::chrono::milliseconds period);
  void BeginStop();      // ends the queued requests, cancels the others
  void WaitUntilDone();  // for the end of every call

 private:
  using Calls = std::vector<std::shared_ptr<WorkerCall>>;

  // A request that has not ended: in queue_, or with a call.
  struct Active {
    std::shared_ptr<WorkerTask> task;
    bool is_cancelled = false;
    int attempt_count = 0;             // that reached a worker
    std::shared_ptr<WorkerCall> call;  // while one runs
  };

  // The calls of the requests that a worker has room for; sent by the caller, without the lock.
  Calls TakeCalls() VF_REQUIRES(mutex_);
  std::shared_ptr<WorkerCall> MakeCall(Active& active, std::shared_ptr<const WorkerStub> worker) VF_REQUIRES(mutex_);
  void OnCallEnded(const WorkerCall& call, absl::Status status) VF_EXCLUDES(mutex_);
  absl::StatusOr<EngineResult> TakeOutcome(EngineHandle handle, const std::string& worker, absl::Status status,
                                           bool is_lost) VF_REQUIRES(mutex_);

  const RemoteWorkersOptions options_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  WorkerSet workers_ VF_GUARDED_BY(mutex_);
  std::deque<EngineHandle> queue_ VF_GUARDED_BY(mutex_);
  std::map<EngineHandle, Active> tasks_ VF_GUARDED_BY(mutex_);
  EngineHandle next_handle_ VF_GUARDED_BY(mutex_) = 0;
  int64_t call_count_ VF_GUARDED_BY(mutex_) = 0;  // RPCs whose end has not returned yet
};

}  // namespace varifocal
