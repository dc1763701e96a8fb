// Listen addresses and the protection that they require.
//
//   HOST:PORT     HOST an address or a name, IPv6 in brackets; port 0 binds a free one
//   unix:PATH     a Unix socket of mode 0600: other users cannot connect
//
// Errors:  INVALID_ARGUMENT (BAD_LISTEN_ADDRESS, REMOTE_LISTEN_ADDRESS), FAILED_PRECONDITION (ADDRESS_IN_USE, or
//          CANNOT_LISTEN with the system's error; gRPC itself reports no cause).
// Threads: any; a claim is created and released by one.
#pragma once

#include <sys/un.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

struct ListenAddress {
  std::string socket_path;  // of "unix:PATH"; empty: the next two
  std::string host;         // without brackets
  int port = 0;

  bool is_unix() const { return !socket_path.empty(); }
};

absl::StatusOr<ListenAddress> ParseListenAddress(const std::string& address);
absl::StatusOr<sockaddr_un> SocketAddress(const std::string& path);  // BAD_LISTEN_ADDRESS for a path that is too long

// Which protections against remote callers are configured.
struct ListenProtection {
  bool has_tls = false;         // --tls-cert, --tls-key
  bool knows_callers = false;   // --token-file, --tls-client-ca
  bool has_file_roots = false;  // --model-root, --data-root
};

// Requires all of `protection` for an address that is reachable from other machines. Then tries to bind it.
absl::Status CheckListenAddress(const std::string& address, const ListenProtection& protection);

// The port of a loopback HOST:PORT; BAD_LISTEN_ADDRESS for another host or a Unix socket, with `flag` in the sentence.
absl::StatusOr<int> LoopbackPort(const std::string& address, absl::string_view flag);

// Exclusive ownership of a Unix socket's path: a lock on PATH.lock, which is kept beside the socket. The stale socket of
// a killed daemon, which refuses connections, is removed; one that accepts them, or a file that is not a socket of this
// user, is an error.
class UnixSocketClaim {
 public:
  static absl::StatusOr<std::unique_ptr<UnixSocketClaim>> Take(const std::string& socket_path);
  ~UnixSocketClaim();
  UnixSocketClaim(const UnixSocketClaim&) = delete;

 private:
  explicit UnixSocketClaim(int lock) : lock_(lock) {}
  const int lock_;
};

// While it exists, files and sockets created by this process have owner permissions only (umask, so for all threads).
class PrivateFilesScope {
 public:
  PrivateFilesScope();
  ~PrivateFilesScope();
  PrivateFilesScope(const PrivateFilesScope&) = delete;

 private:
  const unsigned old_;
};

}  // namespace varifocal
