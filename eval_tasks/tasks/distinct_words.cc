#include "eval_tasks/tasks/distinct_words.h"

#include "absl/strings/str_cat.h"
#include "eval_tasks/tasks/lexicon.h"

namespace varifocal {
namespace {

size_t PairCount() { return TheLexicon().first.size() * TheLexicon().second.size(); }

size_t DrawPairIndex(Random& random) {
  const size_t first = random.Below(TheLexicon().first.size());
  return first * TheLexicon().second.size() + random.Below(TheLexicon().second.size());
}

std::string PairText(size_t pair) {
  const Lexicon& words = TheLexicon();
  return absl::StrCat(words.first[pair / words.second.size()], "-", words.second[pair % words.second.size()]);
}

}  // namespace

std::string DrawPair(Random& random) { return PairText(DrawPairIndex(random)); }

DistinctWords::DistinctWords() : is_used_(PairCount()), free_pair_count_(is_used_.size()) {}

std::string DistinctWords::Draw(Random& random) {
  if (free_pair_count_ == 0) {
    const std::vector<std::string>& first = TheLexicon().first;
    const std::vector<std::string>& second = TheLexicon().second;
    const size_t count = first.size() * first.size() * second.size();
    const size_t three = DrawUnused(used_threes_, [&] { return random.Below(count); });
    // No word of `first` precedes one of `second`, so it contains no pair.
    return absl::StrCat(second[three % second.size()], "-", first[three / second.size() % first.size()], "-",
                        first[three / second.size() / first.size()]);
  }
  size_t pair = DrawPairIndex(random);
  for (int tries = 1; is_used_[pair] && tries < kDistinctTriesMax; ++tries) pair = DrawPairIndex(random);
  while (is_used_[pair]) pair = (pair + 1) % is_used_.size();  // one is free
  is_used_[pair] = true;
  --free_pair_count_;
  return PairText(pair);
}

}  // namespace varifocal
