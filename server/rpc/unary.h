// A unary handler whose body runs on a pool; most RPC methods need nothing else.
//
//   return RunUnary(context, pools_->control, [this, request, response] { return Do(*request, response); });
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/exceptions.h"
#include "grpcpp/server_context.h"
#include "server/rpc/admission.h"
#include "server/rpc/rpc_pool.h"
#include "server/rpc/status.h"

namespace varifocal {

// Request and response live until the reactor is finished, so `body` may keep pointers to them. A call that was
// cancelled or exceeded its deadline while it waited for a thread is not started.
inline grpc::ServerUnaryReactor* RunUnary(grpc::CallbackServerContext* context, RpcPool& pool,
                                          std::function<absl::Status()> body) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status posted = pool.Post([context, reactor, body = std::move(body)] {
    reactor->Finish(ToGrpcStatus(context->IsCancelled() ? absl::CancelledError("the call was cancelled")
                                                        : CatchExceptions("answering the call", body)));
  });
  if (!posted.ok()) reactor->Finish(ToGrpcStatus(posted));
  return reactor;
}

// The same for a call that counts against the admission limits of `caller`, with the bytes of its request.
template <typename Request>
grpc::ServerUnaryReactor* RunAdmitted(grpc::CallbackServerContext* context, const std::string& caller, RpcPool& pool,
                                      Admission& admission, const Request& request,
                                      std::function<absl::Status()> body) {
  absl::StatusOr<Admission::Ticket> ticket = admission.Admit(caller, request.ByteSizeLong());
  if (!ticket.ok()) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(ticket.status()));
    return reactor;
  }
  return RunUnary(context, pool, [ticket = *std::move(ticket), body = std::move(body)] { return body(); });
}

// Whether the response is no longer needed: the client disconnected or its deadline has passed. For loops in a body.
inline std::function<bool()> IsAbandoned(grpc::CallbackServerContext* context) {
  return [context] { return context->IsCancelled(); };
}

}  // namespace varifocal
