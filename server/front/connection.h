// One connection of the front: the client's socket, its TLS, its gate, and the socket that gRPC has the other end of.
//
// Threads: the front's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "server/front/callers.h"
#include "server/front/frame_gate.h"
#include "server/front/tls_session.h"

namespace varifocal {

class FrontConnection {
 public:
  FrontConnection(int fd, Caller caller, const FrameLimits& limits, SharedRates* shared,
                  std::shared_ptr<TlsContext> tls, int64_t now_us);
  ~FrontConnection();
  FrontConnection(const FrontConnection&) = delete;

  // Each returns why the connection ends, or OK.
  absl::Status ReadClient(int64_t now_us);
  absl::Status ReadServer();
  absl::Status Write();  // what waits for either socket; it ends where gRPC has ended and nothing waits any more
  absl::Status Tick(int64_t now_us);
  // Passes on what gRPC has sent; true while the client has not taken all of it.
  bool HasMoreForClient();
  // Goes on with what was read; `turn` streams may be opened.
  absl::Status PassOn(int64_t now_us, int turn);

  // A socket pair's end for gRPC, once the client's settings have come; UNAVAILABLE without descriptors.
  absl::StatusOr<int> OpenServer();
  bool WantsServer() const { return server_fd_ < 0 && gate_.IsOpen(); }

  bool WaitsForTurn() const { return !unread_.empty() && wait_us_ >= 0; }
  int64_t due_us() const { return due_us_; }  // of a turn
  uint32_t ClientEvents() const;              // of epoll
  uint32_t ServerEvents() const;
  int fd() const { return fd_; }
  int server_fd() const { return server_fd_; }
  bool is_open() const { return gate_.IsOpen(); }
  bool has_call() const { return gate_.stream_count() > 0; }
  int64_t begin_us() const { return begin_us_; }
  int64_t active_us() const { return active_us_; }
  const Caller& caller() const { return caller_; }

  bool is_queued = false;  // the front's: waits in its queue

 private:
  absl::Status ToClient(absl::string_view plain);
  absl::Status OwnFrames();
  static absl::Status Flush(int fd, std::string* pending);

  const int fd_;
  int server_fd_ = -1;
  bool server_has_ended_ = false;
  Caller caller_;
  std::optional<TlsSession> tls_;
  FrameGate gate_;
  std::string unread_;     // of the client, in plain text, not yet passed on
  std::string to_client_;  // as it goes over the wire
  int64_t wait_us_ = -1;
  int64_t due_us_ = 0;
  int64_t begin_us_ = 0;
  int64_t active_us_ = 0;
};

}  // namespace varifocal
