#include "db/stats/power.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "db/stats/score_intervals.h"

namespace varifocal::stats {

Power PlannedPower(const std::vector<PlannedTask>& tasks, const PowerAssumptions& assumptions, int64_t test_count,
                   double confidence) {
  VF_CHECK(!tasks.empty() && test_count > 0, "power needs a task and a test");
  Power power;
  power.can_infer = true;
  const double task_count = tasks.size();
  double variance = 0, degrees_denominator = 0;  // per unit of (f - d^2)
  for (const PlannedTask& task : tasks) {
    VF_CHECK(task.context_count > 0 && task.question_count >= task.context_count, "a context has a question");
    power.question_count += task.question_count;
    power.context_count += task.context_count;
    const double questions = task.question_count;
    const double contexts = task.context_count;
    const double design_effect = 1 + (questions / contexts - 1) * assumptions.correlation;
    const double part = design_effect / questions / (task_count * task_count);
    variance += part;
    if (task.context_count < 2) {
      power.can_infer = false;
    } else {
      degrees_denominator += part * part / (contexts - 1);
    }
  }
  power.p_sign_flip_min = std::min(1.0, std::exp2(1.0 - power.context_count));
  power.p_sign_flip_min_adjusted = std::min(1.0, power.p_sign_flip_min * test_count);
  if (!power.can_infer) return power;
  const double degrees = variance * variance / degrees_denominator;
  // d = k sqrt((f - d^2) variance), so d^2 = k^2 f variance / (1 + k^2 variance).
  const double k = DetectableDifference(1, degrees, (1 - confidence) / test_count);
  const double squared = k * k * variance;
  const double difference = std::sqrt(assumptions.flip_share * squared / (1 + squared));
  if (difference <= assumptions.flip_share) power.detectable_difference = difference;
  return power;
}

}  // namespace varifocal::stats
