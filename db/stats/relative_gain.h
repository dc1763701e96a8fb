// The relative gain of a candidate: candidate / baseline - 1, the difference as a share of the baseline's mean.
//
// The interval is Fieller's, from the difference's own standard error and degrees of freedom: the gains g for which
// difference - g baseline is not different from zero. At g = 0 that is the test of the difference, so the interval
// excludes zero exactly when the difference's does. Where the baseline's mean is not itself different from zero, the
// set of such gains has no end, and there is no number.
//
// Source: Fieller 1954, Journal of the Royal Statistical Society B 16, 175-185.
#pragma once

#include <vector>

#include "db/stats/clusters.h"
#include "db/stats/inference.h"

namespace varifocal::stats {

enum class RelativeGainProblem {
  kNone,
  kNoZero,       // the metric's values do not begin at zero: a ratio of two means depends on the origin of its scale
  kNoInference,  // one context: it is not known whether the baseline is near zero
  kBaselineNearZero,  // the interval of the baseline's mean contains zero
};
const char* RelativeGainProblemName(
    RelativeGainProblem problem);  // "", "no_zero", "no_inference", "baseline_near_zero"

struct RelativeGain {
  RelativeGainProblem problem = RelativeGainProblem::kNoZero;
  double gain = 0, low = 0, high = 0;  // all zero with a problem; never below -1

  bool has_value() const { return problem == RelativeGainProblem::kNone; }
};

// One task of the mean; the same clusters in the same order, as GroupByCluster() makes them.
struct TaskRatio {
  std::vector<Cluster> differences;
  std::vector<Cluster> baseline;
};

// `difference` is the inference over the same tasks. Values are at least 0 on both sides.
RelativeGain InferRelativeGain(const std::vector<TaskRatio>& tasks, const Inference& difference, double confidence);

}  // namespace varifocal::stats
