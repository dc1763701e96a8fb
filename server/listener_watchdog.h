// Detects a daemon that no longer answers, by a health call to its own address now and then.
//
// Threads of gRPC that wait for memory or for each other are not visible otherwise: the kernel, and the front, still take
// connections. After several consecutive failures the watchdog reports once; varifocald then exits with a message, so that its
// supervisor restarts it. Jobs resume.
//
// Threads: a background thread calls the probe and the report.
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace varifocal {

// Connects to a listen address (front/listen_address.h), calls grpc.health.v1.Health.Check, and waits `timeout_ms` for an answer,
// which may be that it does not serve. With TLS, for which the probe has no certificate, the end of the connection is enough.
absl::Status ProbeListener(const std::string& address, bool has_tls, int timeout_ms);
// The same call over a socket pair, of which `serve` gets one end.
absl::Status ProbeServer(const std::function<void(int)>& serve, int timeout_ms);

// The probing and reporting policy, without a thread.
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
  // `serve` is used with TLS, for which the probe has no certificate.
  ListenerWatchdog(const std::string& address, bool has_tls, std::function<void(int)> serve,
                   std::function<void(const absl::Status&)> on_dead);
  ~ListenerWatchdog();

 private:
  void Loop();

  ListenerHealth health_;
  const std::function<void(const absl::Status&)> on_dead_;
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ VF_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace varifocal
