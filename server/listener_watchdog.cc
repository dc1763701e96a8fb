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

#include "base/log.h"
#include "base/status_macros.h"
#include "server/front/listen_address.h"

namespace varifocal {
namespace {

constexpr int kProbeTimeoutMs = 5000;
constexpr char kFrameData = 0, kFrameFields = 1, kFrameSettings = 4;
constexpr char kEndOfStream = 1, kEndOfFields = 4;

std::string ProbeFrame(char type, char flags, char stream, absl::string_view payload) {
  const std::string head = {0, 0, static_cast<char>(payload.size()), type, flags, 0, 0, 0, stream};
  return absl::StrCat(head, payload);
}

// A field that is in no table of HPACK.
std::string ProbeField(absl::string_view name, absl::string_view value) {
  return absl::StrCat(std::string(1, '\0'), std::string(1, static_cast<char>(name.size())), name,
                      std::string(1, static_cast<char>(value.size())), value);
}

// Everything that a client sends for grpc.health.v1.Health.Check of the whole server (RFC 9113, section 3.4; gRPC over
// HTTP/2).
std::string HealthCall() {
  const std::string fields =
      absl::StrCat(ProbeField(":method", "POST"), ProbeField(":scheme", "http"),
                   ProbeField(":path", "/grpc.health.v1.Health/Check"), ProbeField(":authority", "localhost"),
                   ProbeField("te", "trailers"), ProbeField("content-type", "application/grpc"));
  return absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ProbeFrame(kFrameSettings, 0, 0, ""),
                      ProbeFrame(kFrameFields, kEndOfFields, 1, fields),
                      ProbeFrame(kFrameData, kEndOfStream, 1, std::string(5, '\0')));
}

absl::Status Failed(const std::string& address, absl::string_view step, int error) {
  return Unavailable(address, " cannot be ", step, ": ", std::strerror(error));
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

// Makes the call over a connected socket, and waits for a message in answer, with any content.
absl::Status CallHealth(const std::string& address, int fd, int timeout_ms) {
  const std::string call = HealthCall();
  if (send(fd, call.data(), call.size(), MSG_NOSIGNAL) != std::ssize(call)) return Failed(address, "written to", errno);
  std::string received;
  while (true) {
    if (!WaitFor(fd, POLLIN, &timeout_ms)) {
      return Failed(address,
                    received.empty() ? "reached: it accepts no connection" : "used: it does not answer a health call",
                    ETIMEDOUT);
    }
    char bytes[4096];
    const ssize_t count = recv(fd, bytes, sizeof(bytes), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (count <= 0) return Failed(address, "read from", count == 0 ? ECONNRESET : errno);
    received.append(bytes, count);
    for (size_t at = 0; at + 9 <= received.size();) {
      const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(received[at + i])); };
      const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (at + 9 + size > received.size()) break;
      if (received[at + 3] == kFrameData && received[at + 8] == 1 && size > 0) return absl::OkStatus();
      at += 9 + size;
    }
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
  if (!has_tls) return CallHealth(address, fd, timeout_ms);
  // No handshake: what is sent is none, and any reply at all, an alert or the end, shows that it was accepted.
  const std::string call = HealthCall();
  if (send(fd, call.data(), call.size(), MSG_NOSIGNAL) != std::ssize(call)) return Failed(address, "written to", errno);
  if (!WaitFor(fd, POLLIN, &timeout_ms)) return Failed(address, "reached: it accepts no connection", ETIMEDOUT);
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
  if (failed != 0) return Unavailable(address, " cannot be found: ", gai_strerror(failed));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(found, &freeaddrinfo);
  return ProbeAt(address, found->ai_addr, found->ai_addrlen, has_tls, timeout_ms);
}

absl::Status ProbeServer(const std::function<void(int)>& serve, int timeout_ms) {
  constexpr char kItself[] = "the server behind the listener";
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Failed(kItself, "probed", errno);
  serve(ends[1]);
  const absl::Status status = CallHealth(kItself, ends[0], timeout_ms);
  close(ends[0]);
  return status;
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

ListenerWatchdog::ListenerWatchdog(const std::string& address, bool has_tls, std::function<void(int)> serve,
                                   std::function<void(const absl::Status&)> on_dead)
    : health_(
          [=] {
            return has_tls ? ProbeServer(serve, kProbeTimeoutMs) : ProbeListener(address, has_tls, kProbeTimeoutMs);
          },
          Clock::Real()),
      on_dead_(std::move(on_dead)),
      thread_([this] { Loop(); }) {}

ListenerWatchdog::~ListenerWatchdog() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

void ListenerWatchdog::Loop() {
  MutexLock lock(mutex_);
  while (!stopping_) {
    const auto wait = std::chrono::microseconds(std::max<int64_t>(health_.MicrosToNextProbe(), 0));
    if (wake_.WaitFor(mutex_, wait, [this]() VF_REQUIRES(mutex_) { return stopping_; })) return;
    lock.Unlock();
    const absl::Status status = health_.Poll();
    if (!status.ok()) return on_dead_(status);
    lock.Lock();
  }
}

}  // namespace varifocal
