// Throughput and remaining time of a job, from the runner's counts.
//
// Throughput is tokens that were computed (prompt and new, without reused ones) over the last half minute. The remaining time is
// estimated from the remaining tokens, counted as samples x context length, at the average throughput of the run for
// such tokens: a window would jump whenever the grid reaches another length.
//
// Threads: guarded by its owner.
#pragma once

#include <cstdint>
#include <deque>

#include "eval_tasks/runner.h"

namespace varifocal {

class ProgressMeter {
 public:
  // Call at the start of a run and with every progress report, in order of time.
  void Update(const RunProgress& progress, int64_t now_us);

  double TokensPerSecond(int64_t now_us) const;   // 0 before the first answer
  double RemainingSeconds(int64_t now_us) const;  // negative when not known
  double ElapsedSeconds(int64_t now_us) const;

 private:
  struct Point {
    int64_t time_us;
    int64_t token_count;
  };

  std::deque<Point> window_;
  int64_t start_us_ = -1;
  double planned_weight_ = 0;  // sum of samples x context length
  double done_weight_ = 0;
  double weight_at_start_ = 0;  // completed when the run began
};

}  // namespace varifocal
