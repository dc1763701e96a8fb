#include "db/stats/null_simulation.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "db/stats/compare.h"
#include "db/stats/inference.h"
#include "db/stats/max_t.h"
#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

// Box and Muller, one of the pair.
double Normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.Uniform());
}

// Latent values of a task's questions at a length; questions of a cluster share a part.
std::vector<double> Latents(const FamilyDesign& design, Random& random) {
  const double shared = std::sqrt(design.correlation), own = std::sqrt(1 - design.correlation);
  std::vector<double> values;
  for (int cluster = 0; cluster < design.cluster_count; ++cluster) {
    const double common = Normal(random);
    for (int i = 0; i < design.cluster_size; ++i) values.push_back(shared * common + own * Normal(random));
  }
  return values;
}

}  // namespace

FamilyRates SimulateFamily(const FamilyDesign& design, int64_t experiment_count, uint64_t seed, int64_t max_t_draws) {
  Random random(absl::StrCat("family ", seed));
  const double same = design.likeness, other = std::sqrt(1 - same * same);
  InferenceOptions options;
  options.with_sign_flip = false;
  FamilyRates rates;
  for (int64_t experiment = 0; experiment < experiment_count; ++experiment) {
    std::vector<Inference> rows;
    std::vector<ClusterContributions> contributions;
    for (int length = 0; length < design.length_count; ++length) {
      std::vector<std::vector<double>> baseline;
      for (int task = 0; task < design.task_count; ++task) baseline.push_back(Latents(design, random));
      for (int candidate = 0; candidate < design.candidate_count; ++candidate) {
        std::vector<TaskDifferences> tasks;
        for (const std::vector<double>& latents : baseline) {
          const std::vector<double> innovation = Latents(design, random);
          TaskDifferences task;
          task.clusters.resize(design.cluster_count);
          for (size_t i = 0; i < latents.size(); ++i) {
            const bool is_right = same * latents[i] + other * innovation[i] > 0;
            const double difference = static_cast<double>(is_right) - static_cast<double>(latents[i] > 0);
            Cluster& cluster = task.clusters[i / static_cast<size_t>(design.cluster_size)];
            cluster.sum += difference;
            cluster.square_sum += difference * difference;
            ++cluster.count;
          }
          tasks.push_back(std::move(task));
        }
        rows.push_back(InferDifference(tasks, options));
        ClusterContributions& sums = contributions.emplace_back();
        for (size_t task = 0; task < tasks.size(); ++task) {
          for (size_t c = 0; c < tasks[task].clusters.size(); ++c) {
            sums[absl::StrCat(length, "/", task, "/", c)] = tasks[task].clusters[c].sum;
          }
        }
      }
    }
    std::vector<Inference*> family;
    for (Inference& row : rows) family.push_back(&row);
    AdjustForMultipleTests(family, family.size(), 0.95);
    bool is_low = false, is_decided = false;
    for (const Inference& row : rows) {
      is_low |= row.p_value < 0.05;
      is_decided |= row.outcome == Outcome::kBetter || row.outcome == Outcome::kWorse;
    }
    if (max_t_draws > 0) {
      AdjustForMultipleTests(family, 0, 0.95, MaxTAdjust(contributions, {.draws = max_t_draws}));
      rates.any_max_t += std::any_of(rows.begin(), rows.end(), [](const Inference& row) {
        return row.outcome == Outcome::kBetter || row.outcome == Outcome::kWorse;
      });
    }
    rates.any_unadjusted += is_low;
    rates.any_outcome += is_decided;
  }
  rates.any_unadjusted /= static_cast<double>(experiment_count);
  rates.any_outcome /= static_cast<double>(experiment_count);
  rates.any_max_t /= static_cast<double>(experiment_count);
  return rates;
}

NullRates SimulateNull(const NullDesign& design, int64_t experiment_count, int64_t draws, uint64_t seed) {
  const double loss_share = design.loss_share < 0 ? design.flip_share : design.loss_share;
  const double gain_threshold = -NormalQuantile(design.flip_share), loss_threshold = -NormalQuantile(loss_share);
  const double truth = design.is_binary ? design.flip_share - loss_share : 0;
  const double right_threshold = design.right_share > 0 ? -NormalQuantile(design.right_share) : 0;
  const double baseline_truth =
      design.is_binary ? loss_share + (1 - design.flip_share - loss_share) * design.right_share : 0.5;
  const double shared = std::sqrt(design.correlation);
  const double own = std::sqrt(1 - design.correlation);
  const MetricInfo info{design.is_binary, true, design.cluster_count * design.cluster_size, 0.0, 1.0};
  std::vector<db::PairRow> pairs(design.cluster_count * design.cluster_size);
  for (size_t i = 0; i < pairs.size(); ++i) {
    const size_t cluster = design.ignore_clusters ? i : i / design.cluster_size;
    pairs[i].cluster = absl::StrCat(cluster);
  }
  Random random(absl::StrCat("null ", seed));
  NullRates rates;
  rates.experiment_count = experiment_count;
  for (int64_t experiment = 0; experiment < experiment_count; ++experiment) {
    double latent = 0, right_latent = 0;
    for (size_t i = 0; i < pairs.size(); ++i) {
      if (i % design.cluster_size == 0) latent = Normal(random);
      if (i % design.cluster_size == 0 && design.right_share > 0) right_latent = Normal(random);
      const double z = shared * latent + own * Normal(random);
      double baseline = 0.5;
      double candidate = std::clamp(0.5 + z / 10, 0.0, 1.0);
      if (design.is_binary) {
        baseline = z < -loss_threshold ? 1 : 0;
        candidate = z > gain_threshold ? 1 : 0;
        if (design.right_share > 0 && baseline == candidate)
          baseline = candidate = shared * right_latent + own * Normal(random) > right_threshold ? 1 : 0;
      }
      pairs[i].baseline_value = baseline;
      pairs[i].candidate_value = candidate;
      pairs[i].difference = candidate - baseline;
    }
    CompareOptions options;
    options.with_sign_flip = draws > 0;
    if (draws > 0) options.sign_flip = {draws, seed + static_cast<uint64_t>(experiment)};
    absl::StatusOr<Comparison> row = ComparePairs(pairs, info, options);
    VF_CHECK(row.ok());
    const bool leaves_out_zero = row->low > 0 || row->high < 0;
    rates.sign_flip += row->sign_flip.p_value <= 0.05;
    rates.interval += leaves_out_zero;
    rates.coverage += row->low <= truth && truth <= row->high;
    rates.equivalent += row->outcome == Outcome::kEquivalent;
    bool is_contradiction = leaves_out_zero != (row->p_value < 0.05);
    if (row->relative.has_value()) {
      const double relative_truth = truth / baseline_truth;
      rates.relative += 1;
      rates.relative_coverage += row->relative.low <= relative_truth && relative_truth <= row->relative.high;
      is_contradiction |= leaves_out_zero != (row->relative.low > 0 || row->relative.high < 0);
    }
    rates.contradictions += is_contradiction;
  }
  if (rates.relative > 0) rates.relative_coverage /= rates.relative;
  rates.relative /= static_cast<double>(experiment_count);
  rates.sign_flip /= static_cast<double>(experiment_count);
  rates.interval /= static_cast<double>(experiment_count);
  rates.coverage /= static_cast<double>(experiment_count);
  rates.equivalent /= static_cast<double>(experiment_count);
  return rates;
}

}  // namespace varifocal::stats
