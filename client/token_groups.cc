#include "client/token_groups.h"

#include <algorithm>
#include <map>

#include "base/random.h"

namespace varifocal::client {
namespace {

int64_t Largest(const ClassCounts& counts) { return *std::max_element(counts.begin(), counts.end()); }

std::vector<ClassCounts> CountClasses(const std::vector<uint32_t>& groups, size_t group_count,
                                      const std::vector<WordClass>& classes) {
  std::vector<ClassCounts> counts(group_count, ClassCounts{});
  for (size_t i = 0; i < groups.size(); ++i) {
    for (uint32_t left = groups[i]; left != 0; left &= left - 1)
      ++counts[__builtin_ctz(left)][static_cast<size_t>(classes[i])];
  }
  return counts;
}

double Share(int64_t part, int64_t whole) { return whole == 0 ? 0 : static_cast<double>(part) / whole; }

}  // namespace

WordClass TokenGroup::top_class() const {
  return static_cast<WordClass>(std::max_element(classes.begin(), classes.end()) - classes.begin());
}

LayerOfGroups DescribeGroups(const std::vector<uint32_t>& groups, int group_count,
                             const std::vector<std::string>& tokens, const std::vector<WordClass>& classes) {
  const size_t count = group_count;
  LayerOfGroups layer;
  layer.groups.resize(count);
  std::vector<std::map<std::string, int64_t>> words(count);
  for (size_t i = 0; i < groups.size(); ++i) {
    for (uint32_t left = groups[i]; left != 0; left &= left - 1) {
      const size_t group = __builtin_ctz(left);
      ++words[group][tokens[i]];
      ++layer.groups[group].token_count;
    }
  }
  int64_t held = 0, pure = 0, shuffled_pure = 0;
  const std::vector<ClassCounts> counts = CountClasses(groups, count, classes);
  std::vector<int64_t> shuffled(count);
  std::vector<WordClass> moved = classes;
  Random random("shuffled word classes");
  for (int shuffle = 0; shuffle < kShuffleCount; ++shuffle) {
    random.Shuffle(moved);
    const std::vector<ClassCounts> at_random = CountClasses(groups, count, moved);
    for (size_t g = 0; g < count; ++g) shuffled[g] += Largest(at_random[g]);
  }
  for (size_t g = 0; g < count; ++g) {
    TokenGroup& group = layer.groups[g];
    group.classes = counts[g];
    group.purity = Share(Largest(counts[g]), group.token_count);
    group.shuffled_purity = Share(shuffled[g], group.token_count * kShuffleCount);
    held += group.token_count;
    pure += Largest(counts[g]);
    shuffled_pure += shuffled[g];
    group.common.assign(words[g].begin(), words[g].end());
    std::stable_sort(group.common.begin(), group.common.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    if (group.common.size() > kCommonTokensMax) group.common.resize(kCommonTokensMax);
  }
  layer.purity = Share(pure, held);
  layer.shuffled_purity = Share(shuffled_pure, held * kShuffleCount);
  return layer;
}

}  // namespace varifocal::client
