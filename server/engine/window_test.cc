// Window layers: page counts of prompts, cached prefixes, rejected requests. Counts are derived from the windows: a
// window of 64 extends one page back from a page boundary.
#include <cstdio>
#include <future>
#include <string>
#include <vector>

#include "base/reason.h"
#include "gmock/gmock.h"
#include "server/engine/engine_testing.h"
#include "server/engine/page_groups.h"
#include "server/model/transformer.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr char kWindows[] = "architectures/mistral-window";  // every layer
constexpr char kMixed[] = "architectures/gemma3-newer";      // every other layer
constexpr char kStates[] = "architectures/qwen3-5";          // recurrent layers beside full ones

GenerateWork WindowTokens(int64_t count) { return {.max_new_tokens = count, .ignore_eos = true}; }

// Window pages of a long prompt: one before, and five spanned by 512 rows, which also equals the last four pages, the
// one before them and the partial one.
constexpr int64_t kPagesAtOnce = 6;
constexpr int64_t kPagesKept = 1 + kQuestionPages;

TEST(WindowTest, ALongPromptNeedsFewPages) {
  TemporaryCheckpoint checkpoint(kWindows, "long");
  checkpoint.EditConfig("max_position_embeddings", 40960);
  auto model = LoadForTest(checkpoint.directory());
  const int64_t page = model->provenance().page_bytes;
  for (const int64_t chunk : {64, 512}) {
    auto engine = StartEngine(model, {.prefill_chunk_tokens = chunk, .kv_cache_bytes = 100 * page});
    const EngineRequest request{.token_ids = RandomIds("long", 32768 + 10), .work = WindowTokens(300)};
    const auto cold = engine->Run(request);
    ASSERT_TRUE(cold.ok()) << cold.status();
    const EngineStatus status = engine->Status();
    // One more during generation: the prompt's last pages are then held by the cache only.
    EXPECT_LE(status.cache_bytes_peak, (kPagesAtOnce + 1) * page) << "of 259 pages that 33,078 tokens fill";
    EXPECT_EQ(status.pages_used, 0);
    EXPECT_EQ(status.pages_cached, kPagesKept);
    EXPECT_EQ(engine->Estimate(32778, 300)->cache_bytes, kPagesAtOnce * page);
    const auto warm = engine->Run(request);
    EXPECT_EQ(warm->cached_token_count, 32768);
    EXPECT_EQ(AnswerBits(cold), AnswerBits(warm));
    std::printf("32,778 tokens and 300 new ones in chunks of %d: %d pages at most, %d kept\n", static_cast<int>(chunk),
                static_cast<int>(status.cache_bytes_peak / page), static_cast<int>(status.pages_cached));
  }
}

TEST(WindowTest, FullLayersKeepEveryPage) {
  TemporaryCheckpoint checkpoint(kMixed, "mixed");
  checkpoint.EditConfig("max_position_embeddings", 8192);
  auto model = LoadForTest(checkpoint.directory());
  const int64_t full = model->transformer().PageBytes(0), window = model->transformer().PageBytes(1);
  auto engine = StartEngine(model, {.kv_cache_bytes = 200 * (full + window)});
  ASSERT_TRUE(engine->Run({.token_ids = RandomIds("mixed", 4096), .work = WindowTokens(200)}).ok());
  EXPECT_LE(engine->Status().cache_bytes_peak, 34 * full + (kPagesAtOnce + 1) * window);
  EXPECT_EQ(engine->Status().pages_cached, 32 + kPagesKept);
  EXPECT_EQ(engine->Estimate(4096, 200)->cache_bytes, 34 * full + kPagesAtOnce * window);
}

// Requests that would not fit if every page were kept are served; errors of those that do not fit have both numbers.
TEST(WindowTest, AdmissionCountsHeldPages) {
  TemporaryCheckpoint checkpoint(kWindows, "admission");
  checkpoint.EditConfig("max_position_embeddings", 16384);
  auto model = LoadForTest(checkpoint.directory());
  const int64_t page = model->provenance().page_bytes;
  auto six = StartEngine(model, {.kv_cache_bytes = 6 * page});
  EXPECT_EQ(six->Describe().context_tokens_max, 16384);
  EXPECT_TRUE(six->Run({.token_ids = RandomIds("a", 10000), .work = WindowTokens(20)}).ok());
  auto five = StartEngine(model, {.kv_cache_bytes = 5 * page});
  EXPECT_EQ(five->Describe().context_tokens_max, 640);
  const auto refused = five->Run({.token_ids = RandomIds("a", 10000), .work = WindowTokens(20)});
  EXPECT_EQ(ReasonOf(refused.status()).name, "KV_CACHE_TOO_SMALL");
  EXPECT_THAT(refused.status().message(), Message(absl::StrCat(6 * page, " bytes"), 5 * page));
  // Each continuation begins at the prompt's end: all its pages are held at once.
  EXPECT_TRUE(six->Run({.token_ids = RandomIds("a", 1000),
                        .work = ScoreContinuationsWork{{RandomIds("c", 500), RandomIds("d", 300), RandomIds("e", 20)}}})
                  .ok());
  EXPECT_EQ(
      ReasonOf(six->Run({.token_ids = RandomIds("a", 1000), .work = ScoreContinuationsWork{{RandomIds("c", 2000)}}})
                   .status())
          .name,
      "KV_CACHE_TOO_SMALL");
}

// A long prompt holds two states, whatever the chunk; five are kept for questions on it.
TEST(WindowTest, ALongPromptNeedsFewStates) {
  TemporaryCheckpoint checkpoint(kStates, "states");
  checkpoint.EditConfig("max_position_embeddings", 8192);
  auto model = LoadForTest(checkpoint.directory());
  const int64_t full = model->transformer().PageBytes(0), state = model->transformer().PageBytes(1);
  std::string first;
  for (const int64_t chunk : {64, 512, 4096}) {
    auto engine = StartEngine(model, {.prefill_chunk_tokens = chunk, .kv_cache_bytes = 100 * (full + state)});
    const EngineRequest request{.token_ids = RandomIds("long", 4096 + 10), .work = WindowTokens(200)};
    const auto cold = engine->Run(request);
    ASSERT_TRUE(cold.ok()) << cold.status();
    EXPECT_LE(engine->Status().cache_bytes_peak, 34 * full + (kPagesKept + 2) * state);
    EXPECT_EQ(engine->Status().pages_cached, 32 + kPagesKept);
    EXPECT_EQ(engine->Estimate(4106, 200)->cache_bytes, 34 * full + 2 * state);
    const auto warm = engine->Run(request);
    EXPECT_EQ(warm->cached_token_count, 4096);
    EXPECT_EQ(AnswerBits(cold), AnswerBits(warm));
    if (first.empty()) first = AnswerBits(cold);
    EXPECT_EQ(AnswerBits(cold), first) << chunk;
  }
}

TEST(WindowTest, QuestionsOnOneContextShareIt) {
  struct Row {
    size_t question_tokens;
    bool together;
    int64_t cached;  // by the second question and later ones
  };
  // Sequentially, only the last four pages of a prompt are reusable; concurrently, the first keeps its window pages for
  // the others.
  for (const Row& row :
       {Row{20, true, 1280}, Row{20, false, 1280}, Row{500, false, 1280}, Row{900, true, 1280}, Row{900, false, 0}}) {
    for (const char* golden : {kMixed, kWindows, kStates}) {
      TemporaryCheckpoint checkpoint(golden, "share");
      checkpoint.EditConfig("max_position_embeddings", 4096);
      auto engine = StartEngine(LoadForTest(checkpoint.directory()), {.prefill_chunk_tokens = 64});
      const std::vector<int32_t> context = RandomIds("context", 1280);
      std::vector<std::future<absl::StatusOr<EngineResult>>> results;
      std::promise<void> all_are_there;  // together: the first continues once the last has arrived
      for (size_t i = 0; i < 4; ++i) {
        std::vector<int32_t> ids = context;
        const std::vector<int32_t> question = RandomIds(absl::StrCat("question ", i), row.question_tokens);
        ids.insert(ids.end(), question.begin(), question.end());
        auto done = std::make_shared<std::promise<absl::StatusOr<EngineResult>>>();
        results.push_back(done->get_future());
        EngineCallbacks callbacks{.on_done = [done](auto result) { done->set_value(std::move(result)); }};
        if (row.together && i == 0)
          callbacks.on_progress = [arrived = all_are_there.get_future().share()](const auto&) { arrived.wait(); };
        ASSERT_TRUE(engine->Start({.token_ids = ids, .work = WindowTokens(4)}, std::move(callbacks)).ok());
        if (!row.together) results.back().wait();
      }
      all_are_there.set_value();
      for (size_t i = 0; i < 4; ++i) {
        const auto result = results[i].get();
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->cached_token_count, i == 0 ? 0 : row.cached)
            << golden << ", question " << i << " of " << row.question_tokens << (row.together ? " together" : "");
      }
    }
  }
}

}  // namespace
}  // namespace varifocal
