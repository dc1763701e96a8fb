#include "base/clock.h"

#include <chrono>
#include <cstdio>
#include <ctime>

namespace varifocal {
namespace {

// A manual clock is advanced by another thread, which does not know who waits.
constexpr auto kPollPeriod = std::chrono::milliseconds(5);
constexpr int64_t kLongWaitUs = 3'600'000'000;

class RealClock : public Clock {
 public:
  int64_t WallMicros() const override {
    // The library's clock counts nanoseconds, of which 64 bits hold those until 2262.
    timespec now = {};
    clock_gettime(CLOCK_REALTIME, &now);
    return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  }
  int64_t MonotonicMicros() const override {
    return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  bool Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const override
      VF_REQUIRES(mutex) {
    return changed.WaitFor(mutex, std::chrono::microseconds(us), is_done);
  }
};

}  // namespace

void Clock::WaitUntil(CondVar& changed, Mutex& mutex, const std::function<bool()>& is_done) const {
  while (!Wait(changed, mutex, kLongWaitUs, is_done)) continue;
}

bool FakeClock::Wait(CondVar& changed, Mutex& mutex, int64_t us, const std::function<bool()>& is_done) const {
  const int64_t due_us = MonotonicMicros() + us;
  while (!is_done()) {
    if (MonotonicMicros() >= due_us) return false;
    changed.WaitFor(mutex, kPollPeriod);
  }
  return true;
}

const Clock& Clock::Real() {
  static const RealClock clock;
  return clock;
}

std::string FormatUtc(int64_t wall_us) {
  constexpr int64_t kSecondUs = 1'000'000;
  const int64_t part_us = (wall_us % kSecondUs + kSecondUs) % kSecondUs;  // also before 1970
  const time_t seconds = (wall_us - part_us) / kSecondUs;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char date[32];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
  char text[48];
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(part_us / 1000));
  return text;
}

std::optional<int64_t> ParseUtc(const std::string& text) {
  std::tm utc{};
  const char* const end = strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (end == nullptr) return std::nullopt;
  const int64_t wall_us = int64_t{timegm(&utc)} * 1'000'000;
  // strptime takes blanks, short numbers and the 31st of every month.
  std::string whole_seconds = FormatUtc(wall_us);
  whole_seconds.replace(whole_seconds.size() - 5, 5, "Z");  // ".000Z"
  return whole_seconds == text ? std::optional(wall_us) : std::nullopt;
}

}  // namespace varifocal
