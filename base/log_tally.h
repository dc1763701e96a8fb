// Log lines that others can cause as often as they like: the first of a kind is written at once, those that follow within
// ten seconds are counted and written as one.
//
//   refused what=ListJobs peer=ipv4:10.0.0.7 token=none cause=UNAUTHENTICATED count=1
//
// Threads: any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "base/clock.h"
#include "base/mutex.h"

namespace varifocal {

class LogTally {
 public:
  static constexpr int64_t kPeriodUs = 10'000'000;
  static constexpr size_t kKindsMax = 1024;  // further ones are counted together

  explicit LogTally(const Clock& clock = Clock::Real()) : clock_(clock) {}
  ~LogTally() { Flush(/*also_new=*/true); }

  struct Refusal {
    std::string what, peer, token, cause;
    auto Key() const { return std::tie(what, peer, token, cause); }
    bool operator<(const Refusal& other) const { return Key() < other.Key(); }
  };
  void Add(Refusal refusal);
  // Writes what was counted and is due; called now and then.
  void Flush(bool also_new = false);

 private:
  struct Count {
    int64_t pending = 0;
    int64_t written_us = 0;
  };
  static void Write(const Refusal& refusal, int64_t count);

  const Clock& clock_;
  Mutex mutex_;
  std::map<Refusal, Count> counts_ VF_GUARDED_BY(mutex_);
};

}  // namespace varifocal
