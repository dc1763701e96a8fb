#include "db/stats/replicate_simulation.h"

#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "db/fakes/normal.h"
#include "db/stats/replicates.h"

namespace varifocal::stats {
namespace {

using Run = std::vector<std::vector<double>>;  // [task][question]; one task here

bool ExcludesZero(const Inference& row) { return row.can_infer && (row.low > 0 || row.high < 0); }

class Experiment {
 public:
  Experiment(const ReplicateDesign& design, Random& random) : design_(design), random_(random) {
    for (int context = 0; context < design.context_count; ++context) {
      const double effect = design.context_sd * Normal(random_);
      const double level = Normal(random_);
      for (int i = 0; i < design.context_size; ++i) {
        effects_.push_back(effect);
        levels_.push_back(level);
      }
    }
  }

  std::vector<ReplicateGroup> Groups() {
    if (design_.is_paired) {
      ReplicateGroup differences;
      for (int seed = 0; seed < design_.candidate_seed_count; ++seed) {
        const Run baseline = design_.is_binary ? Values(0, 0) : Run{std::vector<double>(effects_.size(), 0.0)};
        Run candidate = Values(design_.seed_sd * Normal(random_), 1);
        for (size_t q = 0; q < effects_.size(); ++q) candidate[0][q] -= baseline[0][q];
        differences.values.push_back(candidate);
      }
      return {differences};
    }
    ReplicateGroup candidate{1, {}}, baseline{-1, {}};
    for (int seed = 0; seed < design_.candidate_seed_count; ++seed)
      candidate.values.push_back(Values(design_.seed_sd * Normal(random_), 1));
    for (int seed = 0; seed < design_.baseline_seed_count; ++seed)
      baseline.values.push_back(Values(design_.seed_sd * Normal(random_), 0));
    return {candidate, baseline};
  }

 private:
  Run Values(double run_effect, double is_candidate) {
    std::vector<double> values;
    for (size_t q = 0; q < effects_.size(); ++q) {
      const double effect = run_effect + is_candidate * effects_[q] + design_.rest_sd * Normal(random_);
      // Binary answers share how hard their context is.
      values.push_back(design_.is_binary ? (effect + levels_[q] > 0 ? 1.0 : 0.0)
                                         : effect + is_candidate * design_.difference);
    }
    return {values};
  }

  const ReplicateDesign& design_;
  Random& random_;
  std::vector<double> effects_, levels_;
};

}  // namespace

ReplicateRates SimulateReplicates(const ReplicateDesign& design, int64_t experiment_count, uint64_t seed) {
  VF_CHECK(!design.is_paired || design.baseline_seed_count == design.candidate_seed_count);
  ReplicatedTask task;
  task.difference_max = design.is_binary ? 1 : 1e6;
  task.design_effect = design.context_size;
  for (int context = 0; context < design.context_count; ++context) {
    for (int i = 0; i < design.context_size; ++i) task.clusters.push_back(absl::StrCat(1000 + context));
  }
  InferenceOptions options;
  options.with_sign_flip = false;
  if (design.difference != 0) options.margin = std::abs(design.difference);
  Random random(absl::StrCat("replicates ", seed));
  ReplicateRates rates;
  for (int64_t i = 0; i < experiment_count; ++i) {
    const std::vector<ReplicateGroup> groups = Experiment(design, random).Groups();
    const ReplicatedInference row = InferReplicates({task}, groups, options);
    rates.interval += ExcludesZero(row);
    rates.coverage += row.low <= design.difference && design.difference <= row.high;
    rates.equivalent_at_margin += options.margin.has_value() && row.p_equivalence < 0.05;
    rates.contradictions += ExcludesZero(row) != (row.p_value < 0.05);

    std::vector<ReplicateGroup> averaged = groups, single = groups;
    for (size_t g = 0; g < groups.size(); ++g) {
      Run mean = groups[g].values[0];
      for (size_t q = 0; q < mean[0].size(); ++q) {
        mean[0][q] = 0;
        for (const Run& run : groups[g].values) mean[0][q] += run[0][q] / groups[g].values.size();
      }
      averaged[g].values = {mean};
      single[g].values.resize(1);
    }
    rates.seeds_ignored += ExcludesZero(InferReplicates({task}, averaged, options));
    rates.one_run += ExcludesZero(InferReplicates({task}, single, options));
    if (groups.size() == 1) {
      std::vector<Cluster> seeds;
      for (const Run& run : groups[0].values) {
        double sum = 0;
        for (double value : run[0]) sum += value;
        const double mean = sum / run[0].size();
        seeds.push_back({mean, 1, mean * mean});
      }
      rates.contexts_ignored += ExcludesZero(InferDifference({{seeds, task.difference_max, 1}}, options));
    }
  }
  for (double* rate : {&rates.interval, &rates.coverage, &rates.equivalent_at_margin, &rates.seeds_ignored,
                       &rates.one_run, &rates.contexts_ignored}) {
    *rate /= experiment_count;
  }
  return rates;
}

}  // namespace varifocal::stats
