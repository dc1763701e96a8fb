// Two-sided sign-flip (permutation) test over clusters.
//
// If the two variants are exchangeable, each cluster's difference was as likely to have the other sign. The statistic
// is the absolute sum of signed cluster differences. Clusters with difference zero change nothing and are left out; up
// to 20 others every assignment of signs is tried, beyond that `draws` seeded ones, counted with the +1 rule, so that p
// is never zero and the test keeps its level exactly.
//
// Cost:   a table look-up per eight clusters, 2^20 times at most when exact, `draws` times otherwise.
// Source: Phipson and Smyth 2010, arXiv:1603.05766 (the +1 rule).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varifocal::stats {

inline constexpr int kExactClusterCountMax = 20;

struct SignFlipOptions {
  int64_t draws = 20'000;  // at least 10,000 for a published p
  uint64_t seed = 20261121;
};

struct SignFlipResult {
  double p_value = 1;
  std::string test;   // "sign_flip_exact" or "sign_flip_sampled"
  int64_t draws = 0;  // sign assignments evaluated
  uint64_t seed = 0;  // 0 when exact
};

SignFlipResult SignFlipTest(const std::vector<double>& cluster_sums, const SignFlipOptions& options = {});

}  // namespace varifocal::stats
