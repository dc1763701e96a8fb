#include "server/workers/worker_call.h"

#include <utility>
#include <variant>

#include "base/status_macros.h"
#include "server/rpc/status.h"
#include "server/workers/worker_request.h"

namespace varifocal {

bool WorkerTask::NeedsScores() const {
  const auto* work = std::get_if<GenerateWork>(&request.work);
  return work != nullptr && !work->scored.empty() && result.continuations.empty() &&
         result.finish_reason != EngineFinishReason::kCancelled;
}

WorkerCall::WorkerCall(std::shared_ptr<WorkerTask> task, std::shared_ptr<const WorkerStub> worker, OnEnded on_ended)
    : task_(std::move(task)), worker_(std::move(worker)), on_ended_(std::move(on_ended)) {}

std::shared_ptr<WorkerCall> WorkerCall::Make(std::shared_ptr<WorkerTask> task, std::shared_ptr<const WorkerStub> worker,
                                             OnEnded on_ended) {
  std::shared_ptr<WorkerCall> call(new WorkerCall(std::move(task), std::move(worker), std::move(on_ended)));
  call->self_ = call;
  return call;
}

bool WorkerCall::IsGeneration() const {
  return std::holds_alternative<GenerateWork>(task_->request.work) && !task_->is_generated;
}

void WorkerCall::Send() {
  v1::Inference::Stub& stub = *worker_->stub;
  if (IsGeneration()) {
    generate_ = ToGenerateProto(task_->model, task_->request);
    stub.async()->Generate(&context_, &generate_, this);
    StartRead(&part_);
    StartCall();
    return;
  }
  score_ = ToScoreProto(task_->model, task_->request);
  stub.async()->ComputeLogLikelihoods(&context_, &score_, &scored_,
                                      [this](const grpc::Status& status) { End(FromGrpcStatus(status)); });
}

void WorkerCall::OnReadDone(bool is_read) {
  if (!is_read) return;
  if (part_.has_result()) {
    generated_.Swap(part_.mutable_result());
    has_result_ = true;
  }
  StartRead(&part_);
}

void WorkerCall::OnDone(const grpc::Status& status) {
  absl::Status ended = FromGrpcStatus(status);
  if (ended.ok() && !has_result_) ended = Unavailable("the worker ended the stream without a result");
  End(std::move(ended));
}

// The task is of one call, so no other thread touches its result.
void WorkerCall::StoreResult() {
  if (IsGeneration()) {
    task_->is_generated = true;
    FromProto(generated_, task_->has_bounds, &task_->result);
  } else {
    FromProto(scored_, task_->request, &task_->result);
  }
}

void WorkerCall::End(absl::Status status) {
  const std::shared_ptr<WorkerCall> self = std::move(self_);  // until on_ended returns
  if (status.ok()) StoreResult();
  on_ended_(*self, std::move(status));
}

}  // namespace varifocal
