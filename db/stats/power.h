// Power of a design before it runs: the smallest difference of a mean over tasks that is detected with 80 % power, and
// the smallest p that the sign-flip check can reach.
//
// It depends on two assumptions, which are arguments: how many of a task's answers differ between two variants (a share
// f;
// a graded metric whose differences have the standard deviation s counts as f = s^2), and how strongly the differences
// of one context are correlated (r). With m questions a context, n questions and a true difference d, the variance of
// a task's mean is (f - d^2) (1 + (m - 1) r) / n; the standard error, the degrees of freedom and the level are those of
// InferDifference and AdjustForMultipleTests, and d is solved for. No difference is larger than f.
//
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "db/stats/inference.h"

namespace varifocal::stats {

struct PlannedTask {
  int64_t question_count = 0;
  int64_t context_count = 0;
};

struct PowerAssumptions {
  double flip_share = 0.2;   // of the questions, above 0 to 1
  double correlation = 0.3;  // of differences within a context, 0 to 1
};

struct Power {
  int64_t question_count = 0, context_count = 0;  // over all tasks
  bool can_infer = false;                         // false where a task has a single context
  // As a share of the span from worst to best; none where not even flip_share would be found.
  std::optional<double> detectable_difference;
  double p_sign_flip_min = 1;           // 2 / 2^contexts
  double p_sign_flip_min_adjusted = 1;  // times the number of tests, as Holm's method does to the smallest
};

// Of the mean over `tasks` (at least one), as one of `test_count` tests.
Power PlannedPower(const std::vector<PlannedTask>& tasks, const PowerAssumptions& assumptions, int64_t test_count,
                   double confidence = 0.95);

// How many contexts a task would be enough for a difference that can be detected, each with as many questions as now.
struct EnoughContexts {
  int64_t context_count = 0;  // of every task
  double detectable_difference = 0;
};
// A design that finds no difference of so many points, as a share, has a note of how many contexts would be enough.
inline constexpr double kFoundMax = 0.15;

inline constexpr int64_t kEnoughContextsMax = 500;

// The fewest of the round numbers from kSignFlipClusterCountMin to kEnoughContextsMax with which a difference of at most
// `goal` would be found; none where these are not enough.
std::optional<EnoughContexts> ContextsEnough(const std::vector<PlannedTask>& tasks, const PowerAssumptions& assumptions,
                                             int64_t test_count, double goal, double confidence = 0.95);
// Likewise after a job: contexts of all its tasks, more than the row has, whose spread is that of the row's contexts. None
// where that spread was not seen.
std::optional<EnoughContexts> ContextsEnough(const Inference& row, double goal, double confidence = 0.95);

}  // namespace varifocal::stats
