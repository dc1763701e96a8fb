// Unit tests of the engine's parts: pages and their arithmetic, prefix cache, sampler, stop strings. Small cases with
// literal expected values.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "server/engine/estimate.h"
#include "server/engine/memory_ledger.h"
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
  for (size_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

// Inserts the pages of a prompt, then releases them, as a sequence does.
void Remember(std::vector<PageAllocator>& pages, PrefixCache& cache, const std::vector<Sha256Digest>& names,
              const std::vector<int32_t>& ids, size_t window_pages_from = 0) {
  for (size_t i = 0; i < names.size(); ++i) {
    for (size_t group = 0; group < pages.size(); ++group) {
      if (group > 0 && i < window_pages_from) continue;
      const int32_t page = *pages[group].Take();
      cache.Insert(names[i], i, absl::MakeConstSpan(ids).subspan(i * 128, 128), group, page);
      pages[group].Release(page);
    }
  }
}

const std::vector<PageGroupShape> kFullAlone = {{.page_bytes = 1}};
const std::vector<PageGroupShape> kFullAndWindow = {{.page_bytes = 1}, {.window = 200, .page_bytes = 4}};

TEST(PrefixCacheTest, NamesAreChained) {
  const Sha256Digest root = Sha256("root");
  const std::vector<int32_t> ids = Ids(0, 256);
  std::vector<int32_t> other = ids;
  other[0] = 99;
  EXPECT_EQ(HashPages(root, ids, 2)[0], HashPages(root, ids, 1)[0]);
  EXPECT_NE(HashPages(root, ids, 2)[1], HashPages(root, other, 2)[1]);  // same second page, other first
  EXPECT_NE(HashPages(root, ids, 1)[0], HashPages(Sha256("other root"), ids, 1)[0]);
}

TEST(PrefixCacheTest, EvictsLeastRecentlyUsedAndTheEndOfAPromptFirst) {
  std::vector<PageAllocator> pages = {PageAllocator(4)};
  PrefixCache cache(&pages, kFullAlone);
  const std::vector<int32_t> a = Ids(0, 256), b = Ids(1000, 256);
  const auto names_a = HashPages(Sha256("r"), a, 2), names_b = HashPages(Sha256("r"), b, 2);
  Remember(pages, cache, names_a, a);
  Remember(pages, cache, names_b, b);
  EXPECT_EQ(pages[0].free_count(), 0);
  EXPECT_EQ(pages[0].idle_count(), 4);
  // Use a: b is now the older one.
  const auto held = cache.Acquire(names_a, a);
  for (const int32_t page : held[0]) pages[0].Release(page);
  EXPECT_TRUE(cache.EvictOne(0));
  EXPECT_TRUE(cache.Contains(names_b[0]) != cache.Contains(names_b[1]));
  EXPECT_TRUE(cache.EvictOne(0));
  EXPECT_FALSE(cache.Contains(names_b[0]) || cache.Contains(names_b[1]));
  EXPECT_TRUE(cache.EvictOne(0));
  EXPECT_TRUE(cache.Contains(names_a[0]));
  EXPECT_FALSE(cache.Contains(names_a[1]));
}

TEST(PrefixCacheTest, PagesInUseAreNotEvicted) {
  std::vector<PageAllocator> pages = {PageAllocator(2)};
  PrefixCache cache(&pages, kFullAlone);
  const std::vector<int32_t> a = Ids(0, 256);
  const auto names = HashPages(Sha256("r"), a, 2);
  Remember(pages, cache, names, a);
  const std::vector<int32_t> held = cache.Acquire(absl::MakeConstSpan(names).subspan(0, 1), a)[0];
  ASSERT_EQ(held.size(), 1u);
  EXPECT_TRUE(cache.EvictOne(0));   // the second page
  EXPECT_FALSE(cache.EvictOne(0));  // the first is held
  pages[0].Release(held[0]);
  EXPECT_TRUE(cache.EvictOne(0));
  EXPECT_EQ(pages[0].free_count(), 2);
}

TEST(PrefixCacheTest, IdsAreComparedEvenIfTheNameMatches) {
  std::vector<PageAllocator> pages = {PageAllocator(1)};
  PrefixCache cache(&pages, kFullAlone);
  const std::vector<int32_t> a = Ids(0, 128), b = Ids(5, 128);
  const auto names = HashPages(Sha256("r"), a, 1);
  Remember(pages, cache, names, a);
  EXPECT_EQ(cache.ReusablePageCount(names, b), 0);
  EXPECT_TRUE(cache.Acquire(names, b)[0].empty());
}

// A window of 200 extends two pages back from a page boundary: positions 128 n - 199 and later.
TEST(PrefixCacheTest, AHitNeedsTheWindowsPagesBeforeIt) {
  std::vector<PageAllocator> pages = {PageAllocator(8), PageAllocator(8)};
  PrefixCache cache(&pages, kFullAndWindow);
  const std::vector<int32_t> ids = Ids(0, 6 * 128);
  const auto names = HashPages(Sha256("r"), ids, 6);
  Remember(pages, cache, names, ids, /*window_pages_from=*/3);  // window pages 3, 4, 5
  auto reusable = [&](size_t count) {
    return cache.ReusablePageCount(absl::MakeConstSpan(names).subspan(0, count), ids);
  };
  EXPECT_EQ(reusable(6), 6);
  EXPECT_EQ(reusable(5), 5) << "pages 3 and 4";
  EXPECT_EQ(reusable(4), 0) << "page 2 was released: no reusable prefix of 4 or fewer pages";
  const auto held = cache.Acquire(names, ids);
  EXPECT_EQ(held[1], (std::vector<int32_t>{-1, -1, -1, -1, held[1][4], held[1][5]}));
  EXPECT_EQ(std::count(held[0].begin(), held[0].end(), -1), 0);
  EXPECT_TRUE(cache.EvictOne(1)) << "window page 3 is idle";
  EXPECT_FALSE(cache.EvictOne(1)) << "the others are held";
  EXPECT_EQ(reusable(5), 0);
  EXPECT_EQ(reusable(6), 6);
  for (size_t group = 0; group < 2; ++group) {
    for (const int32_t page : held[group]) {
      if (page >= 0) pages[group].Release(page);
    }
  }
  EXPECT_TRUE(cache.EvictOne(0)) << "full page 5 is evicted with its window page";
  EXPECT_EQ(pages[1].idle_count(), 1);
  EXPECT_EQ(reusable(6), 0);
  cache.Clear();
  EXPECT_EQ(pages[0].free_count(), 8);
  EXPECT_EQ(pages[1].free_count(), 8);
}

TEST(PrefixCacheTest, WindowsAloneNeedNoEarlierPages) {
  std::vector<PageAllocator> pages = {PageAllocator(8)};
  PrefixCache cache(&pages, {{.window = 200, .page_bytes = 1}});
  const std::vector<int32_t> ids = Ids(0, 6 * 128);
  const auto names = HashPages(Sha256("r"), ids, 6);
  for (const size_t at : {4u, 5u}) {
    const int32_t page = *pages[0].Take();
    cache.Insert(names[at], at, absl::MakeConstSpan(ids).subspan(at * 128, 128), 0, page);
    pages[0].Release(page);
  }
  EXPECT_EQ(cache.ReusablePageCount(names, ids), 6);
  EXPECT_EQ(cache.Acquire(names, ids)[0][3], -1);
  EXPECT_EQ(cache.ReusablePageCount(absl::MakeConstSpan(names).subspan(0, 5), ids), 0);
}

// ---- Page counts ----

// The first page visible to a row, by enumeration of its keys.
TEST(PageGroupTest, FirstPageIsThatOfTheOldestKey) {
  for (const int64_t window : {1, 2, 127, 128, 129, 200, 256, 512, 513}) {
    const PageGroupShape group{.window = window, .page_bytes = 1};
    int64_t most = 0;
    for (int64_t position = 0; position < 2000; ++position) {
      int64_t oldest = position;
      while (oldest > 0 && position - (oldest - 1) < window) --oldest;
      EXPECT_EQ(group.FirstPage(position), oldest / 128) << window << " at " << position;
      most = std::max(most, position / 128 - oldest / 128);
    }
    EXPECT_EQ(group.PagesBefore(), most) << window;
  }
}

TEST(PageGroupTest, LearnedTauReadsThePageBefore) {
  const PageGroupShape group{.window = 1, .page_bytes = 1, .reads_previous_page = true};
  EXPECT_EQ(group.PagesBefore(), 1);
  EXPECT_EQ(group.FirstPage(127), 0);
  EXPECT_EQ(group.FirstPage(128), 0);
  EXPECT_EQ(group.FirstPage(256), 1);
}

TEST(PageGroupTest, LongPromptsNeedAFixedNumberOfWindowPages) {
  const PageGroupShape full{.page_bytes = 1}, window{.window = 512, .page_bytes = 1};
  const SequenceExtent small{.prompt_rows = 100, .later_rows = 28, .step_rows_max = 512, .shares_prefix = true};
  EXPECT_EQ(PagesAtOnce(full, small), 1);
  EXPECT_EQ(PagesAtOnce(window, small), 1);
  SequenceExtent large{.prompt_rows = 32768, .later_rows = 128, .step_rows_max = 512};
  EXPECT_EQ(PagesAtOnce(full, large), 257);
  EXPECT_EQ(PagesAtOnce(window, large), 4 + 5) << "four before, and five that 512 rows can touch";
  large.step_rows_max = 128;
  EXPECT_EQ(PagesAtOnce(window, large), 4 + 2);
  large.shares_prefix = true;
  EXPECT_EQ(PagesAtOnce(window, large), 4 + kQuestionPages + 1);
  large.later_rows = 2000;
  EXPECT_EQ(PagesAtOnce(window, large), 4 + kQuestionPages + 1) << "generated: one row at a time";
  large.rewinds = true;
  EXPECT_EQ(PagesAtOnce(window, large), 4 + 17) << "continuations: 2,000 rows from the prompt's end, repeatedly";
}

// For all budgets: never exceeded, and one full context has priority.
TEST(PageGroupTest, BytesAreDistributed) {
  const std::vector<PageGroupShape> groups = {{.page_bytes = 3}, {.window = 512, .page_bytes = 15}};
  PageBudget budget{.context_tokens_max = 32768, .step_rows_max = 512, .contexts_max = 4, .sequences_max = 16};
  int64_t longest_before = 0;
  for (int64_t bytes = 0; bytes < 20000; bytes += 7) {
    budget.bytes = bytes;
    const std::vector<int64_t> counts = SharePages(groups, budget);
    ASSERT_EQ(counts.size(), 2u);
    if (bytes < 18) {
      EXPECT_LT(counts[0], 1) << bytes;
      continue;
    }
    EXPECT_LE(3 * counts[0] + 15 * counts[1], bytes);
    EXPECT_LE(counts[0], 4 * 256);
    EXPECT_LE(counts[1], counts[0]);
    const int64_t longest = LongestSequence(groups, counts, 32768, 512);
    EXPECT_GE(longest, longest_before);
    longest_before = longest;
    if (bytes >= 3 * 256 + 15 * 9) {
      EXPECT_EQ(longest, 32768) << bytes;
    }
  }
  EXPECT_EQ(longest_before, 32768);
  budget.bytes = 1 << 20;
  EXPECT_EQ(SharePages(groups, budget), (std::vector<int64_t>{1024, 180})) << "four contexts, twenty windows of nine";
  budget.contexts_max = 0;
  EXPECT_GT(SharePages(groups, budget)[0], 1024) << "requested: all of it";
  EXPECT_EQ(SharePages({{.page_bytes = 5}}, {.bytes = 54, .context_tokens_max = 4096}), (std::vector<int64_t>{10}));
  const std::vector<int64_t> windows =
      SharePages({{.window = 512, .page_bytes = 5}}, {.bytes = 31, .context_tokens_max = 4096, .step_rows_max = 512});
  EXPECT_EQ(windows, (std::vector<int64_t>{6}));
}

// ---- Memory ----

TEST(MemoryLedgerTest, ReservationsCountUntilWritten) {
  MemoryLedger ledger;
  EXPECT_EQ(ledger.FreeAfterReservations(100), 100);
  auto a = ledger.Add({.what = "a", .weight_bytes = 7, .cache_bytes = 40});
  EXPECT_EQ(ledger.FreeAfterReservations(100), 60);
  {
    const auto b = ledger.Add({.what = "b", .buffer_bytes = 3, .cache_bytes = 50, .touched_bytes = 50});
    EXPECT_EQ(ledger.FreeAfterReservations(100), 60) << "b has its reservation";
    EXPECT_EQ(ledger.ToString(),
              "a: 7 bytes of weights, 0 of buffers, 40 reserved for its cache; "
              "b: 0 bytes of weights, 3 of buffers, 50 reserved for its cache");
  }
  a->SetTouched(30);
  EXPECT_EQ(ledger.FreeAfterReservations(100), 90);
  EXPECT_EQ(ledger.FreeAfterReservations(5), 0);
  a.reset();
  EXPECT_EQ(ledger.FreeAfterReservations(100), 100);
}

int32_t SampleToken(const std::vector<float>& logits, const Sampling& sampling, uint64_t seed, int64_t position) {
  return kernels::DrawToken(logits, MakeDraw(sampling, seed, position)).token;
}

ModelConfig TimedConfig() {
  ModelConfig config;
  config.vocabulary_size = 10;
  config.width = 8;
  config.head_count = 2;
  config.head_width = 4;
  config.max_position = 16384;
  config.page_groups = {{.window = 0, .layer_count = 1}};
  return config;
}

// A machine at times five times slower, the run after the warm-up among them, gives the estimate of an idle machine.
TEST(EstimateTest, SlowRunsDoNotDecideTheRate) {
  const ModelConfig config = TimedConfig();
  int runs = 0;
  // Microseconds: 4 a row and 1 for 100 visible keys.
  const auto prefill_us = [](double n) { return 4 * n + n * (n + 1) / 2 / 100; };
  const auto rates_with = [&](auto is_slow) {
    runs = 0;
    return MeasureCostRates(config, 1000, 16384, [&](const EngineRequest& request) -> absl::StatusOr<EngineResult> {
      const int64_t factor = is_slow(runs++) ? 5 : 1;
      EngineResult result;
      result.prefill_us = factor * std::llround(prefill_us(request.token_ids.size()));
      result.decode_us = factor * 100;
      return result;
    });
  };
  const absl::StatusOr<CostRates> idle = rates_with([](int) { return false; });
  ASSERT_TRUE(idle.ok()) << idle.status();
  EXPECT_EQ(runs, 8 + 3) << "short and long requests";
  // Rows and keys have rates of their own, so a length that was not timed is right.
  for (const int64_t length : {2048, 16000})
    EXPECT_NEAR(EstimateSeconds(*idle, length, 1, 0), 1e-6 * prefill_us(length), 1e-5) << length;
  const absl::StatusOr<CostRates> busy = rates_with([](int run) { return run % 3 == 1; });
  ASSERT_TRUE(busy.ok()) << busy.status();
  EXPECT_DOUBLE_EQ(EstimateSeconds(*busy, 2000, 50, 0), EstimateSeconds(*idle, 2000, 50, 0));
  // Always slow: a slow machine.
  const absl::StatusOr<CostRates> slow = rates_with([](int) { return true; });
  ASSERT_TRUE(slow.ok()) << slow.status();
  EXPECT_NEAR(EstimateSeconds(*slow, 2000, 50, 0), 5 * EstimateSeconds(*idle, 2000, 50, 0), 1e-5);
}

// Two times that no pair of positive rates explains: one rate, that of the longer prompt.
TEST(EstimateTest, OneRateWhereTwoAreNotSeen) {
  const ModelConfig config = TimedConfig();
  const auto rates = MeasureCostRates(config, 1000, 16384, [&](const EngineRequest& request) {
    EngineResult result;
    result.prefill_us = request.token_ids.size() < 1000 ? 2000 : 4000;
    result.decode_us = 100;
    return absl::StatusOr<EngineResult>(result);
  });
  ASSERT_TRUE(rates.ok()) << rates.status();
  EXPECT_DOUBLE_EQ(rates->prefill_weight_operations_per_s, rates->prefill_key_operations_per_s);
  EXPECT_NEAR(EstimateSeconds(*rates, 8192, 1, 0), 0.004, 1e-9);
}

TEST(SamplerTest, DrawsDependOnSeedAndPosition) {
  const kernels::TokenDraw draw = MakeDraw({.temperature = 0.5, .top_p = 0.9, .top_k = 20, .min_p = 0.1}, 3, 7);
  EXPECT_EQ(draw.temperature, 0.5);
  EXPECT_EQ(draw.top_p, 0.9);
  EXPECT_EQ(draw.top_k, 20);
  EXPECT_EQ(draw.min_p, 0.1);
  EXPECT_EQ(draw.uniform, MakeDraw({.temperature = 2}, 3, 7).uniform);
  EXPECT_NE(draw.uniform, MakeDraw({.temperature = 0.5}, 4, 7).uniform);
  EXPECT_NE(draw.uniform, MakeDraw({.temperature = 0.5}, 3, 8).uniform);
  EXPECT_EQ(MakeDraw({.temperature = 0}, 3, 7).temperature, 0);
}

// 20,000 draws; the frequency of each token is within five standard deviations of its probability.
TEST(SamplerTest, DrawsFollowTheDistribution) {
  const std::vector<float> logits = {0.0f, 1.0f, -1.0f, 2.0f};
  const double temperature = 0.8;
  std::vector<double> probabilities;
  double total = 0;
  for (const float logit : logits) total += std::exp(logit / temperature);
  for (const float logit : logits) probabilities.push_back(std::exp(logit / temperature) / total);
  constexpr int kDraws = 20000;
  std::vector<int> counts(logits.size());
  for (int i = 0; i < kDraws; ++i) ++counts[SampleToken(logits, {.temperature = temperature}, 11, i)];
  for (size_t id = 0; id < logits.size(); ++id) {
    const double p = probabilities[id];
    EXPECT_NEAR(counts[id] / double{kDraws}, p, 5 * std::sqrt(p * (1 - p) / kDraws)) << id;
  }
}

TEST(SamplerTest, TopPKeepsTheSmallestSufficientSet) {
  // Probabilities 0.5, 0.25, 0.125, 0.125: top_p 0.5 keeps one token, 0.51 two, 0.76 three (the lower id of equals).
  const std::vector<float> logits = {std::log(0.125f), std::log(0.5f), std::log(0.125f), std::log(0.25f)};
  auto kept = [&](double top_p) {
    std::vector<bool> seen(4);
    for (int i = 0; i < 3000; ++i) seen[SampleToken(logits, {.temperature = 1, .top_p = top_p}, 1, i)] = true;
    return seen;
  };
  EXPECT_EQ(kept(0.4), (std::vector<bool>{false, true, false, false}));
  EXPECT_EQ(kept(0.6), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(kept(0.8), (std::vector<bool>{true, true, false, true}));
  EXPECT_EQ(kept(1.0), (std::vector<bool>{true, true, true, true}));
}

TEST(StopTest, TheEarliestMatchApplies) {
  std::string text = "one two three", matched;
  EXPECT_FALSE(CutAtStop({"four"}, &text, &matched));
  EXPECT_TRUE(CutAtStop({"three", "two"}, &text, &matched));
  EXPECT_EQ(text, "one ");
  EXPECT_EQ(matched, "two");
}

}  // namespace
}  // namespace varifocal
