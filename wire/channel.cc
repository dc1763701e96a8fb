#include "wire/channel.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

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

}  // namespace

std::shared_ptr<grpc::ChannelCredentials> MakeChannelCredentials(const ChannelSecrets& secrets) {
  if (secrets.root_certificates.empty()) return grpc::InsecureChannelCredentials();
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = secrets.root_certificates;
  options.pem_cert_chain = secrets.certificate;
  options.pem_private_key = secrets.key;
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::SslCredentials(options);
  if (secrets.token.empty()) return credentials;
  return grpc::CompositeChannelCredentials(
      credentials, grpc::MetadataCredentialsFromPlugin(std::make_unique<TokenPlugin>(secrets.token)));
}

grpc::ChannelArguments MakeChannelArguments(int message_bytes_max) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(message_bytes_max);
  arguments.SetMaxSendMessageSize(message_bytes_max);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

}  // namespace varifocal
