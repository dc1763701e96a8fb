// Shares of a prompt's learned groups: counted pair by pair, compared with the golden files of an independent
// implementation, and unchanged by chunks and prefix reuse.
#include "server/engine/group_shares.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/engine.h"
#include "server/engine/engine_testing.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal {
namespace {

std::vector<uint32_t> RandomGroups(const std::string& name, size_t count, uint64_t group_count, int top_k) {
  Random random(name);
  std::vector<uint32_t> groups(count);
  for (uint32_t& set : groups) {
    while (__builtin_popcount(set) < top_k) set |= uint32_t{1} << random.Below(group_count);
  }
  return groups;
}

// Sets of three or four of 32 are so many that they are counted by subsets.
TEST(GroupSharesTest, CountsWhatATestOfEveryPairCounts) {
  for (const auto& [group_count, top_k] :
       std::vector<std::pair<int, int>>{{1, 1}, {4, 1}, {8, 2}, {8, 4}, {32, 2}, {32, 3}, {32, 4}}) {
    for (const int32_t window : {0, 1, 7, 1499, 1500, INT32_MAX}) {
      LayerGroups layer{.group_count = group_count};
      layer.groups = RandomGroups("pairs", 1500, group_count, top_k);
      uint64_t visible = 0, largest = 0;
      for (size_t i = 0; i < layer.groups.size(); ++i) {
        for (size_t j = 0; j <= i; ++j)
          visible += i - j <= static_cast<size_t>(window) || (layer.groups[i] & layer.groups[j]) != 0;
      }
      for (int g = 0; g < group_count; ++g) {
        uint64_t holders = 0;
        for (const uint32_t set : layer.groups) holders += set >> g & 1;
        largest = std::max(largest, holders);
      }
      CountGroups(window, layer);
      EXPECT_EQ(layer.visible_pair_count, visible) << group_count << ", " << top_k << ", " << window;
      EXPECT_EQ(layer.largest_group_count, largest) << group_count << ", " << top_k << ", " << window;
    }
  }
}

TEST(GroupSharesTest, AgreesWithTheIndependentImplementation) {
  for (const std::string name : {"llama-calibrated", "llama-paged", "llama-prompt", "llama-32-groups", "gpt2"}) {
    const std::string directory = GoldenDirectory("focus/" + name);
    auto engine = StartEngine(LoadForTest(directory));
    const Json golden = *ParseJson(*ReadFile(directory + "/golden.json", kDataFile));
    int compared = 0;
    for (const Json& run : golden["runs"]) {
      if (!run["focal_temperature"].is_null()) continue;
      AttentionOverrides overrides;
      if (!run["focus_top_k"].is_null()) overrides.push_back({"focus-top-k", run["focus_top_k"]});
      if (!run["focus_window"].is_null()) overrides.push_back({"focus-window", run["focus_window"]});
      ASSIGN_OR_FAIL(const auto result, engine->Run({.token_ids = run["token_ids"].get<std::vector<int32_t>>(),
                                                     .attention_overrides = overrides,
                                                     .keep_groups = true,
                                                     .work = ScoreTextWork{}}));
      double pairs = 0;
      for (const Json& share : run["pairs_visible"]) pairs += share.get<double>();
      pairs /= run["pairs_visible"].size();
      ASSERT_TRUE(result.pairs_visible_share.has_value()) << name;
      EXPECT_NEAR(*result.pairs_visible_share, pairs, 1e-9) << name;
      if (result.layer_groups.empty()) continue;  // groups that always meet are not computed
      const Json& largest = run["largest_group_share"];
      EXPECT_NEAR(result.largest_group_share.value_or(-1),
                  std::max_element(largest.begin(), largest.end())->get<double>(), 1e-9)
          << name;
      ASSERT_EQ(result.layer_groups.size(), run["groups"].size());
      for (size_t i = 0; i < run["groups"].size(); ++i) {
        auto groups = run["groups"][i].get<std::vector<uint32_t>>();
        groups.resize(run["token_ids"].size());  // those of the continuation follow
        EXPECT_EQ(result.layer_groups[i].groups, groups) << name;
        EXPECT_EQ(result.layer_groups[i].layer, run["focus_layers"][i].get<int64_t>());
      }
      ++compared;
    }
    EXPECT_GT(compared, 0) << name;
  }
}

TEST(GroupSharesTest, DoNotDependOnChunksOrPrefixReuse) {
  for (const char* golden : {"focus/llama-calibrated", "focus/llama-paged"}) {
    const std::vector<int32_t> ids = RandomIds("reuse", 900);
    const EngineRequest request{.token_ids = ids, .work = GenerateWork{.max_new_tokens = 3, .ignore_eos = true}};
    auto alone = StartEngine(LoadForTest(GoldenDirectory(golden)), {.prefix_cache = false});
    ASSIGN_OR_FAIL(const auto first, alone->Run(request));
    ASSERT_TRUE(first.pairs_visible_share.has_value() && first.largest_group_share.has_value());
    auto engine = StartEngine(LoadForTest(GoldenDirectory(golden)), {.prefill_chunk_tokens = 100});
    for (int pass = 0; pass < 2; ++pass) {
      ASSIGN_OR_FAIL(const auto again, engine->Run(request));
      EXPECT_EQ(again.cached_token_count > 0, pass == 1);
      EXPECT_EQ(again.pairs_visible_share, first.pairs_visible_share) << golden << ", pass " << pass;
      EXPECT_EQ(again.largest_group_share, first.largest_group_share) << golden << ", pass " << pass;
    }
    // The control: another last page is another share.
    EngineRequest other = request;
    for (size_t i = 800; i < ids.size(); ++i) other.token_ids[i] = 2 + (ids[i] + 7) % 100;
    EXPECT_NE(engine->Run(other)->pairs_visible_share, first.pairs_visible_share);
  }
}

TEST(GroupSharesTest, GroupsThatAlwaysMeetShowEveryPair) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focus/llama-calibrated")));
  const auto run = [&](int64_t top_k) {
    return *engine->Run(
        {.token_ids = RandomIds("all", 300), .attention_overrides = {{"focus-top-k", top_k}}, .work = ScoreTextWork{}});
  };
  EXPECT_EQ(run(8).pairs_visible_share, 1.0);
  EXPECT_EQ(run(8).largest_group_share, 1.0);
  EXPECT_EQ(run(5).pairs_visible_share, 1.0);
  EXPECT_FALSE(run(5).largest_group_share.has_value());
  EXPECT_LT(run(4).pairs_visible_share, 1.0);
  EXPECT_TRUE(run(4).largest_group_share.has_value());
}

TEST(GroupSharesTest, LayersWithAWindowAreLeftOutAndADenseModelHasNone) {
  auto dense = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  EXPECT_FALSE(dense->Run({.token_ids = {2, 3, 4}, .work = ScoreTextWork{}})->pairs_visible_share.has_value());
  auto windows = StartEngine(LoadForTest(GoldenDirectory("focus/mistral-window")));
  EXPECT_FALSE(windows->Run({.token_ids = {2, 3, 4}, .work = ScoreTextWork{}})->pairs_visible_share.has_value());
}

}  // namespace
}  // namespace varifocal
