// The equal-loss ratio: the factor of parameters, or of training tokens, at which the baseline arm reaches what the
// candidate arm has with 1. Above 1 the baseline needs more.
//
// For each seed that both arms have, the baseline's values are interpolated linearly over the logarithm of the axis, and
// the first place that is as good as the candidate's value is divided by the candidate's own. The logarithms of these
// ratios give a geometric mean and Student's t interval over seeds. A seed whose baseline does not reach the value within
// the measured range, or is better already at its start, bounds its ratio; one such seed and there is no interval, only
// bounds that hold in every seed.
//
// The interval is about other seeds, for these questions: contexts are no part of it.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "db/stats/sign_flip.h"

namespace varifocal::stats {

struct AxisValue {
  double x = 0;      // above 0
  double value = 0;  // a score or a loss
};

struct EqualLossSeed {
  std::vector<AxisValue> baseline;  // by x; at least one
  double candidate = 0;
};

enum class EqualLossProblem {
  kNone,
  kOneSeed,   // one pair of runs: a ratio without an interval
  kCensored,  // outside the measured range in some seed: bounds alone
  kNoSpread,  // the same ratio in all seeds: no interval
};
const char* EqualLossProblemName(EqualLossProblem problem);  // "", "one_seed", "censored", "no_spread"

struct EqualLossRatio {
  EqualLossProblem problem = EqualLossProblem::kOneSeed;
  std::optional<double> ratio, low, high;  // no ratio when censored; low and high only without a problem
  double p_value = 1;                      // of a ratio of 1; below 1 - confidence exactly when low and high exclude it
  SignFlipResult sign_flip;                // of the logarithms
  int64_t seed_count = 0;
  int64_t above_count = 0;  // seeds whose ratio is larger than what was measured, and smaller
  int64_t below_count = 0;
  std::optional<double> at_least, at_most;  // in every seed; of a censored seed its bound, none where one has none
};

// The place on the axis where `curve` first is as good as `value`, with larger values better when `up`. -1 or +1: before
// its first or after its last point.
struct Reach {
  int side = 0;
  double x = 0;  // the first or last point's when outside
};
Reach FirstReach(const std::vector<AxisValue>& curve, double value, bool up);

// `x` is the candidate's place on the axis. At least one seed.
EqualLossRatio InferEqualLoss(const std::vector<EqualLossSeed>& seeds, double x, bool up, double confidence = 0.95);

}  // namespace varifocal::stats
