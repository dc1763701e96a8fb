#include "server/supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace varifocal {

Supervisor::Supervisor(const Clock& clock) : clock_(clock) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  if (path == nullptr || (path[0] != '/' && path[0] != '@') || std::strlen(path) >= sizeof(address.sun_path)) return;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (path[0] == '@') address.sun_path[0] = 0;  // an abstract socket
  socket_ = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  if (socket_ >= 0 && connect(socket_, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    close(socket_);
    socket_ = -1;
  }
  const char* const watchdog = std::getenv("WATCHDOG_USEC");
  const char* const pid = std::getenv("WATCHDOG_PID");
  int64_t period_us = 0;
  const bool is_ours = pid == nullptr || pid == absl::StrCat(getpid());
  if (is_ours && watchdog != nullptr && absl::SimpleAtoi(watchdog, &period_us)) alive_period_us_ = period_us / 4;
}

Supervisor::~Supervisor() {
  if (socket_ >= 0) close(socket_);
}

void Supervisor::Ready(const std::string& status) const { Send(absl::StrCat("READY=1\nSTATUS=", status)); }

void Supervisor::Stopping() const { Send("STOPPING=1"); }

void Supervisor::Alive() {
  const int64_t now_us = clock_.MonotonicMicros();
  if (alive_period_us_ <= 0 || now_us < next_alive_us_) return;
  next_alive_us_ = now_us + alive_period_us_;
  Send("WATCHDOG=1");
}

void Supervisor::Send(const std::string& message) const {
  // A manager that does not read loses a message: the process must not wait for it.
  if (socket_ >= 0) (void)!send(socket_, message.data(), message.size(), MSG_NOSIGNAL);
}

}  // namespace varifocal
