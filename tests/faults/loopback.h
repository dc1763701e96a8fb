// Plain TCP connections to a server on a loopback port, for tests below HTTP/2.
//
// Threads: one per object.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace varifocal {

// "127.0.0.1:PORT"
inline sockaddr_in LoopbackAddress(const std::string& address) {
  sockaddr_in socket_address = {};
  int port = 0;
  VF_CHECK(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
  socket_address.sin_family = AF_INET;
  socket_address.sin_port = htons(port);
  socket_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return socket_address;
}

class Connection {
 public:
  explicit Connection(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    VF_CHECK(fd_ >= 0);
    const sockaddr_in to = LoopbackAddress(address);
    is_open_ = connect(fd_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  explicit Connection(int fd) : fd_(fd), is_open_(fd >= 0) {}
  Connection(Connection&& other) noexcept : fd_(std::exchange(other.fd_, -1)), is_open_(other.is_open_) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }

  bool is_open() const { return is_open_; }
  int fd() const { return fd_; }
  void Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t count = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count <= 0) {
        is_open_ = false;
        return;
      }
      bytes.remove_prefix(count);
    }
  }
  // Reads and discards what comes within `timeout_ms`; true when the other side closed the connection.
  bool DrainUntilClosed(int timeout_ms) {
    char buffer[4096];
    pollfd waiting = {fd_, POLLIN, 0};
    while (poll(&waiting, 1, timeout_ms) > 0) {
      if (recv(fd_, buffer, sizeof buffer, 0) <= 0) return true;
    }
    return false;
  }
  // The next close sends a reset instead of an orderly end.
  void ResetAtClose() {
    const linger reset = {1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  }

 private:
  int fd_;
  bool is_open_ = false;
};

}  // namespace varifocal
