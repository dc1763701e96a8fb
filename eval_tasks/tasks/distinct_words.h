// Words that come up once in a context: pairs of the lexicon such as amber-falcon, and more where these run out.
//
// Every pair is given before the first word of three parts (falcon-amber-calm), in which no pair stands. A context of
// a million tokens may need more than the 52,900 pairs; shorter ones see pairs alone.
//
// Cost: a few nanoseconds a try, and as many tries as there are pairs for the last of them; never more than
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

// What `draw` gives that `used` has not, and has from then on. Of a space far larger than what is ever drawn from it:
// half of it used, 1 in 10^300,000 comes to the end of the tries.
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

  std::string Draw(Random& random);  // another one than all before

 private:
  std::vector<bool> is_used_;  // of the pairs
  size_t free_pair_count_;
  std::unordered_set<size_t> used_threes_;
};

}  // namespace varifocal
