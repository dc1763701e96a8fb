// Inference over training seeds and contexts: means of arms that were trained several times.
//
// Every run answers the same questions, so seeds and contexts are crossed, not nested, and both are random: the value of
// seed s on context c is mean + seed_s + context_c + rest_sc. From S seeds and C contexts the mean has the variance
//   V = max(V_seed, V_context, V_seed + V_context - V_rest),
// where V_seed comes from the spread of the seeds' means, V_context from that of the contexts' means (both hold the rest
// once, which is why it is taken off once), and V_rest from what is left. Two arms whose seeds are not paired have a V_seed
// each, and add them. Tasks have their own contexts and the same seeds.
//
// The critical value is Cochran and Cox's: the mean of the t quantiles of seeds (S - 1 degrees of freedom) and contexts,
// weighted with their shares of V. With three seeds Satterthwaite's rule excludes a true zero in up to 8 % of experiments,
// this one in at most 5 % (docs/decisions/0064). `degrees` is the number whose t quantile has that value, so that interval,
// p and the detectable difference remain one procedure.
//
// The check flips the signs of the paired seeds' differences, or exchanges seeds between the two arms.
//
// Units:   those of the values given.
// Source:  Searle, Casella and McCulloch 1992, Variance Components, 4.7 (two crossed random factors); Cochran and Cox 1950,
//          Experimental Designs, 4.14.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "db/stats/inference.h"

namespace varifocal::stats {

struct ReplicatedTask {
  std::vector<std::string> clusters;  // the context of each question
  double difference_max = 1;
  double design_effect = 1;  // as in TaskDifferences
};

// Runs that are drawn alike: the differences of paired seeds, or the values of one arm.
struct ReplicateGroup {
  double sign = 1;  // of the group's mean in the result
  // [seed][task][question]: at least one seed, and a value for every question.
  std::vector<std::vector<std::vector<double>>> values;
};

struct ReplicatedInference
    : Inference {              // value_count and cluster_count are of questions and contexts, not times seeds
  bool is_over_seeds = false;  // false where a group has one seed: then of its contexts alone
  double seed_share = 0;       // of the variance
};

// The sum over groups of sign times the mean over seeds of the mean over tasks. One group, or two of opposite signs.
ReplicatedInference InferReplicates(const std::vector<ReplicatedTask>& tasks, const std::vector<ReplicateGroup>& groups,
                                    const InferenceOptions& options);

// The degrees of freedom between `low` and `high` for which the two-sided quantile of Student's t is `critical`.
double DegreesOfCriticalValue(double critical, double low, double high, double confidence);

}  // namespace varifocal::stats
