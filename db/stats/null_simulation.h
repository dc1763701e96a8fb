// Simulated experiments without any true difference: how often does the comparison claim one?
//
// Questions come in clusters. A row flips to the candidate's side or to the baseline's with equal chance, correlated
// within its cluster through a latent normal. Every experiment goes through ComparePairs, so what is measured is the
// code that prints the table.
//
// Cost: about 0.5 ms for an experiment of 600 rows.
#pragma once

#include <cstdint>

namespace varifocal::stats {

struct NullDesign {
  int cluster_count = 100;
  int cluster_size = 6;
  double correlation = 0.5;      // of the latent variable within a cluster
  double flip_share = 0.1;       // of rows, each way
  bool is_binary = true;         // else differences are graded, as a token F1's are
  bool ignore_clusters = false;  // the mistake: every row its own cluster
};

struct NullRates {
  int64_t experiment_count = 0;
  double sign_flip = 0;  // share with p <= 0.05
  double interval = 0;   // share whose 95 % interval leaves out zero
};

NullRates SimulateNull(const NullDesign& design, int64_t experiment_count, int64_t draws, uint64_t seed);

}  // namespace varifocal::stats
