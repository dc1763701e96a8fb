// A histogram of durations: counts in fixed buckets, and the sum.
//
// Threads: not thread-safe; copied out of the engine under its lock.
// Cost:    Add is a search among 20 bounds.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace varifocal {

// Upper bounds in seconds: from a decode step of a small model on a GPU to the prefill of 32K tokens on a slow CPU.
inline constexpr std::array<double, 20> kLatencyBoundsSeconds = {
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000};

struct LatencyCounts {
  std::array<int64_t, kLatencyBoundsSeconds.size() + 1> counts = {};  // the last: above every bound
  double seconds = 0;                                                 // sum of all durations

  void Add(double duration_seconds) {
    const auto bound = std::lower_bound(kLatencyBoundsSeconds.begin(), kLatencyBoundsSeconds.end(), duration_seconds);
    ++counts[bound - kLatencyBoundsSeconds.begin()];
    seconds += duration_seconds;
  }
  void Add(const LatencyCounts& others) {
    for (size_t i = 0; i < counts.size(); ++i) counts[i] += others.counts[i];
    seconds += others.seconds;
  }
};

}  // namespace varifocal
