// Unique words of a context: pairs of the lexicon such as amber-falcon, and longer ones when these are exhausted.
//
// All pairs are used before the first word of three parts (falcon-amber-calm), which contains no pair. A context of a
// million tokens may need more than the 52,900 pairs; shorter ones use only pairs.
//
// Cost: a few nanoseconds per try, and as many tries as there are pairs for the last of them; at most
//       kDistinctTriesMax.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace varifocal {

inline constexpr int kDistinctTriesMax = 1 << 20;

// A draw that is not in `used`, inserted into it. For spaces far larger than the number of draws: with half of it used,
// the tries are exhausted with probability 10^-300,000.
template <typename Set, typename Draw>
typename Set::value_type DrawUnused(Set& used, const Draw& draw) {
  for (int tries = 0; tries < kDistinctTriesMax; ++tries) {
    typename Set::value_type drawn = draw();
    if (used.insert(drawn).second) return drawn;
  }
  VF_CHECK(false, "the space is far larger than what is drawn from it");
}

std::string DrawPair(Random& random);  // any

class DistinctWords {
 public:
  DistinctWords();

  std::string Draw(Random& random);  // distinct from all earlier ones

 private:
  std::vector<bool> is_used_;  // of the pairs
  size_t free_pair_count_;
  std::unordered_set<size_t> used_threes_;
};

}  // namespace varifocal
