#include "server/workers/worker_addresses.h"

#include <netdb.h>
#include <sys/socket.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "wire/channel.h"

namespace varifocal {

absl::Status CheckWorkerAddresses(const std::vector<std::string>& addresses) {
  for (const std::string& address : addresses) {
    if (const absl::Status valid = CheckAddress(address); !valid.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("worker \"", address, "\" ", valid.message()));
    }
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

}  // namespace varifocal
