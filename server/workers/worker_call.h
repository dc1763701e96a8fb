// A request of the coordinator, and one RPC that a worker runs for it.
//
// Threads: Send once; Cancel from any thread, without the Dispatcher's lock. The end is reported on a thread of gRPC.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"
#include "server/engine/request.h"
#include "server/workers/worker_set.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

struct WorkerTask {
  // Never changed once it is queued.
  EngineHandle handle = 0;
  std::string model;
  EngineRequest request;
  bool has_bounds = false;
  std::function<void(absl::StatusOr<EngineResult>)> done;
  // Of the call that runs, which has no lock; between two calls of the Dispatcher. Annotations cannot name an owner that changes.
  EngineResult result;
  bool is_generated = false;  // the first of two RPCs is done

  // What a generation scores beside it is a second RPC.
  bool NeedsScores() const;
};

// Holds itself until it has ended.
class WorkerCall final : public grpc::ClientReadReactor<v1::GenerateResponse> {
 public:
  using OnEnded = std::function<void(const WorkerCall& call, absl::Status status)>;

  // `on_ended` is called once after Send, with the result stored in the task where the status is OK.
  static std::shared_ptr<WorkerCall> Make(std::shared_ptr<WorkerTask> task, std::shared_ptr<const WorkerStub> worker,
                                          OnEnded on_ended);
  void Send();
  void Cancel() { context_.TryCancel(); }  // gRPC may call on_ended inside
  const std::shared_ptr<WorkerTask>& task() const { return task_; }
  const std::shared_ptr<const WorkerStub>& worker() const { return worker_; }

  void OnReadDone(bool is_read) override;
  void OnDone(const grpc::Status& status) override;

 private:
  WorkerCall(std::shared_ptr<WorkerTask> task, std::shared_ptr<const WorkerStub> worker, OnEnded on_ended);
  bool IsGeneration() const;
  void StoreResult();
  void End(absl::Status status);

  const std::shared_ptr<WorkerTask> task_;
  const std::shared_ptr<const WorkerStub> worker_;
  const OnEnded on_ended_;
  std::shared_ptr<WorkerCall> self_;
  grpc::ClientContext context_;
  v1::GenerateRequest generate_;
  v1::GenerateResponse part_;
  v1::GenerationResult generated_;
  bool has_result_ = false;
  v1::ComputeLogLikelihoodsRequest score_;
  v1::ComputeLogLikelihoodsResponse scored_;
};

}  // namespace varifocal
