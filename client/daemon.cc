#include "client/daemon.h"

#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/files.h"
#include "client/usage.h"

namespace varifocal::client {
namespace {

// gRFC A6: only UNAVAILABLE is retried, which is safe for every call here (SubmitJob has a request id).
constexpr char kServiceConfig[] = R"({"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
  "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]})";

constexpr std::chrono::seconds kConnectTime(5);

bool IsUnix(const std::string& address) { return absl::StartsWith(address, "unix:"); }

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool is_good = IsUnix(address)
                           ? address != "unix:"
                           : colon != std::string::npos && absl::SimpleAtoi(address.substr(colon + 1), &port) &&
                                 port >= 1 && port <= 65535;
  if (is_good) return absl::OkStatus();
  return UsageError(
      absl::StrCat("--daemon=", address, ": must be HOST:PORT with a port from 1 to 65535, or unix:PATH."));
}

// Sends the token with every call.
class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenPlugin(absl::string_view token) : value_(absl::StrCat("Bearer ", token)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->insert({"authorization", value_});
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

absl::StatusOr<std::string> ReadToken(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  const absl::string_view token = absl::StripAsciiWhitespace(absl::string_view(text).substr(0, text.find('\n')));
  if (!token.empty()) return std::string(token);
  return absl::InvalidArgumentError(absl::StrCat("--token-file=", path, ": its first line must be the token."));
}

// Whether the address is of this machine.
bool IsHere(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return IsUnix(address) || host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> WithToken(
    const std::shared_ptr<grpc::ChannelCredentials>& credentials, const std::string& token_file,
    grpc_security_level least) {
  ASSIGN_OR_RETURN(const std::string token, ReadToken(token_file));
  return grpc::CompositeChannelCredentials(
      credentials, grpc::experimental::MetadataCredentialsFromPlugin(std::make_unique<TokenPlugin>(token), least));
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeCredentials(const DaemonTarget& target) {
  if (target.tls_ca.empty()) {
    if (!target.tls_certificate.empty() || !target.tls_key.empty()) {
      return UsageError("--tls-cert and --tls-key need --tls-ca=FILE.");
    }
    if (target.token_file.empty()) return grpc::InsecureChannelCredentials();
    if (!IsHere(target.address)) {
      return UsageError("--token-file needs --tls-ca=FILE: a token leaves this machine over TLS only.");
    }
    return WithToken(grpc::experimental::LocalCredentials(IsUnix(target.address) ? UDS : LOCAL_TCP), target.token_file,
                     GRPC_SECURITY_NONE);
  }
  if (target.tls_certificate.empty() != target.tls_key.empty()) {
    return UsageError("--tls-cert and --tls-key must be given together.");
  }
  grpc::SslCredentialsOptions options;
  ASSIGN_OR_RETURN(options.pem_root_certs, ReadWholeFile(target.tls_ca));
  if (!target.tls_certificate.empty()) {
    ASSIGN_OR_RETURN(options.pem_cert_chain, ReadWholeFile(target.tls_certificate));
    ASSIGN_OR_RETURN(options.pem_private_key, ReadWholeFile(target.tls_key));
  }
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(options);
  if (target.token_file.empty()) return credentials;
  return WithToken(credentials, target.token_file, GRPC_PRIVACY_AND_INTEGRITY);
}

}  // namespace

Daemon::Daemon(const std::shared_ptr<grpc::Channel>& channel)
    : channel_(channel), inference_(v1::Inference::NewStub(channel)), evaluation_(v1::Evaluation::NewStub(channel)) {}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Connect(const DaemonTarget& target) {
  const std::string& address = target.address;
  RETURN_IF_ERROR(CheckAddress(address));
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials, MakeCredentials(target));
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
  arguments.SetMaxSendMessageSize(kMessageBytesMax);
  arguments.SetServiceConfigJSON(kServiceConfig);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // ignore proxy settings: a daemon is usually local
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(address, credentials, arguments);
  const auto deadline = std::chrono::system_clock::now() + kConnectTime;
  grpc_connectivity_state state = channel->GetState(/*try_to_connect=*/true);
  while (state != GRPC_CHANNEL_READY) {
    if (state == GRPC_CHANNEL_TRANSIENT_FAILURE || state == GRPC_CHANNEL_SHUTDOWN ||
        !channel->WaitForStateChange(state, deadline)) {
      if (!IsHere(address)) {
        return absl::UnavailableError(
            absl::StrCat("No daemon answers at ", address, "; name another with --daemon=ADDRESS."));
      }
      return absl::UnavailableError(absl::StrCat(
          "No daemon answers at ", address, "; start one with `varifocald --db=results.db --model=NAME=DIR",
          address == "127.0.0.1:50151" ? "" : absl::StrCat(" --listen=", address),
          "`, or name another with --daemon=ADDRESS."));
    }
    state = channel->GetState(/*try_to_connect=*/true);
  }
  return std::make_unique<Daemon>(std::move(channel));
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // The two enumerations have the same values.
  std::string message = status.error_message();
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    message = absl::StrCat("The daemon did not answer in time (", message, ").");
  } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    message = absl::StrCat("The daemon is no longer reachable or not ready: ", message);
  }
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), message);
}

}  // namespace varifocal::client
