#include "server/rpc/refusals.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "server/rpc/status.h"

namespace varifocal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

class Refusal final : public grpc::experimental::Interceptor {
 public:
  Refusal(const TokenSource* tokens, std::string method) : tokens_(tokens), method_(std::move(method)) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      authorized_ = AuthorizeCall(*tokens_, method_, *methods->GetRecvInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
        methods->ModifySendStatus(ToGrpcStatus(
            !authorized_.ok()
                ? authorized_
                : absl::InvalidArgumentError("the request cannot be parsed as the message of this method: it is "
                                             "truncated, or a string in it is not UTF-8")));
      }
    }
    methods->Proceed();
  }

 private:
  const TokenSource* const tokens_;
  const std::string method_;
  absl::Status authorized_;
};

class RefusalFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit RefusalFactory(const TokenSource* tokens) : tokens_(tokens) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    // A method that does not exist remains UNIMPLEMENTED.
    const bool is_ours = absl::StartsWith(info->method(), "/varifocal.") && IsMethod(info->method());
    return is_ours ? new Refusal(tokens_, info->method()) : nullptr;
  }

 private:
  const TokenSource* const tokens_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRefusals(const TokenSource* tokens) {
  return std::make_unique<RefusalFactory>(tokens);
}

}  // namespace varifocal
