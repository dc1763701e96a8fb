// Messages to the service manager that started this process (systemd): ready, alive, stopping.
//
// One datagram each to the socket $NOTIFY_SOCKET; without it nothing is sent.
//
// Source:  systemd, sd_notify(3), whose protocol is stable.
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/clock.h"

namespace varifocal {

class Supervisor {
 public:
  explicit Supervisor(const Clock& clock = Clock::Real());
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;

  void Ready(const std::string& status) const;
  void Stopping() const;
  // At most four times in the period of the unit's WatchdogSec; cheap to call more often.
  void Alive();

 private:
  void Send(const std::string& message) const;

  const Clock& clock_;
  int socket_ = -1;              // -1: without a service manager
  int64_t alive_period_us_ = 0;  // 0: no watchdog
  std::atomic<int64_t> next_alive_us_{0};
};

}  // namespace varifocal
