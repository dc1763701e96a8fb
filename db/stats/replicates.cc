#include "db/stats/replicates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/check.h"
#include "db/stats/permutation.h"
#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / values.size();
}

// Of the mean of `values`. Values that are equal on paper differ by rounding, which must count as zero.
double VarianceOfMean(const std::vector<double>& values) {
  const double n = values.size(), mean = MeanOf(values);
  double squares = 0, magnitude = 0;
  for (double value : values) {
    squares += (value - mean) * (value - mean);
    magnitude = std::max(magnitude, std::abs(value));
  }
  return squares <= 1e-24 * magnitude * magnitude ? 0 : squares / (n - 1) / n;
}

std::vector<double> SeedMeans(const ReplicateGroup& group) {
  std::vector<double> means;
  for (const std::vector<std::vector<double>>& tasks : group.values) {
    double sum = 0;
    for (const std::vector<double>& values : tasks) sum += MeanOf(values);
    means.push_back(sum / tasks.size());
  }
  return means;
}

// The part of a task's mean that neither seeds nor contexts explain: residuals of the sums of (seed, context).
double RestVariance(const ReplicatedTask& task, const ReplicateGroup& group, size_t task_index) {
  const double seeds = group.values.size(), n = task.clusters.size();
  std::map<std::string, std::vector<size_t>> questions;
  for (size_t q = 0; q < task.clusters.size(); ++q) questions[task.clusters[q]].push_back(q);
  const double contexts = questions.size();
  if (seeds < 2 || contexts < 2) return 0;
  std::vector<double> seed_means;
  for (const auto& run : group.values) seed_means.push_back(MeanOf(run[task_index]));
  const double mean = MeanOf(seed_means);
  double squares = 0;
  for (const auto& [name, members] : questions) {
    const double count = members.size();
    std::vector<double> sums;
    for (const auto& run : group.values) {
      double sum = 0;
      for (size_t q : members) sum += run[task_index][q];
      sums.push_back(sum);
    }
    const double average = MeanOf(sums);
    for (size_t s = 0; s < sums.size(); ++s) {
      const double residual = sums[s] - average - count * (seed_means[s] - mean);
      squares += residual * residual;
    }
  }
  return squares / (seeds * n * seeds * n) * seeds * contexts / ((seeds - 1) * (contexts - 1));
}

// The mean over seeds of each question, signed and added over groups.
std::vector<TaskDifferences> OverSeeds(const std::vector<ReplicatedTask>& tasks,
                                       const std::vector<ReplicateGroup>& groups) {
  std::vector<TaskDifferences> result;
  for (size_t t = 0; t < tasks.size(); ++t) {
    std::vector<ClusteredValue> values;
    for (size_t q = 0; q < tasks[t].clusters.size(); ++q) {
      double value = 0;
      for (const ReplicateGroup& group : groups) {
        double sum = 0;
        for (const auto& run : group.values) sum += run[t][q];
        value += group.sign * sum / group.values.size();
      }
      values.push_back({tasks[t].clusters[q], value});
    }
    result.push_back({GroupByCluster(values), tasks[t].difference_max, tasks[t].design_effect});
  }
  return result;
}

}  // namespace

double DegreesOfCriticalValue(double critical, double low, double high, double confidence) {
  const double probability = (1 + confidence) / 2;
  for (int i = 0; i < 60 && high - low > 1e-10 * high; ++i) {
    const double middle = (low + high) / 2;
    (StudentTQuantile(probability, middle) > critical ? low : high) = middle;
  }
  return (low + high) / 2;
}

ReplicatedInference InferReplicates(const std::vector<ReplicatedTask>& tasks, const std::vector<ReplicateGroup>& groups,
                                    const InferenceOptions& options) {
  VF_CHECK(!tasks.empty() && !groups.empty() && groups.size() <= 2);
  InferenceOptions contexts_only = options;
  contexts_only.with_sign_flip = false;
  ReplicatedInference result;
  static_cast<Inference&>(result) = InferDifference(OverSeeds(tasks, groups), contexts_only);
  result.is_over_seeds = std::all_of(groups.begin(), groups.end(), [](const auto& g) { return g.values.size() > 1; });
  if (!result.is_over_seeds || result.has_single_cluster) return result;

  const double probability = (1 + options.confidence) / 2;
  const double of_contexts = result.standard_error * result.standard_error;
  double of_seeds = 0, rest = 0, seed_quantiles = 0;  // the quantiles weighted with the groups' parts of of_seeds
  // Without bounds the contexts may have no spread at all, and the seeds alone have one.
  const bool have_contexts = result.can_infer;
  double degrees_low = have_contexts ? result.degrees : std::numeric_limits<double>::infinity();
  double degrees_high = have_contexts ? result.degrees : 0;
  std::vector<std::vector<double>> seed_means;
  for (const ReplicateGroup& group : groups) {
    seed_means.push_back(SeedMeans(group));
    const double degrees = group.values.size() - 1;
    const double variance = VarianceOfMean(seed_means.back());
    of_seeds += variance;
    seed_quantiles += variance * StudentTQuantile(probability, degrees);
    degrees_low = std::min(degrees_low, degrees);
    degrees_high = std::max(degrees_high, degrees);
    const double count = tasks.size();
    for (size_t t = 0; t < tasks.size(); ++t) rest += RestVariance(tasks[t], group, t) / (count * count);
  }
  const double variance = std::max({of_seeds, of_contexts, of_seeds + of_contexts - rest});
  result.can_infer = variance > 0;
  if (!result.can_infer) return result;
  const double of_rest = have_contexts ? (variance - of_seeds) * StudentTQuantile(probability, result.degrees) : 0;
  const double critical = (seed_quantiles + of_rest) / variance;
  result.seed_share = of_seeds / variance;
  InferFromStandardError(std::sqrt(variance),
                         DegreesOfCriticalValue(critical, degrees_low, degrees_high, options.confidence), options,
                         result);
  result.is_variance_borrowed = false;  // it is the seeds', too
  const std::vector<double>& first = seed_means.front();
  result.p_sign_flip_min = groups.size() == 1 ? std::min(1.0, std::exp2(1.0 - first.size()))
                                              : SmallestPermutationP(first.size(), seed_means.back().size());
  if (!options.with_sign_flip) return result;
  SetSignFlip(groups.size() == 1 ? SignFlipTest(first, options.sign_flip)
                                 : PermutationTest(first, seed_means.back(), options.sign_flip),
              options.confidence, result);
  return result;
}

}  // namespace varifocal::stats
