// A unary handler whose body runs on the worker pool: the whole of most RPC methods.
//
//   return RunUnary(context, workers_, [this, request, response] { return Do(*request, response); });
#pragma once

#include <functional>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "grpcpp/server_context.h"
#include "server/rpc/status.h"
#include "server/rpc/worker_pool.h"

namespace varifocal {

// Request and response live until the reactor is finished, so `body` may keep pointers to them. A call that was
// cancelled or ran past its deadline while it waited for a worker is not begun.
inline grpc::ServerUnaryReactor* RunUnary(grpc::CallbackServerContext* context, WorkerPool& workers,
                                          std::function<absl::Status()> body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  workers.Post([context, reactor, body = std::move(body)] {
    reactor->Finish(ToGrpcStatus(context->IsCancelled() ? absl::CancelledError("the call was cancelled")
                                                        : CatchExceptions("answering the call", body)));
  });
  return reactor;
}

}  // namespace varifocal
