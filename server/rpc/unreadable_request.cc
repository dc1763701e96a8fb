#include "server/rpc/unreadable_request.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "server/rpc/status.h"

namespace varifocal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

class Answer final : public grpc::experimental::Interceptor {
 public:
  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
        methods->ModifySendStatus(
            ToGrpcStatus(absl::InvalidArgumentError("the request cannot be parsed as the message of this method: it is "
                                                    "truncated, or a string in it is not UTF-8")));
      }
    }
    methods->Proceed();
  }
};

class Factory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return absl::StartsWith(info->method(), "/varifocal.") ? new Answer : nullptr;
  }
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeUnreadableRequestAnswers() {
  return std::make_unique<Factory>();
}

}  // namespace varifocal
