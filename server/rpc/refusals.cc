#include "server/rpc/refusals.h"

#include <string>

#include "absl/strings/match.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/rpc/admission.h"
#include "server/rpc/status.h"

namespace varifocal {
namespace {

using grpc::experimental::InterceptionHookPoints;
using grpc::experimental::InterceptorBatchMethods;

struct RefusalParts {
  const TokenSource* tokens;
  const Callers* callers;
  LogTally* log;
};

class Refusal final : public grpc::experimental::Interceptor {
 public:
  Refusal(const RefusalParts& parts, grpc::experimental::ServerRpcInfo* info)
      : parts_(parts), info_(info), method_(info->method()) {}

  void Intercept(InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::POST_RECV_INITIAL_METADATA)) {
      authorized_ = AuthorizeCall(*parts_.tokens, method_, *methods->GetRecvInitialMetadata());
      if (!authorized_.ok()) token_ = TokenName(*parts_.tokens, *methods->GetRecvInitialMetadata());
    }
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      if (!authorized_.ok()) WriteDown();
      const grpc::Status status = methods->GetSendStatus();
      if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED && status.error_message().empty()) {
        methods->ModifySendStatus(ToGrpcStatus(
            !authorized_.ok() ? authorized_
                              : InvalidArgument("the request cannot be parsed as the message of this method: it is "
                                                "truncated, or a string in it is not UTF-8")));
      }
    }
    methods->Proceed();
  }

 private:
  void WriteDown() const {
    parts_.log->Add({.what = method_.substr(method_.rfind('/') + 1),
                     .peer = PeerAddress(parts_.callers->Of(info_->server_context()->peer()).address),
                     .token = token_.empty() ? "none" : token_,
                     .cause = HasReason(authorized_, ErrorReason::kTokenExpired)
                                  ? "TOKEN_EXPIRED"
                                  : absl::StatusCodeToString(authorized_.code())});
  }

  const RefusalParts parts_;
  grpc::experimental::ServerRpcInfo* const info_;
  const std::string method_;
  absl::Status authorized_;
  std::string token_;
};

class RefusalFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit RefusalFactory(const RefusalParts& parts) : parts_(parts) {}

  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    // A method that does not exist remains UNIMPLEMENTED.
    const bool is_ours = absl::StartsWith(info->method(), "/varifocal.") && IsMethod(info->method());
    return is_ours ? new Refusal(parts_, info) : nullptr;
  }

 private:
  const RefusalParts parts_;
};

}  // namespace

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeRefusals(const TokenSource* tokens,
                                                                                    const Callers* callers,
                                                                                    LogTally* log) {
  return std::make_unique<RefusalFactory>(RefusalParts{tokens, callers, log});
}

}  // namespace varifocal
