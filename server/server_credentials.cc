#include "server/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>

#include <mutex>
#include <string>

#include "base/reason.h"

namespace varifocal {
namespace {

absl::Status Bad(absl::string_view what) {
  return WithReason(absl::InvalidArgumentError(what), ErrorReason::kBadCredentials);
}

class TlsCredentials final : public grpc::ServerCredentials {
 public:
  explicit TlsCredentials(const CurrentCredentials* current) : current_(current) {}

  // Not used: see server/rpc/access.h.
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* const credentials = MakeTls();
    const int port = grpc_server_add_http2_port(server, address.c_str(), credentials);
    grpc_server_credentials_release(credentials);
    return port;
  }

  grpc_server_credentials* MakeTls() {
    const bool asks_clients = !current_->tls()->client_ca.empty();
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(
            asks_clients ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                         : GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE,
            &TlsCredentials::Fetch, this));
  }

  // Called at each handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(void* state, grpc_ssl_server_certificate_config** config) {
    auto* const self = static_cast<TlsCredentials*>(state);
    const std::shared_ptr<const TlsMaterial> now = self->current_->tls();
    std::lock_guard<std::mutex> lock(self->mutex_);
    if (now == self->given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {now->key.c_str(), now->certificate.c_str()};
    // gRPC asserts that there are authorities, also where clients are not asked for certificates and none is verified.
    const std::string& authorities = now->client_ca.empty() ? now->certificate : now->client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    self->given_ = now;
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const CurrentCredentials* const current_;
  std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> given_;
};

}  // namespace

absl::Status CheckProtection(const ServerProtection& protection, bool reflection) {
  if (protection.has_tls() == protection.tls_key.empty()) return Bad("--tls-cert and --tls-key must be given together");
  if (!protection.has_tls() && !protection.tls_client_ca.empty()) {
    return Bad("--tls-client-ca needs --tls-cert and --tls-key");
  }
  if (reflection && !protection.token_file.empty()) {
    return Bad("--reflection and --token-file exclude each other: reflection has no roles");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const CurrentCredentials* current) {
  if (current->tls() == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<TlsCredentials>(current);
}

}  // namespace varifocal
