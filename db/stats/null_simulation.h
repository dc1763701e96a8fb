// Simulated experiments with a known true difference: the false positive rate of the comparison and the coverage of its
// interval.
//
// Questions come in clusters. A row flips to the candidate's side or to the baseline's, correlated within its
// cluster through a latent normal. Every experiment runs through ComparePairs, so the code that prints the table is
// measured.
//
// Cost: about 0.5 ms for an experiment of 600 rows.
#pragma once

#include <cstdint>

namespace varifocal::stats {

struct NullDesign {
  int cluster_count = 100;
  int cluster_size = 6;
  double correlation = 0.5;      // of the latent variable within a cluster
  double flip_share = 0.1;       // of rows that the candidate gains
  double loss_share = -1;        // of rows that it loses; as many as it gains when negative: no true difference
  bool is_binary = true;         // else differences are graded, as a token F1's are
  double right_share = 0;        // binary: of the other rows, where both are right, correlated likewise
  bool ignore_clusters = false;  // the mistake: every row its own cluster
};

struct NullRates {
  int64_t experiment_count = 0;
  double sign_flip = 0;          // share whose sign-flip p is at most 0.05; not drawn when draws is 0
  double interval = 0;           // share whose 95 % interval excludes zero
  double coverage = 0;           // share whose 95 % interval contains the true difference
  double equivalent = 0;         // share found equivalent within the margin of 3 points
  double relative = 0;           // share with a relative gain
  double relative_coverage = 0;  // share of these whose interval contains the true one
  // Experiments where p < 0.05 and the interval disagree, or the interval of the relative gain.
  int64_t contradictions = 0;
};

NullRates SimulateNull(const NullDesign& design, int64_t experiment_count, int64_t draws, uint64_t seed);

// Graded values without bounds, such as log-likelihoods: normal, one or several to a context.
struct UnboundedDesign {
  int cluster_count = 3;
  int cluster_size = 1;
  double correlation = 0;  // within a context
};

struct UnboundedRates {
  double score = 0;            // share of the intervals of a mean score that contain the true one
  double difference = 0;       // share of the intervals of a paired difference that do
  double interval = 0;         // share of the latter that exclude zero, without a true difference
  int64_t contradictions = 0;  // experiments where p < 0.05 and the interval disagree
};

UnboundedRates SimulateUnbounded(const UnboundedDesign& design, int64_t experiment_count, uint64_t seed);

// A whole job: candidates and lengths, all compared with one baseline, adjusted together. Answers are right or wrong.
struct FamilyDesign {
  int candidate_count = 17;
  int length_count = 4;
  int task_count = 5;
  int cluster_count = 12;  // of each task and length
  int cluster_size = 4;
  double likeness = 0.7;     // correlation of a candidate's latent value with the baseline's on the same question
  double correlation = 0.3;  // of either one within a cluster
  double base_rate = 0.5;    // the share of the baseline's answers that are right
  double gain = 0;           // the true difference of every candidate
};

struct FamilyRates {
  double any_unadjusted = 0;  // share of jobs with a p below 0.05 in some mean over tasks
  double any_outcome = 0;     // share of jobs that call some candidate better or worse at some length
  double any_max_t = 0;  // likewise, adjusted by max-t instead of Holm's method; not computed when max_t_draws is 0
  // Of the means over tasks, one for each candidate and length:
  double coverage = 0;         // share whose 95 % interval contains the true difference
  double equivalent = 0;       // share with the outcome equivalent, margin 3 points
  double few_differ = 0;       // share where too few contexts differ to estimate the variance
  double found = 0;            // share of the others with p below 0.05
  int64_t contradictions = 0;  // p < 0.05 and the interval disagree
};

FamilyRates SimulateFamily(const FamilyDesign& design, int64_t experiment_count, uint64_t seed,
                           int64_t max_t_draws = 0);

}  // namespace varifocal::stats
