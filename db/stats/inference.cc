#include "db/stats/inference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "db/stats/holm.h"
#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

// With one pair of +difference_max and one of -difference_max added.
double SparseVariance(const TaskDifferences& task, const ClusteredMean& mean) {
  if (std::isinf(task.difference_max)) return 0;  // no pair has a largest difference
  const double n = mean.value_count;
  const double seen = n * n * mean.standard_error * mean.standard_error;
  return (seen + 2 * task.design_effect * task.difference_max * task.difference_max) / ((n + 2) * (n + 2));
}

// Of two one-sided tests.
double EquivalenceP(double difference, double margin, double standard_error, double degrees) {
  return StudentTCdf((std::abs(difference) - margin) / standard_error, degrees);
}

// Over all tasks, enough clusters differ from their task's others: a task without spread then has its own variance, 0.
bool HaveSpread(const std::vector<TaskDifferences>& tasks) {
  int64_t differing = 0;
  bool all = true;
  for (const TaskDifferences& task : tasks) {
    differing += DifferingClusterCount(task.clusters);
    all &= HasSpread(task.clusters);
  }
  return all || differing >= kSpreadClusterCountMin;
}

// p values of a family adjusted together.
struct AdjustedValues {
  std::vector<double> differs, equals;
  std::vector<double> factors;  // of `differs`
};

// Of rows or of their `answered`: `value_of` gives an object with p_value and p_equivalence.
template <typename ValueOf>
AdjustedValues Adjust(size_t family_size, size_t test_count, const std::vector<double>& max_t, ValueOf value_of) {
  std::vector<double> differs(test_count, 1), equals(test_count, 1);
  for (size_t i = 0; i < family_size; ++i) std::tie(differs[i], equals[i]) = value_of(i);
  AdjustedValues adjusted{HolmAdjust(differs), HolmAdjust(equals), HolmFactors(differs)};
  for (size_t i = 0; i < max_t.size(); ++i) {
    adjusted.differs[i] = std::max(max_t[i], differs[i]);
    adjusted.factors[i] = differs[i] > 0 ? adjusted.differs[i] / differs[i] : 1;
  }
  return adjusted;
}

// Sets the adjusted interval of a row or of one of its parts, whose outcome is set, with `count` tests.
template <typename Values>
void SetAdjustedInterval(double p_adjusted, double factor, size_t count, double level, const Inference& row,
                         Values& values) {
  const auto half_of = [&](double tests) {  // by the small tail, since 1 - tail rounds to 1
    const double tail = std::max(level / tests / 2, std::numeric_limits<double>::min());
    return -StudentTQuantile(tail, values.degrees) * values.standard_error;
  };
  // A later rank widens only what was not found.
  const bool is_found = p_adjusted < level;
  const double half = half_of(is_found ? static_cast<double>(count) : std::max<double>(count, factor));
  double low = values.difference - half, high = values.difference + half;
  // Found at a later rank alone: the end next to zero is that of the level there.
  if (is_found && low <= 0 && high >= 0) {
    if (values.difference > 0) {
      low = values.difference - half_of(factor);
    } else {
      high = values.difference + half_of(factor);
    }
  }
  const bool is_equal = values.outcome == Outcome::kEquivalent;
  const double end = is_equal ? std::min(row.difference_max, *row.margin) : row.difference_max;
  values.adjusted_low = std::max(-end, low);
  values.adjusted_high = std::min(end, high);
}

bool IsInside(double low, double high, const std::optional<double>& margin) {
  return margin.has_value() && low > -*margin && high < *margin;
}

// Of a row or of one of its parts: difference, low and high.
template <typename Values>
Outcome Decide(const Values& values, const Inference& row, double p_adjusted, double p_equivalence_adjusted,
               double level) {
  if (p_adjusted < level) return values.difference * row.direction > 0 ? Outcome::kBetter : Outcome::kWorse;
  return p_equivalence_adjusted < level && IsInside(values.low, values.high, row.margin) ? Outcome::kEquivalent
                                                                                         : Outcome::kUndecided;
}

}  // namespace

const char* OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kBetter:
      return "better";
    case Outcome::kWorse:
      return "worse";
    case Outcome::kEquivalent:
      return "equivalent";
    case Outcome::kUndecided:
      break;
  }
  return "undecided";
}

bool Inference::IsWithinMargin() const { return IsDecided() && IsInside(adjusted_low, adjusted_high, margin); }

bool Inference::RestsOn(uint32_t answer_kinds) const {
  const auto found = without.find(answer_kinds);
  if (found == without.end() || is_unfinished || !can_infer || IsUnknownSpread()) return false;
  if (found->second.can_infer) return found->second.outcome != outcome;
  return outcome != Outcome::kUndecided;
}

Inference InferDifference(const std::vector<TaskDifferences>& tasks, const InferenceOptions& options) {
  VF_CHECK(!tasks.empty(), "a difference needs a task");
  Inference result;
  result.margin = options.margin;
  result.direction = options.direction;
  const double task_count = tasks.size();
  double variance = 0, degrees_denominator = 0, difference_max = 0;
  double margin_variance = 0;  // of a true difference that is the margin: some pairs differ then
  std::vector<double> signed_sums;
  result.is_variance_borrowed = !HaveSpread(tasks);
  result.is_zero_everywhere = true;
  for (const TaskDifferences& task : tasks) {
    const ClusteredMean mean = MeanOfClusters(task.clusters);
    result.difference += mean.mean / task_count;
    result.value_count += mean.value_count;
    result.cluster_count += mean.cluster_count;
    difference_max += task.difference_max / task_count;
    result.has_single_cluster |= mean.cluster_count < 2;
    double part = mean.standard_error * mean.standard_error;
    const double sparse_part = std::max(part, SparseVariance(task, mean));
    const double margin_part = AreMostEqual(task.clusters) ? sparse_part : part;
    if (result.is_variance_borrowed && !HasSpread(task.clusters)) part = sparse_part;
    part /= task_count * task_count;
    margin_variance += margin_part / (task_count * task_count);
    variance += part;
    if (mean.degrees > 0) degrees_denominator += part * part / mean.degrees;
    for (const Cluster& cluster : task.clusters) {
      signed_sums.push_back(cluster.sum / (task_count * mean.value_count));
      result.is_zero_everywhere &= cluster.sum == 0;
    }
  }
  result.difference_max = difference_max;
  result.low = -difference_max;
  result.high = difference_max;
  result.can_infer = !result.has_single_cluster && variance > 0;
  if (!result.can_infer) return result;
  // (sum_t v_t)^2 / sum_t (v_t^2 / degrees_t)
  InferFromStandardError(std::sqrt(variance), variance * variance / degrees_denominator, options, result);
  if (options.margin.has_value()) {
    result.p_equivalence = EquivalenceP(result.difference, *options.margin, std::sqrt(margin_variance), result.degrees);
  }
  result.p_sign_flip_min = std::min(1.0, std::exp2(1.0 - result.cluster_count));
  if (options.with_sign_flip) SetSignFlip(SignFlipTest(signed_sums, options.sign_flip), options.confidence, result);
  return result;
}

void InferFromStandardError(double standard_error, double degrees, const InferenceOptions& options, Inference& row) {
  row.standard_error = standard_error;
  row.degrees = degrees;
  const double half = StudentTQuantile((1 + options.confidence) / 2, degrees) * standard_error;
  row.low = std::max(-row.difference_max, row.difference - half);
  row.high = std::min(row.difference_max, row.difference + half);
  row.p_value = std::min(1.0, 2 * StudentTCdf(-std::abs(row.difference) / standard_error, degrees));
  if (options.margin.has_value())
    row.p_equivalence = EquivalenceP(row.difference, *options.margin, standard_error, degrees);
}

void SetSignFlip(SignFlipResult check, double confidence, Inference& row) {
  const double level = 1 - confidence;
  row.sign_flip = std::move(check);
  row.is_fragile = (row.p_value < level) != (row.sign_flip.p_value < level);
}

AnsweredInference InferAnswered(const std::vector<TaskDifferences>& tasks, InferenceOptions options) {
  std::vector<TaskDifferences> answered = tasks;
  std::erase_if(answered, [](const TaskDifferences& task) { return task.clusters.empty(); });
  if (answered.empty()) return {};
  options.with_sign_flip = false;
  const Inference inferred = InferDifference(answered, options);
  return {.difference = inferred.difference,
          .low = inferred.low,
          .high = inferred.high,
          .value_count = inferred.value_count,
          .p_value = inferred.p_value,
          .p_equivalence = inferred.p_equivalence,
          .can_infer = inferred.can_infer,
          .standard_error = inferred.standard_error,
          .degrees = inferred.degrees};
}

void AdjustForMultipleTests(const std::vector<Inference*>& family, int64_t declared_count, double confidence,
                            const MaxTValues& max_t) {
  const double level = 1 - confidence;
  const size_t count = std::max<size_t>(family.size(), std::max<int64_t>(declared_count, 1));
  const AdjustedValues all = Adjust(family.size(), count, max_t.all,
                                    [&](size_t i) { return std::pair(family[i]->p_value, family[i]->p_equivalence); });
  const auto adjust_parts = [&](const std::vector<double>& max_t_values, auto part_of) {
    return Adjust(family.size(), count, max_t_values, [&](size_t i) {
      const Inference& row = *family[i];
      const AnsweredInference* part = part_of(*family[i]);
      return part != nullptr ? std::pair(part->p_value, part->p_equivalence)
                             : std::pair(row.p_value, row.p_equivalence);
    });
  };
  const auto answered_of = [](Inference& row) { return row.answered ? &*row.answered : nullptr; };
  const AdjustedValues answered = adjust_parts(max_t.answered, answered_of);
  for (size_t i = 0; i < family.size(); ++i) {
    Inference& row = *family[i];
    row.test_count = count;
    row.p_adjusted = all.differs[i];
    row.is_max_t = !max_t.all.empty();
    row.p_equivalence_adjusted = all.equals[i];
    row.outcome = Outcome::kUndecided;
    row.failures_decide = false;
    row.adjusted_low = row.low;
    row.adjusted_high = row.high;
    if (!row.can_infer) continue;
    SetAdjustedInterval(row.p_adjusted, all.factors[i], count, level, row, row);
    const double detectable = DetectableDifference(row.standard_error, row.degrees, level / count);
    row.detectable_difference = detectable <= row.difference_max ? std::optional(detectable) : std::nullopt;
    if (row.is_unfinished) continue;
    const Outcome by_t = Decide(row, row, row.p_adjusted, row.p_equivalence_adjusted, level);
    const bool is_found = by_t == Outcome::kBetter || by_t == Outcome::kWorse;
    row.outcome = is_found && row.IsUnknownSpread() ? Outcome::kUndecided : by_t;
    SetAdjustedInterval(row.p_adjusted, all.factors[i], count, level, row, row);
    if (!row.answered) continue;
    AnsweredInference& without = *row.answered;
    without.outcome = Decide(without, row, answered.differs[i], answered.equals[i], level);
    row.failures_decide = !without.can_infer || without.outcome != by_t;
    if (!row.failures_decide) continue;
    row.outcome = Outcome::kUndecided;
    SetAdjustedInterval(row.p_adjusted, all.factors[i], count, level, row, row);
  }
  std::set<uint32_t> sets;
  for (const Inference* row : family) {
    for (const auto& [kinds, part] : row->without) sets.insert(kinds);
  }
  for (const uint32_t kinds : sets) {
    const auto part_of = [kinds](Inference& row) {
      uint32_t own = 0;  // a row without some of the kinds: without those that it has
      for (const auto& [part_kinds, part] : row.without) own |= part_kinds & kinds;
      const auto found = row.without.find(own);
      return found != row.without.end() ? &found->second : nullptr;
    };
    const AdjustedValues without = adjust_parts({}, part_of);
    for (size_t i = 0; i < family.size(); ++i) {
      const auto found = family[i]->without.find(kinds);
      if (found == family[i]->without.end()) continue;
      AnsweredInference* const part = &found->second;
      part->p_adjusted = without.differs[i];
      part->outcome = Outcome::kUndecided;
      if (!part->can_infer) continue;
      part->outcome = Decide(*part, *family[i], without.differs[i], without.equals[i], level);
      SetAdjustedInterval(part->p_adjusted, without.factors[i], count, level, *family[i], *part);
    }
  }
}

}  // namespace varifocal::stats
