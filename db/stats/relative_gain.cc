#include "db/stats/relative_gain.h"

#include <algorithm>
#include <cmath>

#include "db/stats/special.h"

namespace varifocal::stats {

const char* RelativeGainProblemName(RelativeGainProblem problem) {
  switch (problem) {
    case RelativeGainProblem::kNoZero:
      return "no_zero";
    case RelativeGainProblem::kNoInference:
      return "no_inference";
    case RelativeGainProblem::kBaselineNearZero:
      return "baseline_near_zero";
    case RelativeGainProblem::kNone:
      break;
  }
  return "";
}

RelativeGain InferRelativeGain(const std::vector<TaskRatio>& tasks, const Inference& difference, double confidence) {
  if (!difference.can_infer) return {.problem = RelativeGainProblem::kNoInference};
  const double count = tasks.size();
  double baseline = 0, baseline_variance = 0, covariance = 0;
  for (const TaskRatio& task : tasks) {
    baseline += MeanOfClusters(task.baseline).mean / count;
    baseline_variance += CovarianceOfMeans(task.baseline, task.baseline) / (count * count);
    covariance += CovarianceOfMeans(task.differences, task.baseline) / (count * count);
  }
  // a g^2 - 2 b g + c <= 0; a > 0 makes the set an interval that contains difference / baseline.
  const double t = StudentTQuantile((1 + confidence) / 2, difference.degrees);
  const double variance = difference.standard_error * difference.standard_error;
  const double a = baseline * baseline - t * t * baseline_variance;
  const double b = baseline * difference.difference - t * t * covariance;
  const double c = difference.difference * difference.difference - t * t * variance;
  if (!(baseline > 0) || !(a > 0)) return {.problem = RelativeGainProblem::kBaselineNearZero};
  const double root = std::sqrt(std::max(0.0, b * b - a * c));
  const double gain = difference.difference / baseline;
  return {.problem = RelativeGainProblem::kNone,
          .gain = gain,
          .low = std::max(-1.0, std::min(gain, (b - root) / a)),
          .high = std::max(gain, (b + root) / a)};
}

}  // namespace varifocal::stats
