// The error for a request that is not a message of its method: INVALID_ARGUMENT and a sentence.
//
// gRPC finishes such a call before any handler runs, as UNIMPLEMENTED with an empty message. All methods here are
// implemented, so UNIMPLEMENTED with an empty message is such a request; an interceptor replaces the status.
//
// Source: gRPC 1.51, grpcpp/impl/codegen/server_callback_handlers.h, RunHandler ("if deserialization or reactor creator
//         failed, we need to fail the call").
#pragma once

#include <memory>

#include "grpcpp/support/server_interceptor.h"

namespace varifocal {

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeUnreadableRequestAnswers();

}  // namespace varifocal
