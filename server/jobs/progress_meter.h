// Throughput and remaining time of a job, from the runner's counts and what the engines have computed.
//
// Throughput is tokens that were computed (prompt and new, without reused ones) over the last half minute. The remaining time is
// estimated from the remaining work at the average speed of the run for such work: a window would jump whenever the grid
// reaches another length. Work is what the answers' prompts cost, each of its cell's mean. What engines have computed
// beyond the answers counts too, so that the estimate shrinks while one long context is read.
//
// Threads: guarded by its owner.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "eval_tasks/runner.h"

namespace varifocal {

// Of one cell, in any unit that is the job's.
struct CellCost {
  double context = 0;  // to read one of its contexts
  double sample = 0;   // the mean of its samples: those of one context read it once where its prefix is reused
};

// By the engines of a job's models since they were made; 0 where they do not tell.
struct ComputedWork {
  int64_t token_count = 0;
  double cost = 0;  // of rows of prompts, in the unit of CellCost
};

class ProgressMeter {
 public:
  // `costs` in Grid::cells order; at most `in_flight` samples are asked at once. Without a plan every sample costs its
  // context length, and only answers count.
  void Plan(std::vector<CellCost> costs, int in_flight) {
    costs_ = std::move(costs);
    in_flight_ = in_flight;
  }
  // Call at the start of a run and with every progress report, in order of time.
  void Update(const RunProgress& progress, ComputedWork computed, int64_t now_us);
  // Between reports, of a run that has begun.
  void Update(ComputedWork computed, int64_t now_us);

  double TokensPerSecond(int64_t now_us) const;   // 0 before the first computed tokens
  double RemainingSeconds(int64_t now_us) const;  // negative when not known
  double ElapsedSeconds(int64_t now_us) const;

 private:
  struct Point {
    int64_t time_us;
    int64_t token_count;
  };

  void AddPoint(const ComputedWork& computed, int64_t now_us);

  std::vector<CellCost> costs_;
  int in_flight_ = 1;
  std::deque<Point> window_;
  int64_t start_us_ = -1;
  double planned_cost_ = 0;
  double done_cost_ = 0;      // of samples with a record
  double cost_at_start_ = 0;  // completed when the run began
  // Computed for samples without a record: grows with what the engines compute, and a record takes its sample's cost.
  double ahead_cost_ = 0;
  double ahead_cost_max_ = 0;  // what can be in flight, so that costs which are not as planned do not add up
  int64_t answered_token_count_ = 0;
  ComputedWork at_start_, latest_;
};

}  // namespace varifocal
