#include "server/workers/worker_addresses.h"

#include <netdb.h>
#include <sys/socket.h>

#include <set>

#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "wire/message_limits.h"

namespace varifocal {
namespace {

// gRPC watches the health service of the worker and fails calls at once while it does not serve. It does so for
// channels with this policy alone.
constexpr char kServiceConfig[] = R"({"loadBalancingConfig": [{"round_robin": {}}],
  "healthCheckConfig": {"serviceName": "varifocal.v1.Inference"}})";

}  // namespace

absl::Status CheckWorkerAddresses(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    if (const absl::Status valid = CheckAddress(address); !valid.ok())
      return InvalidArgument("worker \"", address, "\" ", valid.message());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> ParseWorkerAddresses(const std::string& text) {
  std::vector<std::string> addresses = absl::StrSplit(text, ',');
  RETURN_IF_ERROR(CheckWorkerAddresses(addresses));
  return addresses;
}

std::vector<std::string> ResolveWorker(const std::string& address) {
  if (IsUnixAddress(address)) return {address};
  const size_t colon = address.rfind(':');
  const std::string host = address.substr(0, colon), port = address.substr(colon + 1);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), port.c_str(), &hints, &list) != 0) return {};
  std::set<std::string> resolved;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    char name[NI_MAXHOST] = "";
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, name, sizeof(name), nullptr, 0, NI_NUMERICHOST) != 0) continue;
    resolved.insert(entry->ai_family == AF_INET6 ? absl::StrCat("[", name, "]:", port) : absl::StrCat(name, ":", port));
  }
  freeaddrinfo(list);
  return {resolved.begin(), resolved.end()};
}

std::shared_ptr<grpc::Channel> MakeWorkerChannel(const std::string& address, const std::string& name,
                                                 const ChannelSecrets& secrets) {
  KeepCallbackThreads();
  grpc::ChannelArguments arguments = MakeChannelArguments(kMessageBytesMax);
  arguments.SetServiceConfigJSON(kServiceConfig);
  // Channels to one address would share a connection with those of another coordinator in this process.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1000);
  if (!IsUnixAddress(name)) arguments.SetSslTargetNameOverride(name.substr(0, name.rfind(':')));
  const std::shared_ptr<grpc::ChannelCredentials> credentials = *MakeChannelCredentials(address, secrets);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace varifocal
