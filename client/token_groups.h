// Statistics of a layer's learned groups: number of tokens, most frequent tokens, and purity by word class.
//
// A token that holds k groups counts in each of them. The purity of a group is the share of its tokens that have its most
// frequent word class, of a layer the same over all its groups. One class is always the most frequent, so purity is read
// beside that of shuffled classes: the same groups, classes moved at random among the tokens.
//
// Threads: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/word_classes.h"

namespace varifocal::client {

using ClassCounts = std::array<int64_t, kWordClassCount>;

struct TokenGroup {
  ClassCounts classes = {};
  int64_t token_count = 0;
  double purity = 0;
  double shuffled_purity = 0;
  std::vector<std::pair<std::string, int64_t>> common;  // its most frequent tokens

  WordClass top_class() const;
};

struct LayerOfGroups {
  std::vector<TokenGroup> groups;
  double purity = 0;
  double shuffled_purity = 0;
};

inline constexpr int kShuffleCount = 20;
inline constexpr size_t kCommonTokensMax = 12;

// `groups` is a bit mask per token; `tokens` and `classes` have the same length.
LayerOfGroups DescribeGroups(const std::vector<uint32_t>& groups, int group_count,
                             const std::vector<std::string>& tokens, const std::vector<WordClass>& classes);

}  // namespace varifocal::client
