#include "server/rpc/audit.h"

#include "base/exceptions.h"
#include "base/log.h"
#include "server/rpc/admission.h"

namespace varifocal {

bool Audit::Allows(const grpc::CallbackServerContext& context, absl::string_view method) const {
  return AuthorizeCall(*tokens_, method, context.client_metadata()).ok();
}

std::string Audit::CallerOf(const grpc::CallbackServerContext& context) const {
  const std::string token = TokenName(*tokens_, context.client_metadata());
  return token.empty() ? PeerAddress(callers_->Of(context.peer()).address) : absl::StrCat("token ", token);
}

std::function<absl::Status()> Audit::Record(const grpc::CallbackServerContext* context, const char* call,
                                            std::function<std::string()> resource,
                                            std::function<absl::Status()> body) const {
  return [this, context, call, resource = std::move(resource), body = std::move(body)] {
    constexpr size_t kResourceBytesMax = 256;  // a caller chooses it
    const absl::Status status = CatchExceptions("answering the call", body);
    const Caller caller = callers_->Of(context->peer());
    const std::string token = TokenName(*tokens_, context->client_metadata());
    Log(LogLevel::kInfo, "change",
        {{"call", call},
         {"peer", caller.address},
         {"token", token.empty() ? "none" : token},
         {"certificate", caller.certificate.empty() ? "none" : caller.certificate},
         {"resource", resource().substr(0, kResourceBytesMax)},
         {"status", absl::StatusCodeToString(status.code())}});
    return status;
  };
}

}  // namespace varifocal
