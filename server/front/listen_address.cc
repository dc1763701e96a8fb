#include "server/front/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kUnixPrefix[] = "unix:";
constexpr mode_t kOwnerOnly = 0177;

absl::Status CannotListen(absl::string_view address, absl::string_view why, int error) {
  return WithReason(FailedPrecondition("cannot listen on ", address, ": ", why),
                    error == EADDRINUSE ? ErrorReason::kAddressInUse : ErrorReason::kCannotListen);
}

absl::Status BadAddress(absl::string_view address, absl::string_view what) {
  return WithReason(InvalidArgument("listen address \"", address, "\" ", what), ErrorReason::kBadListenAddress);
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six) != 0;
}

absl::Status CheckRemote(const std::string& address, const ListenProtection& protection) {
  std::vector<const char*> missing;
  if (!protection.has_tls) missing.push_back("--tls-cert=FILE with --tls-key=FILE");
  if (!protection.knows_callers) missing.push_back("--token-file=FILE or --tls-client-ca=FILE");
  if (!protection.has_file_roots) missing.push_back("--model-root=DIR or --data-root=DIR");
  if (missing.empty()) return absl::OkStatus();
  return WithReason(InvalidArgument("listen address \"", address,
                                    "\" is not a loopback one, and anyone who reaches it could use this daemon "
                                    "and read its user's files; to listen there add ",
                                    absl::StrJoin(missing, ", and ")),
                    ErrorReason::kRemoteListenAddress);
}

// Whether a process answers at the socket.
bool IsAnswered(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return true;
  const bool refused =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 && errno == ECONNREFUSED;
  close(fd);
  return !refused;
}

absl::Status RemoveStaleSocket(const std::string& path) {
  const std::string name = absl::StrCat(kUnixPrefix, path);
  struct stat info;
  if (lstat(path.c_str(), &info) != 0)
    return errno == ENOENT ? absl::OkStatus() : CannotListen(name, std::strerror(errno), errno);
  if (!S_ISSOCK(info.st_mode)) return CannotListen(name, "the file there is not a socket", EEXIST);
  if (info.st_uid != geteuid()) return CannotListen(name, "the socket there is another user's", EEXIST);
  ASSIGN_OR_RETURN(const sockaddr_un address, SocketAddress(path));
  if (IsAnswered(address)) return CannotListen(name, std::strerror(EADDRINUSE), EADDRINUSE);
  if (unlink(path.c_str()) != 0) return CannotListen(name, std::strerror(errno), errno);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return BadAddress(absl::StrCat(kUnixPrefix, path),
                      absl::StrCat("has a path of ", path.size(), " bytes; the limit of a Unix socket is ",
                                   sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& address) {
  ListenAddress parsed;
  absl::string_view rest = address;
  if (absl::ConsumePrefix(&rest, kUnixPrefix)) {
    if (rest.empty()) return BadAddress(address, "is not unix:PATH");
    parsed.socket_path = std::string(rest);
    RETURN_IF_ERROR(SocketAddress(parsed.socket_path).status());
    return parsed;
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(rest.substr(colon + 1), &parsed.port) ||
      parsed.port < 0 || parsed.port > 65535) {
    return BadAddress(address, "is not HOST:PORT with a port of 0 to 65535, nor unix:PATH");
  }
  absl::string_view host = rest.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");
  parsed.host = std::string(host);
  return parsed;
}

absl::StatusOr<int> LoopbackPort(const std::string& address, absl::string_view flag) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (!parsed.is_unix() && (parsed.host == "127.0.0.1" || parsed.host == "localhost")) return parsed.port;
  return BadAddress(address, absl::StrCat("cannot be used for ", flag,
                                          ", which serves 127.0.0.1:PORT without encryption; a proxy can carry it "
                                          "to other machines"));
}

absl::Status CheckListenAddress(const std::string& address, const ListenProtection& protection) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (parsed.is_unix()) return absl::OkStatus();  // ClaimSocketPath reports a better error
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(parsed.host.c_str(), absl::StrCat(parsed.port).c_str(), &hints, &found);
  if (failed != 0) return BadAddress(address, absl::StrCat("cannot be found: ", gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    if (!IsLoopback(one->ai_addr)) {
      RETURN_IF_ERROR(CheckRemote(address, protection));
      break;
    }
  }
  const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
  if (fd < 0) return Internal("cannot make a socket: ", std::strerror(errno));
  // As in gRPC: an address whose last connections are still closing can be bound.
  const int yes = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  const bool bound = bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
  const int error = errno;
  close(fd);
  return bound ? absl::OkStatus() : CannotListen(address, std::strerror(error), error);
}

absl::StatusOr<std::unique_ptr<UnixSocketClaim>> UnixSocketClaim::Take(const std::string& socket_path) {
  const std::string name = absl::StrCat(kUnixPrefix, socket_path);
  const std::string lock_path = absl::StrCat(socket_path, ".lock");
  const int fd = open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return CannotListen(name, absl::StrCat(lock_path, ": ", std::strerror(errno)), errno);
  std::unique_ptr<UnixSocketClaim> claim(new UnixSocketClaim(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) return CannotListen(name, std::strerror(EADDRINUSE), EADDRINUSE);
  RETURN_IF_ERROR(RemoveStaleSocket(socket_path));
  return claim;
}

UnixSocketClaim::~UnixSocketClaim() { close(lock_); }

PrivateFilesScope::PrivateFilesScope() : old_(umask(kOwnerOnly)) {}
PrivateFilesScope::~PrivateFilesScope() { umask(old_); }

}  // namespace varifocal
