// Covering designs against the definition, on full products whose smallest designs are known, and the design of the conformance
// table: no pair of levels of the full product is missing. The control drops a combination.

#include "kernels/conformance/covering.h"

#include <gtest/gtest.h>

#include "kernels/conformance/cases.h"

namespace varifocal::kernels {
namespace {

// Every combination of the factors' levels.
std::vector<Levels> FullProduct(const std::vector<int>& level_counts) {
  std::vector<Levels> all = {{}};
  for (size_t factor = 0; factor < level_counts.size(); ++factor) {
    std::vector<Levels> longer;
    for (const Levels& levels : all) {
      for (int level = 0; level < level_counts[factor]; ++level) {
        longer.push_back(levels);
        longer.back().push_back(std::to_string(factor) + "=" + std::to_string(level));
      }
    }
    all = std::move(longer);
  }
  return all;
}

TEST(CoveringDesignTest, HasEveryPairInFewCombinations) {
  const struct {
    std::vector<int> level_counts;
    size_t count_max;  // the two largest factors' product is the least
  } rows[] = {{{5}, 5}, {{4, 3}, 12}, {{2, 2, 2}, 6}, {{4, 4, 4, 4}, 24}, {{7, 5, 4, 3, 2}, 42}};
  for (const auto& row : rows) {
    const std::vector<Levels> all = FullProduct(row.level_counts);
    const std::vector<size_t> chosen = CoveringDesign(all);
    EXPECT_EQ(MissingPairs(all, chosen), 0u) << row.level_counts.size() << " factors";
    EXPECT_LE(chosen.size(), row.count_max) << row.level_counts.size() << " factors";
    EXPECT_EQ(chosen, CoveringDesign(all));
    // With one or two factors every combination is needed.
    if (row.level_counts.size() < 3) {
      EXPECT_GT(MissingPairs(all, {chosen.begin() + 1, chosen.end()}), 0u) << "a design without a combination";
    }
  }
}

TEST(CoveringDesignTest, TakesOneOfEqualCombinationsAndNoneOfNothing) {
  const std::vector<size_t> chosen = CoveringDesign({{"a"}, {"a"}, {"b"}, {"a"}});
  ASSERT_EQ(chosen.size(), 2u);
  EXPECT_TRUE(chosen[0] == 2 || chosen[1] == 2);
  EXPECT_TRUE(CoveringDesign({}).empty());
  EXPECT_TRUE(CoveringDesign({{}}).empty());
}

// Every case of attention is run in each number format and by each instruction set, and every two levels that meet in a case of
// groups meet in a chosen one.
TEST(CoveringDesignTest, OfTheConformanceTableIsComplete) {
  const std::vector<Levels> all = LevelsOnBackends(AllCases(), TestedBackends());
  const std::vector<size_t> chosen = CoveringDesign(all);
  EXPECT_EQ(MissingPairs(all, chosen), 0u);
  // With portable kernels alone, most cases outside of products are needed, in each number format.
  EXPECT_LT(chosen.size(), all.size() * 9 / 10) << "hardly less than the full product";
  const std::vector<size_t> half(chosen.begin(), chosen.begin() + chosen.size() / 2);
  EXPECT_GT(MissingPairs(all, half), 0u);
}

}  // namespace
}  // namespace varifocal::kernels
