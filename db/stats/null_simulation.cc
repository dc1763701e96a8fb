#include "db/stats/null_simulation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "db/fakes/normal.h"
#include "db/stats/compare.h"
#include "db/stats/inference.h"
#include "db/stats/max_t.h"
#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

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

// A candidate's differences to a baseline with these latent values, task by task.
std::vector<TaskDifferences> Differences(const FamilyDesign& design, const std::vector<std::vector<double>>& baseline,
                                         Random& random) {
  const double same = design.likeness, other = std::sqrt(1 - same * same);
  const double baseline_threshold = -NormalQuantile(design.base_rate);
  const double candidate_threshold = -NormalQuantile(design.base_rate + design.gain);
  std::vector<TaskDifferences> tasks;
  std::vector<std::vector<Cluster>> all;
  for (const std::vector<double>& latents : baseline) {
    const std::vector<double> innovation = Latents(design, random);
    TaskDifferences& task = tasks.emplace_back();
    task.clusters.resize(design.cluster_count);
    for (size_t i = 0; i < latents.size(); ++i) {
      const bool is_right = same * latents[i] + other * innovation[i] > candidate_threshold;
      const double difference = static_cast<double>(is_right) - (latents[i] > baseline_threshold);
      Cluster& cluster = task.clusters[i / design.cluster_size];
      cluster.sum += difference;
      cluster.square_sum += difference * difference;
      ++cluster.count;
    }
    all.push_back(task.clusters);
  }
  const std::optional<double> over_tasks = PooledDesignEffect(all);
  for (TaskDifferences& task : tasks)
    task.design_effect = BorrowedDesignEffect(task.clusters, PooledDesignEffect({task.clusters}), over_tasks);
  return tasks;
}

bool IsAnyDecided(const std::vector<Inference>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Inference& row) {
    return row.outcome == Outcome::kBetter || row.outcome == Outcome::kWorse;
  });
}

}  // namespace

FamilyRates SimulateFamily(const FamilyDesign& design, int64_t experiment_count, uint64_t seed, int64_t max_t_draws) {
  Random random(absl::StrCat("family ", seed));
  InferenceOptions options;
  options.with_sign_flip = false;
  options.margin = kDefaultMargin;
  FamilyRates rates;
  double row_count = 0, spread_count = 0;
  for (int64_t experiment = 0; experiment < experiment_count; ++experiment) {
    std::vector<Inference> rows;
    std::vector<ClusterContributions> contributions;
    for (int length = 0; length < design.length_count; ++length) {
      std::vector<std::vector<double>> baseline;
      for (int task = 0; task < design.task_count; ++task) baseline.push_back(Latents(design, random));
      for (int candidate = 0; candidate < design.candidate_count; ++candidate) {
        const std::vector<TaskDifferences> tasks = Differences(design, baseline, random);
        rows.push_back(InferDifference(tasks, options));
        if (max_t_draws <= 0) continue;
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
    bool is_low = false;
    for (const Inference& row : rows) {
      is_low |= row.p_value < 0.05;
      rates.coverage += row.low <= design.gain && design.gain <= row.high;
      rates.equivalent += row.outcome == Outcome::kEquivalent;
      rates.few_differ += row.is_variance_borrowed;
      rates.contradictions += (row.p_value < 0.05) != (row.low > 0 || row.high < 0);
      spread_count += !row.is_variance_borrowed;
      rates.found += !row.is_variance_borrowed && row.p_value < 0.05;
      row_count += 1;
    }
    rates.any_unadjusted += is_low;
    rates.any_outcome += IsAnyDecided(rows);
    if (max_t_draws > 0) {
      AdjustForMultipleTests(family, 0, 0.95, {MaxTAdjust(contributions, {.draws = max_t_draws}), {}});
      rates.any_max_t += IsAnyDecided(rows);
    }
  }
  for (double* share : {&rates.any_unadjusted, &rates.any_outcome, &rates.any_max_t}) *share /= experiment_count;
  for (double* share : {&rates.coverage, &rates.equivalent, &rates.few_differ}) *share /= row_count;
  if (spread_count > 0) rates.found /= spread_count;
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
    if (draws > 0) options.sign_flip = {draws, seed + experiment};
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
  rates.relative /= experiment_count;
  rates.sign_flip /= experiment_count;
  rates.interval /= experiment_count;
  rates.coverage /= experiment_count;
  rates.equivalent /= experiment_count;
  return rates;
}

UnboundedRates SimulateUnbounded(const UnboundedDesign& design, int64_t experiment_count, uint64_t seed) {
  constexpr double kTrueScore = -12.0;
  Random random(absl::StrCat("unbounded ", seed));
  const double shared = std::sqrt(design.correlation), own = std::sqrt(1 - design.correlation);
  MetricInfo info;  // no worst and no best value
  info.is_primary = true;
  info.planned_count = static_cast<int64_t>(design.cluster_count) * design.cluster_size;
  CompareOptions options;
  options.with_sign_flip = false;
  UnboundedRates rates;
  for (int64_t experiment = 0; experiment < experiment_count; ++experiment) {
    std::vector<db::PairRow> pairs;
    for (int cluster = 0; cluster < design.cluster_count; ++cluster) {
      const double commons[] = {Normal(random), Normal(random)};
      for (int i = 0; i < design.cluster_size; ++i) {
        db::PairRow& pair = pairs.emplace_back();
        pair.cluster = absl::StrCat(cluster);
        pair.question_id = absl::StrCat(pairs.size());
        pair.baseline_value = kTrueScore + shared * commons[0] + own * Normal(random);
        pair.candidate_value = kTrueScore + shared * commons[1] + own * Normal(random);
        pair.difference = *pair.candidate_value - *pair.baseline_value;
      }
    }
    const absl::StatusOr<Comparison> row = ComparePairs(pairs, info, options);
    VF_CHECK(row.ok() && row->can_infer && row->baseline_interval.has_value(), "every experiment has an interval");
    rates.score += row->baseline_interval->low <= kTrueScore && kTrueScore <= row->baseline_interval->high;
    const bool excludes_zero = row->low > 0 || row->high < 0;
    rates.difference += !excludes_zero;
    rates.contradictions += excludes_zero != (row->p_value < 0.05);
  }
  rates.score /= experiment_count;
  rates.difference /= experiment_count;
  rates.interval = 1 - rates.difference;
  return rates;
}

}  // namespace varifocal::stats
