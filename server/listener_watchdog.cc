#include "server/listener_watchdog.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "server/listen_address.h"

namespace varifocal {
namespace {

constexpr int kProbeTimeoutMs = 5000;
// The connection preface of HTTP/2 and an empty SETTINGS frame (RFC 9113, section 3.4).
constexpr absl::string_view kPreface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);

absl::Status Failed(const std::string& address, absl::string_view step, int error) {
  return absl::UnavailableError(absl::StrCat(address, " cannot be ", step, ": ", std::strerror(error)));
}

// Waits until `fd` is ready for `events`; the remaining time is stored in *timeout_ms.
bool WaitFor(int fd, short events, int* timeout_ms) {
  pollfd waiting = {fd, events, 0};
  const int64_t begin_us = Clock::Real().MonotonicMicros();
  for (;;) {
    const int count = poll(&waiting, 1, std::max(*timeout_ms, 0));
    if (count < 0 && errno == EINTR) continue;
    *timeout_ms -= (Clock::Real().MonotonicMicros() - begin_us) / 1000;
    return count > 0;
  }
}

absl::Status Exchange(const std::string& address, int fd, const sockaddr* to, socklen_t to_size, bool has_tls,
                      int timeout_ms) {
  if (connect(fd, to, to_size) != 0) {
    if (errno != EINPROGRESS) return Failed(address, "connected to", errno);
    if (!WaitFor(fd, POLLOUT, &timeout_ms)) return Failed(address, "connected to", ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return Failed(address, "connected to", error);
  }
  if (send(fd, kPreface.data(), kPreface.size(), MSG_NOSIGNAL) != std::ssize(kPreface)) {
    return Failed(address, "written to", errno);
  }
  if (!WaitFor(fd, POLLIN, &timeout_ms)) return Failed(address, "reached: it accepts no connection", ETIMEDOUT);
  if (has_tls) return absl::OkStatus();  // any reply at all: accepted
  char first = 0;
  if (recv(fd, &first, 1, 0) != 1) return Failed(address, "read from", errno == 0 ? ECONNRESET : errno);
  return absl::OkStatus();
}

absl::Status ProbeAt(const std::string& address, const sockaddr* to, socklen_t to_size, bool has_tls, int timeout_ms) {
  const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Failed(address, "probed", errno);
  errno = 0;
  const absl::Status status = Exchange(address, fd, to, to_size, has_tls, timeout_ms);
  close(fd);
  return status;
}

}  // namespace

absl::Status ProbeListener(const std::string& address, bool has_tls, int timeout_ms) {
  ASSIGN_OR_RETURN(const ListenAddress parsed, ParseListenAddress(address));
  if (parsed.is_unix()) {
    ASSIGN_OR_RETURN(const sockaddr_un to, SocketAddress(parsed.socket_path));
    return ProbeAt(address, reinterpret_cast<const sockaddr*>(&to), sizeof(to), has_tls, timeout_ms);
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = getaddrinfo(parsed.host.c_str(), absl::StrCat(parsed.port).c_str(), &hints, &found);
  if (failed != 0) return absl::UnavailableError(absl::StrCat(address, " cannot be found: ", gai_strerror(failed)));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  return ProbeAt(address, found->ai_addr, found->ai_addrlen, has_tls, timeout_ms);
}

absl::Status ListenerHealth::Poll() {
  if (MicrosToNextProbe() > 0) return absl::OkStatus();
  const absl::Status status = probe_();
  probed_us_ = clock_.MonotonicMicros();
  if (status.ok()) {
    failure_count_ = 0;
    return status;
  }
  ++failure_count_;
  Log(LogLevel::kWarning, "listener_probe_failed", {{"failures", failure_count_}, {"error", status.message()}});
  return failure_count_ < kFailuresMax ? absl::OkStatus() : status;
}

ListenerWatchdog::ListenerWatchdog(const std::string& address, bool has_tls,
                                   std::function<void(const absl::Status&)> on_dead)
    : health_([=] { return ProbeListener(address, has_tls, kProbeTimeoutMs); }, Clock::Real()),
      on_dead_(std::move(on_dead)),
      thread_([this] { Loop(); }) {}

ListenerWatchdog::~ListenerWatchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void ListenerWatchdog::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stopping_) {
    const auto wait = std::chrono::microseconds(std::max<int64_t>(health_.MicrosToNextProbe(), 0));
    if (wake_.wait_for(lock, wait, [this] { return stopping_; })) return;
    lock.unlock();
    const absl::Status status = health_.Poll();
    if (!status.ok()) return on_dead_(status);
    lock.lock();
  }
}

}  // namespace varifocal
