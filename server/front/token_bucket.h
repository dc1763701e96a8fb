// A rate with a burst: tokens are refilled by time, and a taker waits while there are none.
//
// Takes what is asked for as soon as one token is there, so the level may become negative: a large cost is paid
// afterwards.
//
// Threads: one.
#pragma once

#include <algorithm>
#include <cstdint>

namespace varifocal {

struct Rate {
  int64_t per_second = 0;
  int64_t burst = 0;
};

class TokenBucket {
 public:
  explicit TokenBucket(const Rate& rate) : rate_(rate), level_(Micro(rate.burst)) {}

  // 0 when there is a token at `now_us` of a monotonic clock, else the microseconds until there is one.
  int64_t MicrosUntilOne(int64_t now_us) {
    const int64_t passed_us = std::min<int64_t>(std::max<int64_t>(now_us - then_us_, 0), 10'000'000);
    then_us_ = now_us;
    level_ = std::min(Micro(rate_.burst), level_ + passed_us * rate_.per_second);
    return level_ >= Micro(1) ? 0 : (Micro(1) - level_ + rate_.per_second - 1) / rate_.per_second;
  }
  void Take(int64_t count) { level_ -= Micro(count); }

 private:
  static int64_t Micro(int64_t tokens) { return tokens * 1'000'000; }

  const Rate rate_;
  int64_t level_;  // millionths of a token
  int64_t then_us_ = 0;
};

}  // namespace varifocal
