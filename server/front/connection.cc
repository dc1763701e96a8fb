#include "server/front/connection.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kReadBytes = 32 << 10;
// While more waits for a client that does not read, nothing is read from gRPC, whose flow control then holds.
constexpr size_t kPendingBytesMax = 64 << 10;
constexpr int kTurnOfRead = 16;
constexpr int kReadsOfOneRound = 64;

absl::Status Ended(absl::string_view why) { return absl::UnavailableError(why); }
bool MustWait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

FrontConnection::FrontConnection(int fd, Caller caller, const FrameLimits& limits, SharedRates* shared,
                                 std::shared_ptr<TlsContext> tls, int64_t now_us)
    : fd_(fd), caller_(std::move(caller)), gate_(limits, shared), begin_us_(now_us), active_us_(now_us) {
  if (tls != nullptr) tls_.emplace(std::move(tls));
}

FrontConnection::~FrontConnection() {
  close(fd_);
  if (server_fd_ >= 0) close(server_fd_);
}

absl::Status FrontConnection::Flush(int fd, std::string* pending) {
  size_t at = 0;
  while (at < pending->size()) {
    const ssize_t count = send(fd, pending->data() + at, pending->size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && MustWait()) break;
    if (count <= 0) return Ended("");
    at += count;
  }
  if (at == pending->size()) {
    std::string().swap(*pending);  // an idle connection has no buffer
  } else {
    pending->erase(0, at);
  }
  return absl::OkStatus();
}

absl::Status FrontConnection::ReadClient(int64_t now_us) {
  char bytes[kReadBytes];
  const ssize_t count = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count < 0 && MustWait()) return absl::OkStatus();
  if (count <= 0) return Ended("");
  active_us_ = now_us;
  const absl::string_view received(bytes, count);
  if (!tls_.has_value()) {
    unread_.append(received.data(), received.size());
  } else {
    const bool was_open = tls_->is_open();
    const absl::Status status = tls_->Receive(received, &unread_, &to_client_);
    if (!was_open && tls_->is_open()) caller_.certificate = tls_->PeerName();
    if (!status.ok()) {
      (void)Flush(fd_, &to_client_);  // an alert
      return status;
    }
    RETURN_IF_ERROR(Flush(fd_, &to_client_));
    if (tls_->has_ended()) return Ended("");
  }
  return PassOn(now_us, kTurnOfRead);
}

absl::Status FrontConnection::PassOn(int64_t now_us, int turn) {
  const FrameGate::Passed passed = gate_.FromClient(unread_, now_us, turn);
  if (passed.consumed == unread_.size()) {
    std::string().swap(unread_);
  } else {
    unread_.erase(0, passed.consumed);
  }
  wait_us_ = unread_.empty() ? -1 : passed.wait_us;
  due_us_ = now_us + passed.wait_us;
  RETURN_IF_ERROR(OwnFrames());
  if (gate_.refusal().empty()) return Write();
  (void)Flush(fd_, &to_client_);
  return absl::PermissionDeniedError(gate_.refusal());
}

absl::Status FrontConnection::ToClient(absl::string_view plain) {
  if (tls_.has_value()) return tls_->Send(plain, &to_client_);
  to_client_.append(plain.data(), plain.size());
  return absl::OkStatus();
}

absl::Status FrontConnection::OwnFrames() {
  if (gate_.to_client.empty() || !gate_.IsBetweenFrames()) return absl::OkStatus();
  const std::string frames = std::exchange(gate_.to_client, "");
  return ToClient(frames);
}

absl::Status FrontConnection::ReadServer() {
  char bytes[kReadBytes];
  const ssize_t count = recv(server_fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
  if (count < 0 && MustWait()) return absl::OkStatus();
  if (count <= 0) {
    server_has_ended_ = true;
    return Write();
  }
  const absl::string_view received(bytes, count);
  gate_.FromServer(received);
  RETURN_IF_ERROR(ToClient(received));
  RETURN_IF_ERROR(OwnFrames());
  return Flush(fd_, &to_client_);
}

absl::Status FrontConnection::Write() {
  if (server_fd_ >= 0) {
    const absl::Status status = Flush(server_fd_, &gate_.to_server);
    // What gRPC sent before it closed is still to be read.
    if (!status.ok()) std::string().swap(gate_.to_server);
  }
  RETURN_IF_ERROR(Flush(fd_, &to_client_));
  return server_has_ended_ && to_client_.empty() ? Ended("") : absl::OkStatus();
}

bool FrontConnection::HasMoreForClient() {
  for (int reads = 0; reads < kReadsOfOneRound && server_fd_ >= 0 && to_client_.empty() && !server_has_ended_;
       ++reads) {
    pollfd server = {.fd = server_fd_, .events = POLLIN, .revents = 0};
    if (poll(&server, 1, 0) <= 0) return false;
    if (!ReadServer().ok()) return false;
  }
  // One that gRPC does not have yet, and that has read all, is not waited for.
  return Write().ok() && (server_fd_ >= 0 || !to_client_.empty());
}

absl::Status FrontConnection::Tick(int64_t now_us) {
  gate_.Tick(now_us);
  RETURN_IF_ERROR(OwnFrames());
  return Write();
}

absl::StatusOr<int> FrontConnection::OpenServer() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0)
    return Ended(absl::StrCat("no socket for the connection: ", std::strerror(errno)));
  server_fd_ = ends[0];
  return ends[1];
}

uint32_t FrontConnection::ClientEvents() const {
  // The little that comes before gRPC has the connection is kept.
  const bool reads = unread_.empty() && (server_fd_ < 0 || gate_.to_server.empty());
  return (reads ? EPOLLIN : 0u) | (to_client_.empty() ? 0u : EPOLLOUT);
}

uint32_t FrontConnection::ServerEvents() const {
  const bool reads = to_client_.size() < kPendingBytesMax && !server_has_ended_;
  return (reads ? EPOLLIN : 0u) | (gate_.to_server.empty() ? 0u : EPOLLOUT);
}

}  // namespace varifocal
