#include "wire/channel.h"

#include <future>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "grpcpp/generic/generic_stub.h"

namespace varifocal {
namespace {

// Sends the token with every call.
class TokenPlugin final : public grpc::MetadataCredentialsPlugin {
 public:
  explicit TokenPlugin(const std::string& token) : value_(absl::StrCat("Bearer ", token)) {}
  bool IsBlocking() const override { return false; }
  grpc::Status GetMetadata(grpc::string_ref, grpc::string_ref, const grpc::AuthContext&,
                           std::multimap<grpc::string, grpc::string>* metadata) override {
    metadata->insert({"authorization", value_});
    return grpc::Status::OK;
  }

 private:
  const std::string value_;
};

std::shared_ptr<grpc::ChannelCredentials> WithToken(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                                    const std::string& token, grpc_security_level level_min) {
  if (token.empty()) return credentials;
  return grpc::CompositeChannelCredentials(
      credentials, grpc::experimental::MetadataCredentialsFromPlugin(std::make_unique<TokenPlugin>(token), level_min));
}

}  // namespace

bool IsUnixAddress(const std::string& address) { return absl::StartsWith(address, "unix:"); }

absl::Status CheckAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  const bool is_valid = IsUnixAddress(address)
                            ? address != "unix:"
                            : colon != std::string::npos && colon > 0 &&
                                  absl::SimpleAtoi(address.substr(colon + 1), &port) && port >= 1 && port <= 65535;
  if (is_valid) return absl::OkStatus();
  return InvalidArgument("must be HOST:PORT with a port from 1 to 65535, or unix:PATH");
}

bool IsLocalAddress(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  return IsUnixAddress(address) || host == "127.0.0.1" || host == "localhost" || host == "[::1]";
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(const std::string& address,
                                                                                 const ChannelSecrets& secrets) {
  if (!secrets.root_certificates.empty()) {
    grpc::SslCredentialsOptions options;
    options.pem_root_certs = secrets.root_certificates;
    options.pem_cert_chain = secrets.certificate;
    options.pem_private_key = secrets.key;
    return WithToken(grpc::SslCredentials(options), secrets.token, GRPC_PRIVACY_AND_INTEGRITY);
  }
  if (secrets.token.empty()) return grpc::InsecureChannelCredentials();
  if (!IsLocalAddress(address)) {
    return InvalidArgument(address, " is not of this machine: a token is sent there over TLS only");
  }
  return WithToken(grpc::experimental::LocalCredentials(IsUnixAddress(address) ? UDS : LOCAL_TCP), secrets.token,
                   GRPC_SECURITY_NONE);
}

grpc::ChannelArguments MakeChannelArguments(int message_bytes_max) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(message_bytes_max);
  arguments.SetMaxSendMessageSize(message_bytes_max);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

void KeepCallbackThreads() {
  // Without credentials a channel has no connection, and its calls fail at once. Never freed; volatile, so that it is stored and leak
  // checkers find it.
  static std::shared_ptr<grpc::Channel>* volatile kept = [] {
    auto* channel = new std::shared_ptr<grpc::Channel>(grpc::CreateChannel("", nullptr));
    grpc::ClientContext context;
    const grpc::Slice nothing;
    grpc::ByteBuffer request(&nothing, 1), response;
    std::promise<void> done;
    grpc::GenericStub(*channel).UnaryCall(&context, "/", grpc::StubOptions(), &request, &response,
                                          [&done](const grpc::Status&) { done.set_value(); });
    done.get_future().wait();
    return channel;
  }();
  static_cast<void>(kept);
}

}  // namespace varifocal
