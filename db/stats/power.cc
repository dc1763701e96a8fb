#include "db/stats/power.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "db/stats/score_intervals.h"

namespace varifocal::stats {
namespace {

constexpr int64_t kRoundCounts[] = {6,  8,  10, 12,  15,  20,  25,  30,  35,  40,  45,  50,  60,
                                    70, 80, 90, 100, 120, 140, 160, 180, 200, 250, 300, 400, 500};

}  // namespace

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

std::optional<EnoughContexts> ContextsEnough(const std::vector<PlannedTask>& tasks, const PowerAssumptions& assumptions,
                                             int64_t test_count, double goal, double confidence) {
  for (const int64_t count : kRoundCounts) {
    std::vector<PlannedTask> enough = tasks;
    for (PlannedTask& task : enough) {
      const double size = static_cast<double>(task.question_count) / task.context_count;
      task.context_count = count;
      task.question_count = std::llround(size * count);
    }
    const Power power = PlannedPower(enough, assumptions, test_count, confidence);
    if (power.detectable_difference.has_value() && *power.detectable_difference <= goal)
      return EnoughContexts{count, *power.detectable_difference};
  }
  return std::nullopt;
}

std::optional<EnoughContexts> ContextsEnough(const Inference& row, double goal, double confidence) {
  if (!row.can_infer || row.is_variance_borrowed) return std::nullopt;
  for (const int64_t count : kRoundCounts) {
    if (count <= row.cluster_count) continue;
    const double more = static_cast<double>(count) / row.cluster_count;
    const double found = DetectableDifference(row.standard_error / std::sqrt(more), row.degrees * more,
                                              (1 - confidence) / row.test_count);
    if (found <= goal) return EnoughContexts{count, found};
  }
  return std::nullopt;
}

}  // namespace varifocal::stats
