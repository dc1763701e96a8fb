// The daemon's listener: accepts connections, ends TLS, and passes HTTP/2 frames on to gRPC through a FrameGate each.
//
// gRPC gets one end of a socket pair, and only once the client's settings have come: a silent connection costs it
// nothing. Connections that have streams to open beyond the rates wait in a queue and take turns. When there is no room for another
// connection, one that waits for its settings, else the one without a call that has been silent longest, is closed for it.
//
// Errors:  FAILED_PRECONDITION (ADDRESS_IN_USE, CANNOT_LISTEN); of TLS those of TlsContext.
// Threads: one of its own; the public methods may be called by any.
// Cost:    a copy of all bytes; three descriptors and at most 200 KB of memory for a connection.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log_tally.h"
#include "server/front/callers.h"
#include "server/front/frame_gate.h"
#include "server/front/listen_address.h"
#include "server/front/tls_material.h"

namespace varifocal {

struct FrontOptions {
  ListenAddress address;
  std::function<std::shared_ptr<const TlsMaterial>()> tls;  // asked at each connection; null, or a null result: no TLS
  FrameLimits limits;
  int64_t handshake_us = 20'000'000;  // from the connection to the client's settings
  int connections_max = 4096;
  Callers* callers = nullptr;  // outlive the front, as those after it
  LogTally* refusals = nullptr;
  const Clock* clock = &Clock::Real();
};

class Front {
 public:
  // Binds and listens; connections are accepted from Start on.
  static absl::StatusOr<std::unique_ptr<Front>> Listen(FrontOptions options);
  ~Front();  // closes all connections, after at most two seconds in which clients receive what gRPC has sent

  // `serve` gets a socket for each connection, which it owns; called by the front's thread.
  void Start(std::function<void(int fd)> serve);
  // A socket that goes to `serve` as those of connections do, by the front's thread: for a call that is to show that both work.
  void Pass(int fd);
  // No new connection is accepted, and none is passed to `serve` when this returns; those that are open stay.
  void StopAccepting();

  int port() const { return port_; }  // 0 of a Unix socket
  int64_t connection_count() const { return connection_count_; }

 private:
  class Loop;
  Front() = default;

  int port_ = 0;
  std::atomic<int64_t> connection_count_{0};
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

}  // namespace varifocal
