#include "server/server_credentials.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "grpcpp/security/auth_metadata_processor.h"
#include "server/rpc/status.h"

namespace varifocal {
namespace {

constexpr FileKind kPemFile = {"a PEM file", 1 << 20};

absl::Status Bad(absl::string_view what) {
  return WithReason(absl::InvalidArgumentError(what), ErrorReason::kBadCredentials);
}

absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view kind) {
  const absl::StatusOr<std::string> text = ReadFile(path, kPemFile);
  if (!text.ok()) return WithReason(text.status(), ErrorReason::kBadCredentials);
  if (!absl::StrContains(*text, "-----BEGIN ") || !absl::StrContains(*text, kind)) {
    return Bad(absl::StrCat(path, " has no ", kind, " in PEM"));
  }
  return *text;
}

// Asks for a token before gRPC reads the request.
class TokenCheck final : public grpc::AuthMetadataProcessor {
 public:
  explicit TokenCheck(std::shared_ptr<const Tokens> tokens) : tokens_(std::move(tokens)) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext*, OutputMetadata*, OutputMetadata*) override {
    return ToGrpcStatus(tokens_->Authorize(Value(metadata, ":path"), Value(metadata, "authorization")));
  }

 private:
  static absl::string_view Value(const InputMetadata& metadata, const char* key) {
    // A duplicate field is rejected.
    if (metadata.count(key) != 1) return "";
    const grpc::string_ref& value = metadata.find(key)->second;
    return absl::string_view(value.data(), value.size());
  }

  const std::shared_ptr<const Tokens> tokens_;
};

}  // namespace

absl::StatusOr<ProtectedListener> MakeServerCredentials(const ServerProtection& protection) {
  if (protection.has_tls() == protection.tls_key.empty()) return Bad("--tls-cert and --tls-key must be given together");
  if (!protection.has_tls()) {
    if (protection.knows_callers()) {
      return Bad(
          "--tls-client-ca and --token-file need --tls-cert and --tls-key: a token would be readable on the way");
    }
    return ProtectedListener{grpc::InsecureServerCredentials(), nullptr};
  }
  grpc::SslServerCredentialsOptions options(protection.tls_client_ca.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  grpc::SslServerCredentialsOptions::PemKeyCertPair pair;
  ASSIGN_OR_RETURN(pair.cert_chain, ReadPem(protection.tls_certificate, "CERTIFICATE"));
  ASSIGN_OR_RETURN(pair.private_key, ReadPem(protection.tls_key, "PRIVATE KEY"));
  options.pem_key_cert_pairs.push_back(std::move(pair));
  if (!protection.tls_client_ca.empty()) {
    ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem(protection.tls_client_ca, "CERTIFICATE"));
  }
  ProtectedListener listener;
  listener.credentials = grpc::SslServerCredentials(options);
  if (protection.token_file.empty()) return listener;
  ASSIGN_OR_RETURN(listener.tokens, Tokens::Read(protection.token_file));
  listener.credentials->SetAuthMetadataProcessor(std::make_shared<TokenCheck>(listener.tokens));
  return listener;
}

}  // namespace varifocal
