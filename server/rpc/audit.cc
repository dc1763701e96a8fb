#include "server/rpc/audit.h"

#include <string>
#include <vector>

#include <grpc/grpc_security_constants.h>
#include "base/exceptions.h"
#include "base/log.h"
#include "server/rpc/admission.h"

namespace varifocal {

bool Audit::Allows(const grpc::CallbackServerContext& context, absl::string_view method) const {
  return AuthorizeCall(*tokens_, method, context.client_metadata()).ok();
}

std::optional<std::string> Audit::TokenOf(const grpc::CallbackServerContext& context) const {
  const std::shared_ptr<const Tokens> tokens = tokens_->Get();
  if (tokens == nullptr) return std::nullopt;
  const auto field = context.client_metadata().find("authorization");
  if (field == context.client_metadata().end()) return std::nullopt;
  const Tokens::Holder* holder = tokens->Find(absl::string_view(field->second.data(), field->second.size()));
  if (holder == nullptr) return std::nullopt;
  return holder->name;
}

std::string Audit::CallerOf(const grpc::CallbackServerContext& context) const {
  const std::optional<std::string> token = TokenOf(context);
  return token.has_value() ? absl::StrCat("token ", *token) : PeerAddress(context.peer());
}

namespace {

std::string CertificateOf(const grpc::CallbackServerContext& context) {
  const std::vector<grpc::string_ref> names = context.auth_context()->FindPropertyValues(GRPC_X509_CN_PROPERTY_NAME);
  return names.empty() ? "none" : std::string(names[0].data(), names[0].size());
}

}  // namespace

std::function<absl::Status()> Audit::Record(const grpc::CallbackServerContext* context, const char* call,
                                            std::function<std::string()> resource,
                                            std::function<absl::Status()> body) const {
  return [this, context, call, resource = std::move(resource), body = std::move(body)] {
    constexpr size_t kResourceBytesMax = 256;  // a caller chooses it
    const absl::Status status = CatchExceptions("answering the call", body);
    Log(LogLevel::kInfo, "change",
        {{"call", call},
         {"peer", context->peer()},
         {"token", TokenOf(*context).value_or("none")},
         {"certificate", CertificateOf(*context)},
         {"resource", resource().substr(0, kResourceBytesMax)},
         {"status", absl::StatusCodeToString(status.code())}});
    return status;
  };
}

}  // namespace varifocal
