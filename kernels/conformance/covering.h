// Covering designs: of all combinations that could be tested, few that still have every pair of factor levels.
//
// Most faults of a kernel show at one level (a head dim, a window at a page's edge) or at two together (a head dim in one
// number format). A design that has each pair of levels at least once sees these, and needs a fraction of the full product.
//
// Cost:    linear in the combinations and quadratic in the levels of one, some milliseconds for thousands.
// Source:  greedy choice after Cohen, Dalal, Fredman and Patton 1997 (AETG), here among given combinations.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace varifocal::kernels {

// The levels of a combination, such as {"head_dim=64", "window=100"}; in any order, each once.
using Levels = std::vector<std::string>;

// Indices, in increasing order, of combinations that together have every pair of levels that any of them has. The same for the
// same input.
std::vector<size_t> CoveringDesign(const std::vector<Levels>& combinations);

// Pairs of levels that `all` has and the combinations at `chosen` lack.
size_t MissingPairs(const std::vector<Levels>& all, const std::vector<size_t>& chosen);  // for tests

}  // namespace varifocal::kernels
