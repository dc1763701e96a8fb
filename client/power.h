// Statistical power of a job's design for `submit --dry-run` and `run --dry-run`: per context length the smallest
// detectable difference of the mean over tasks, and the smallest p that the sign-flip check can reach.
//
// Computed from the suite before the run (db/stats/power.h): contexts are counted by enumerating the grid and its
// question ids, so user files must be readable on this machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "client/console.h"
#include "client/flags.h"
#include "db/stats/power.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal::client {

// --assume-flips, --assume-correlation, --detect.
struct PowerFlags {
  stats::PowerAssumptions assumptions;
  double detect_points = 100 * stats::kFoundMax;

  void AddTo(FlagSet& flags);
};

struct LengthPower {
  int context_length = 0;
  int64_t task_count = 0;  // whose primary metric has a worst and a best value
  stats::Power power;
  std::optional<stats::EnoughContexts> enough;  // where it does not find the wanted difference
};

struct JobPower {
  stats::PowerAssumptions assumptions;
  double detect = 0;  // the wanted difference
  int64_t candidate_count = 0, test_count = 0;
  std::vector<LengthPower> lengths;
};

// `variant_count` variants of which one is the baseline, at most `limit` questions a task and length (0: no limit).
// `detect`: the difference to be found, 1 from the worst to the best value.
// Has no lengths if there is no candidate or no task whose differences can be averaged.
absl::StatusOr<JobPower> PlanPower(const v1::JobSpec& job, const PowerFlags& flags);
absl::StatusOr<JobPower> PlanPower(const SuiteSpec& suite, int64_t variant_count, int64_t limit,
                                   const stats::PowerAssumptions& assumptions, double detect = stats::kFoundMax);

Json PowerJson(const JobPower& power);
std::string PowerText(const JobPower& power, const Console& console);

}  // namespace varifocal::client
