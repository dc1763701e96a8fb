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

// --assume-flips, --assume-correlation.
struct PowerFlags {
  stats::PowerAssumptions assumptions;

  void AddTo(FlagSet& flags);
};

struct LengthPower {
  int context_length = 0;
  int64_t task_count = 0;  // whose primary metric has a worst and a best value
  stats::Power power;
  std::optional<stats::EnoughContexts> enough;  // where it finds no difference of stats::kFoundMax
};

struct JobPower {
  stats::PowerAssumptions assumptions;
  int64_t candidate_count = 0, test_count = 0;
  std::vector<LengthPower> lengths;
};

// `variant_count` variants of which one is the baseline, at most `limit` questions a task and length (0: no limit).
// Has no lengths if there is no candidate or no task whose differences can be averaged.
absl::StatusOr<JobPower> PlanPower(const v1::JobSpec& job, const stats::PowerAssumptions& assumptions);
absl::StatusOr<JobPower> PlanPower(const SuiteSpec& suite, int64_t variant_count, int64_t limit,
                                   const stats::PowerAssumptions& assumptions);

Json PowerJson(const JobPower& power);
std::string PowerText(const JobPower& power, const Console& console);

}  // namespace varifocal::client
