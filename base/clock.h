// Time as a dependency: wall time for records, monotonic time for durations, waiting, and a manual clock for tests.
//
// Code that waits for a condition and for a time calls Wait, so that a simulation can run its other events meanwhile.
//
// Threads: all clocks may be shared.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/mutex.h"

namespace varifocal {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t WallMicros() const = 0;       // microseconds since 1970-01-01 UTC
  virtual int64_t MonotonicMicros() const = 0;  // never decreases; only differences are meaningful
  // Returns when is_done(), which is called with the lock held, or after `us` microseconds of this clock; is_done() then.
  // `changed` is notified when is_done() may have changed.
  virtual bool Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const
      VF_REQUIRES(mutex) = 0;
  void WaitUntil(CondVar& changed, Mutex& mutex, const std::function<bool()>& is_done) const VF_REQUIRES(mutex);

  static const Clock& Real();
};

class FakeClock : public Clock {
 public:
  explicit FakeClock(int64_t wall_us = 1'700'000'000'000'000) : wall_us_(wall_us) {}
  int64_t WallMicros() const override { return wall_us_; }
  int64_t MonotonicMicros() const override { return monotonic_us_; }
  bool Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const override
      VF_REQUIRES(mutex);
  void JumpWall(int64_t us) { wall_us_ += us; }  // for tests: the clock is set
  void Advance(int64_t us) {
    wall_us_ += us;
    monotonic_us_ += us;
  }

 private:
  std::atomic<int64_t> wall_us_;
  std::atomic<int64_t> monotonic_us_{0};
};

// "2026-11-21T14:30:00.123Z"
std::string FormatUtc(int64_t wall_us);
// Of "2026-11-21T14:30:00Z"; none for any other form, and for a date that does not exist.
std::optional<int64_t> ParseUtc(const std::string& text);

}  // namespace varifocal
