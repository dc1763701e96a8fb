// The engine's parts alone: pages, prefix cache, sampler, stop strings. Small cases whose right answers are said here.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/page_allocator.h"
#include "server/engine/prefix_cache.h"
#include "server/engine/sampler.h"
#include "server/engine/scheduler.h"

namespace varifocal {
namespace {

TEST(PageAllocatorTest, LowestIndexFirst) {
  PageAllocator pages(4);
  EXPECT_EQ(pages.Take(), 0);
  EXPECT_EQ(pages.Take(), 1);
  EXPECT_EQ(pages.Take(), 2);
  pages.Release(1);
  pages.Release(0);
  EXPECT_EQ(pages.Take(), 0);
  pages.Hold(2);
  pages.Release(2);
  EXPECT_EQ(pages.holders(2), 1);
  EXPECT_EQ(pages.Take(), 1);
  EXPECT_EQ(pages.Take(), 3);
  EXPECT_EQ(pages.Take(), std::nullopt);
}

std::vector<int32_t> Ids(int32_t first, size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = first + static_cast<int32_t>(i);
  return ids;
}

// Enters the pages of a prompt, then lets go of them, as a sequence does.
void Remember(PageAllocator& pages, PrefixCache& cache, const std::vector<Sha256Digest>& names,
              const std::vector<int32_t>& ids) {
  for (size_t i = 0; i < names.size(); ++i) {
    const int32_t page = *pages.Take();
    cache.Insert(names[i], static_cast<int64_t>(i), absl::MakeConstSpan(ids).subspan(i * 128, 128), page);
    pages.Release(page);
  }
}

TEST(PrefixCacheTest, NamesChain) {
  const Sha256Digest root = Sha256("root");
  const std::vector<int32_t> ids = Ids(0, 256);
  std::vector<int32_t> other = ids;
  other[0] = 99;
  EXPECT_EQ(NamePages(root, ids, 2)[0], NamePages(root, ids, 1)[0]);
  EXPECT_NE(NamePages(root, ids, 2)[1], NamePages(root, other, 2)[1]);  // same second page, other first
  EXPECT_NE(NamePages(root, ids, 1)[0], NamePages(Sha256("other root"), ids, 1)[0]);
}

TEST(PrefixCacheTest, OldestLeavesFirstAndTheEndOfAPromptBeforeItsBeginning) {
  PageAllocator pages(4);
  PrefixCache cache(&pages);
  const std::vector<int32_t> a = Ids(0, 256), b = Ids(1000, 256);
  const auto names_a = NamePages(Sha256("r"), a, 2), names_b = NamePages(Sha256("r"), b, 2);
  Remember(pages, cache, names_a, a);
  Remember(pages, cache, names_b, b);
  EXPECT_EQ(pages.free_count(), 0);
  EXPECT_EQ(cache.evictable_count(), 4);
  // Use a: b is now the older one.
  for (const int32_t page : cache.Acquire(names_a, a)) pages.Release(page);
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_TRUE(cache.Contains(names_b[0]) != cache.Contains(names_b[1]));
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_FALSE(cache.Contains(names_b[0]) || cache.Contains(names_b[1]));
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_TRUE(cache.Contains(names_a[0]));
  EXPECT_FALSE(cache.Contains(names_a[1]));
}

TEST(PrefixCacheTest, PagesInUseStay) {
  PageAllocator pages(2);
  PrefixCache cache(&pages);
  const std::vector<int32_t> a = Ids(0, 256);
  const auto names = NamePages(Sha256("r"), a, 2);
  Remember(pages, cache, names, a);
  const std::vector<int32_t> held = cache.Acquire(absl::MakeConstSpan(names).subspan(0, 1), a);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_TRUE(cache.EvictOne());   // the second page
  EXPECT_FALSE(cache.EvictOne());  // the first is held
  pages.Release(held[0]);
  EXPECT_TRUE(cache.EvictOne());
  EXPECT_EQ(pages.free_count(), 2);
}

TEST(PrefixCacheTest, IdsAreComparedEvenWhenTheNameAgrees) {
  PageAllocator pages(1);
  PrefixCache cache(&pages);
  const std::vector<int32_t> a = Ids(0, 128), b = Ids(5, 128);
  const auto names = NamePages(Sha256("r"), a, 1);
  Remember(pages, cache, names, a);
  EXPECT_TRUE(cache.Acquire(names, b).empty());
}

TEST(SamplerTest, SameSeedAndPositionSameToken) {
  const std::vector<float> logits = {0, 1, 2, 3, 2, 1};
  for (int64_t position = 0; position < 50; ++position) {
    EXPECT_EQ(SampleToken(logits, {.temperature = 1, .seed = 3}, position),
              SampleToken(logits, {.temperature = 1, .seed = 3}, position));
  }
}

// 20,000 draws; the share of each token lies within five standard deviations of its probability.
TEST(SamplerTest, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f};
  const double temperature = 0.8;
  std::vector<double> probabilities;
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / temperature);
  for (const float logit : logits) probabilities.push_back(std::exp(logit / temperature) / total);
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(SampleToken(logits, {.temperature = temperature, .seed = 11}, i))];
  for (size_t id = 0; id < logits.size(); ++id) {
    const double p = probabilities[id];
    EXPECT_NEAR(counts[id] / static_cast<double>(kDraws), p, 5 * std::sqrt(p * (1 - p) / kDraws)) << id;
  }
}

TEST(SamplerTest, TopPKeepsTheSmallestSetThatHoldsIt) {
  // Probabilities 0.5, 0.25, 0.125, 0.125: top_p 0.5 keeps one token, 0.51 two, 0.76 three (the lower id of equals).
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.125f), std::log(0.25f)};
  auto kept = [&](double top_p) {
    std::vector<bool> seen(4);
    for (int i = 0; i < 3000; ++i)
      seen[static_cast<size_t>(SampleToken(logits, {.temperature = 1, .top_p = top_p, .seed = 1}, i))] = true;
    return seen;
  };
  EXPECT_EQ(kept(0.4), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(kept(0.6), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(kept(0.8), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(kept(1.0), (std::vector<bool>{true, true, true, true}));
}

TEST(StopTest, TheEarliestWins) {
  std::string text = "one two three", matched;
  EXPECT_FALSE(CutAtStop({"four"}, &text, &matched));
  EXPECT_TRUE(CutAtStop({"three", "two"}, &text, &matched));
  EXPECT_EQ(text, "one ");
  EXPECT_EQ(matched, "two");
}

}  // namespace
}  // namespace varifocal
