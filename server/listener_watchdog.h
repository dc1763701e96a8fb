// Notices a listener that no longer accepts: a connection to the daemon's own address, made again and again.
//
// gRPC 1.51 stops accepting for good when descriptors have run out once; connected clients go on, so nothing else shows
// it. After several failures in a row the watchdog reports, once; varifocald then ends with a sentence, so that whoever
// supervises it starts it again. Jobs go on where they were.
//
// Threads: one of its own calls the probe and the report.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"

namespace varifocal {

// A connection to a listen address (listen_address.h) that is answered in HTTP/2 within `timeout_ms`. The kernel alone
// completes connections that a process never accepts, so the server's first frame is waited for; with TLS its alert or its
// end of the connection.
absl::Status ProbeListener(const std::string& address, bool has_tls, int timeout_ms);

// When to probe and when to report, without a thread.
class ListenerHealth {
 public:
  static constexpr int kFailuresMax = 3;
  static constexpr int64_t kPeriodUs = 10'000'000;

  ListenerHealth(std::function<absl::Status()> probe, const Clock& clock, int64_t period_us = kPeriodUs)
      : probe_(std::move(probe)), clock_(clock), period_us_(period_us), probed_us_(clock.MonotonicMicros()) {}

  // Probes when a period has passed since the last probe. Not OK from the kFailuresMax-th failure in a row on.
  absl::Status Poll();
  int64_t MicrosToNextProbe() const { return probed_us_ + period_us_ - clock_.MonotonicMicros(); }

 private:
  const std::function<absl::Status()> probe_;
  const Clock& clock_;
  const int64_t period_us_;
  int64_t probed_us_;
  int failure_count_ = 0;
};

class ListenerWatchdog {
 public:
  ListenerWatchdog(const std::string& address, bool has_tls, std::function<void(const absl::Status&)> on_dead);
  ~ListenerWatchdog();

 private:
  void Loop();

  ListenerHealth health_;
  const std::function<void(const absl::Status&)> on_dead_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace varifocal
