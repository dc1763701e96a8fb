// Simulated experiments with training seeds and a known true difference: the false positive rate and the coverage of
// InferReplicates, and what happens when seeds, or contexts, are left out.
//
// Each run's answer to a question is a latent normal: the context's effect on the arm, the run's own effect, and the rest.
// Graded scores are that value; binary ones are whether it is above zero.
//
// Cost: about 20 us for an experiment of 3 seeds and 48 questions.
#pragma once

#include <cstdint>

namespace varifocal::stats {

struct ReplicateDesign {
  int baseline_seed_count = 3, candidate_seed_count = 3;
  bool is_paired = true;  // the seeds of both arms are the same: differences are taken by seed
  int context_count = 12, context_size = 4;
  double seed_sd = 1;     // of a run's effect (of the difference, where paired)
  double context_sd = 0;  // of a context's effect on the difference, the same in all seeds
  double rest_sd = 1;     // of a question in a run
  double difference = 0;  // graded alone
  bool is_binary = false;
};

struct ReplicateRates {
  double interval = 0;              // share whose 95 % interval excludes zero
  double coverage = 0;              // share whose interval contains the true difference
  double equivalent_at_margin = 0;  // share equivalent with the true difference's size as the margin; 0 without one
  // The same experiments by other procedures: all runs' answers pooled by context; one run an arm; seeds as the only
  // clusters (t test of the seeds' means).
  double seeds_ignored = 0, one_run = 0, contexts_ignored = 0;
  int64_t contradictions = 0;  // experiments where p < 0.05 and the interval disagree
};

ReplicateRates SimulateReplicates(const ReplicateDesign& design, int64_t experiment_count, uint64_t seed);

}  // namespace varifocal::stats
