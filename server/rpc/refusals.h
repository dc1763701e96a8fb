// Answers of calls that no handler took: of a caller whose token does not allow the method, and requests that are not a
// message of their method.
//
// gRPC finishes a call whose request cannot be parsed before any handler runs, and one whose handler returned null, as
// UNIMPLEMENTED with an empty message. All methods here are implemented, so an interceptor replaces that status: by
// UNAUTHENTICATED or PERMISSION_DENIED where the token is at fault (Audit::Allows), which is looked at first, so that
// the answer does not depend on the request; else by INVALID_ARGUMENT.
//
// Source: gRPC 1.51, grpcpp/impl/codegen/server_callback_handlers.h, RunHandler ("if deserialization or reactor creator
//         failed, we need to fail the call").
#pragma once

#include <memory>

#include "base/log_tally.h"
#include "grpcpp/support/server_interceptor.h"
#include "server/front/callers.h"
#include "server/rpc/access.h"

namespace varifocal {

// Calls that are refused for their token are written to `log`, with the caller's address. All outlive the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRefusals(const TokenSource* tokens,
                                                                                    const Callers* callers,
                                                                                    LogTally* log);

}  // namespace varifocal
