// What a caller hears whose request is no message of its method: INVALID_ARGUMENT and a sentence.
//
// gRPC finishes such a call before any handler sees it, as UNIMPLEMENTED without a word. All methods of ours are
// implemented, so an UNIMPLEMENTED without a word is such a request; the status is replaced on its way out.
//
// Source: gRPC 1.51, grpcpp/impl/codegen/server_callback_handlers.h, RunHandler ("if deserialization or reactor creator
//         failed, we need to fail the call").
#pragma once

#include <memory>

#include "grpcpp/support/server_interceptor.h"

namespace varifocal {

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeUnreadableRequestAnswers();

}  // namespace varifocal
