// Two-sided permutation test of two groups of independent values: the difference of their means against that of every way
// to divide all values into groups of these sizes.
//
// Up to kExactDivisionCountMax divisions are all tried, beyond that `draws` seeded ones are, with the +1 rule.
#pragma once

#include <cstdint>
#include <vector>

#include "db/stats/sign_flip.h"

namespace varifocal::stats {

inline constexpr int64_t kExactDivisionCountMax = 1 << 20;

// `test` is "permutation_exact" or "permutation_sampled".
SignFlipResult PermutationTest(const std::vector<double>& a, const std::vector<double>& b,
                               const SignFlipOptions& options = {});

// One over the number of divisions; groups of equal size can be exchanged whole, which makes it twice that.
double SmallestPermutationP(size_t a_count, size_t b_count);

}  // namespace varifocal::stats
