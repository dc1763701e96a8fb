#include "server/server_credentials.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>

#include <mutex>
#include <string>

#include "base/reason.h"
#include "server/rpc/status.h"

namespace varifocal {
namespace {

absl::Status Bad(absl::string_view what) {
  return WithReason(absl::InvalidArgumentError(what), ErrorReason::kBadCredentials);
}

// The value of a header field; "" without it. A duplicate field is rejected.
absl::string_view Field(const grpc_metadata* metadata, size_t count, absl::string_view key) {
  const auto view = [](const grpc_slice& slice) {
    return absl::string_view(reinterpret_cast<const char*>(GRPC_SLICE_START_PTR(slice)), GRPC_SLICE_LENGTH(slice));
  };
  absl::string_view value;
  int found = 0;
  for (size_t i = 0; i < count; ++i) {
    if (view(metadata[i].key) != key) continue;
    value = view(metadata[i].value);
    ++found;
  }
  return found == 1 ? value : "";
}

// Asks for a token before gRPC reads the request.
void CheckToken(void* state, grpc_auth_context*, const grpc_metadata* metadata, size_t count,
                grpc_process_auth_metadata_done_cb done, void* user_data) {
  const std::shared_ptr<const Tokens> tokens = static_cast<const CurrentCredentials*>(state)->Get();
  const grpc::Status status =
      ToGrpcStatus(tokens->Authorize(Field(metadata, count, ":path"), Field(metadata, count, "authorization")));
  done(user_data, nullptr, 0, nullptr, 0, static_cast<grpc_status_code>(status.error_code()),
       status.error_message().c_str());
}

// A listener that asks for tokens, with TLS or on this machine without.
class ListenerCredentials final : public grpc::ServerCredentials {
 public:
  ListenerCredentials(const CurrentCredentials* current, bool is_unix_socket)
      : current_(current), is_unix_socket_(is_unix_socket) {}

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    grpc_server_credentials* const credentials =
        current_->tls() != nullptr ? MakeTls()
                                   : grpc_local_server_credentials_create(is_unix_socket_ ? UDS : LOCAL_TCP);
    if (current_->Get() != nullptr) {
      grpc_server_credentials_set_auth_metadata_processor(
          credentials, {&CheckToken, nullptr, const_cast<CurrentCredentials*>(current_)});
    }
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
            &ListenerCredentials::Fetch, this));
  }

  // Called at each handshake.
  static grpc_ssl_certificate_config_reload_status Fetch(void* state, grpc_ssl_server_certificate_config** config) {
    auto* const self = static_cast<ListenerCredentials*>(state);
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
  const bool is_unix_socket_;
  std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> given_;
};

}  // namespace

absl::Status CheckProtection(const ServerProtection& protection) {
  if (protection.has_tls() == protection.tls_key.empty()) return Bad("--tls-cert and --tls-key must be given together");
  if (!protection.has_tls() && !protection.tls_client_ca.empty()) {
    return Bad("--tls-client-ca needs --tls-cert and --tls-key");
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> MakeServerCredentials(const CurrentCredentials* current, bool is_unix_socket) {
  if (current->tls() == nullptr && current->Get() == nullptr) return grpc::InsecureServerCredentials();
  return std::make_shared<ListenerCredentials>(current, is_unix_socket);
}

}  // namespace varifocal
