// Whether an address can be listened on: gRPC itself says only that it cannot.
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "server/server.h"

namespace varifocal {
namespace {

bool IsLoopback(absl::string_view host) {
  return host == "localhost" || host == "::1" || absl::StartsWith(host, "127.");
}

}  // namespace

absl::Status CheckListenAddress(const std::string& address, bool allow_remote) {
  const size_t colon = address.rfind(':');
  int port = -1;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return WithReason(absl::InvalidArgumentError(
                          absl::StrCat("listen address \"", address, "\" is not HOST:PORT with a port of 0 to 65535")),
                      ErrorReason::kBadListenAddress);
  }
  absl::string_view host = absl::string_view(address).substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  if (!allow_remote && !IsLoopback(host)) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("listen address \"", address,
                                                "\" is not a loopback one, and anyone who reaches it could "
                                                "use this daemon; add --allow-remote to listen there all the same")),
        ErrorReason::kRemoteListenAddress);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(std::string(host).c_str(), absl::StrCat(port).c_str(), &hints, &found);
  if (failed != 0) {
    return WithReason(absl::InvalidArgumentError(
                          absl::StrCat("listen address \"", address, "\" cannot be found: ", gai_strerror(failed))),
                      ErrorReason::kBadListenAddress);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
  if (fd < 0) return absl::InternalError(absl::StrCat("cannot make a socket: ", std::strerror(errno)));
  // As gRPC does: an address whose last connections are still closing can be taken.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = errno;
  close(fd);
  if (bound) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("cannot listen on ", address, ": ", std::strerror(error))),
      error == EADDRINUSE ? ErrorReason::kAddressInUse : ErrorReason::kCannotListen);
}

}  // namespace varifocal
