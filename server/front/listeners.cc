#include "server/front/listeners.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int kBacklog = 512;

absl::Status CannotOpen(absl::string_view host, int error) {
  return WithReason(FailedPrecondition("cannot listen on ", host, ": ", std::strerror(error)),
                    error == EADDRINUSE ? ErrorReason::kAddressInUse : ErrorReason::kCannotListen);
}

bool IsWildcard(const sockaddr* address) {
  if (address->sa_family == AF_INET) return reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr == 0;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  const bool is_mapped = IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr32[3] == 0;
  return is_mapped || IN6_IS_ADDR_UNSPECIFIED(&six);
}

absl::StatusOr<int> OpenAt(absl::string_view host, const sockaddr* address, socklen_t size, bool both_families) {
  const int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return CannotOpen(host, errno);
  const int yes = 1;
  if (address->sa_family != AF_UNIX) setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (address->sa_family == AF_INET6) {
    const int v6_only = both_families ? 0 : 1;
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof(v6_only));
  }
  if (bind(fd, address, size) == 0 && listen(fd, kBacklog) == 0) return fd;
  const absl::Status failed = CannotOpen(host, errno);
  close(fd);
  return failed;
}

absl::StatusOr<int> BoundPort(int fd) {
  sockaddr_storage bound = {};
  socklen_t size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0) return CannotOpen("its port", errno);
  return ntohs(bound.ss_family == AF_INET ? reinterpret_cast<const sockaddr_in&>(bound).sin_port
                                          : reinterpret_cast<const sockaddr_in6&>(bound).sin6_port);
}

absl::Status OpenAll(const ListenAddress& address, Listeners* opened) {
  if (address.is_unix()) {
    ASSIGN_OR_RETURN(const sockaddr_un to, SocketAddress(address.socket_path));
    ASSIGN_OR_RETURN(opened->fds.emplace_back(),
                     OpenAt(address.socket_path, reinterpret_cast<const sockaddr*>(&to), sizeof(to), false));
    return absl::OkStatus();
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  if (failed != 0) {
    return WithReason(InvalidArgument(address.host, " cannot be found: ", gai_strerror(failed)),
                      ErrorReason::kBadListenAddress);
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  opened->port = address.port;
  if (IsWildcard(found->ai_addr)) {
    sockaddr_in6 any = {};
    any.sin6_family = AF_INET6;
    any.sin6_port = htons(static_cast<uint16_t>(address.port));
    const absl::StatusOr<int> both =
        OpenAt(address.host, reinterpret_cast<const sockaddr*>(&any), sizeof(any), /*both_families=*/true);
    if (both.ok()) {
      opened->fds.push_back(*both);
      ASSIGN_OR_RETURN(opened->port, BoundPort(*both));
      return absl::OkStatus();
    }
    if (HasReason(both.status(), ErrorReason::kAddressInUse)) return both.status();
  }
  absl::Status first_failure;
  for (addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (one->ai_family == AF_INET) {
      reinterpret_cast<sockaddr_in*>(one->ai_addr)->sin_port = htons(static_cast<uint16_t>(opened->port));
    } else if (one->ai_family == AF_INET6) {
      reinterpret_cast<sockaddr_in6*>(one->ai_addr)->sin6_port = htons(static_cast<uint16_t>(opened->port));
    } else {
      continue;
    }
    const absl::StatusOr<int> fd = OpenAt(address.host, one->ai_addr, one->ai_addrlen, /*both_families=*/false);
    if (!fd.ok()) {
      // A name of both families on a machine without one of them is served by the other; a taken port is an error.
      if (HasReason(fd.status(), ErrorReason::kAddressInUse)) return fd.status();
      first_failure.Update(fd.status());
      continue;
    }
    opened->fds.push_back(*fd);
    ASSIGN_OR_RETURN(opened->port, BoundPort(*fd));
  }
  return opened->fds.empty() ? first_failure : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Listeners> OpenListeners(const ListenAddress& address) {
  Listeners opened;
  const absl::Status status = OpenAll(address, &opened);
  if (status.ok()) return opened;
  for (const int fd : opened.fds) close(fd);
  return status;
}

}  // namespace varifocal
