// Edge cases of the engine: rejected requests and their messages, focal rules, prefix reuse counts, finish reasons,
// cancellation, values that are not finite. Tiny golden checkpoints; expected values can be checked by hand.
#include "server/engine/engine.h"
#include "base/reason.h"

#include <atomic>
#include <future>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/engine/engine_testing.h"
#include "server/engine/memory_ledger.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

// ---- Focal ----

TEST(FocalTest, TemperatureOneIsTheBaselineBitForBit) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  for (const size_t length : {1u, 100u, 300u}) {
    const std::vector<int32_t> ids = RandomIds("t is one", length);
    const auto baseline = engine->Run({.token_ids = ids, .work = ScoreTextWork{}});
    EXPECT_EQ(AnswerBits(baseline),
              AnswerBits(engine->Run(
                  {.token_ids = ids, .attention_overrides = RunTimeTemperature({1}), .work = ScoreTextWork{}})));
    EXPECT_EQ(AnswerBits(baseline),
              AnswerBits(engine->Run(
                  {.token_ids = ids, .attention_overrides = RunTimeTemperature({1, 1}), .work = ScoreTextWork{}})));
    const auto text = engine->Run({.token_ids = ids, .work = Tokens(20)});
    EXPECT_EQ(AnswerBits(text),
              AnswerBits(
                  engine->Run({.token_ids = ids, .attention_overrides = RunTimeTemperature({1}), .work = Tokens(20)})));
    if (length > 1) {  // one key: its weight is 1 at any temperature
      EXPECT_NE(AnswerBits(baseline),
                AnswerBits(engine->Run(
                    {.token_ids = ids, .attention_overrides = RunTimeTemperature({0.999}), .work = ScoreTextWork{}})));
    }
  }
}

TEST(FocalTest, TemperatureIsAbsolute) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focal-constant")));  // t = 0.4
  const std::vector<int32_t> ids = RandomIds("absolute", 200);
  const auto own = engine->Run({.token_ids = ids, .work = ScoreTextWork{}});
  EXPECT_EQ(AnswerBits(own),
            AnswerBits(engine->Run(
                {.token_ids = ids, .attention_overrides = RunTimeTemperature({0.4}), .work = ScoreTextWork{}})));
  EXPECT_NE(AnswerBits(own),
            AnswerBits(engine->Run(
                {.token_ids = ids, .attention_overrides = RunTimeTemperature({1}), .work = ScoreTextWork{}})));
}

TEST(FocalTest, ExtremeTemperaturesStayFinite) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  for (const double t : {1e-30, 1e30, 5e-324, 1e308}) {
    const auto result = engine->Run({.token_ids = RandomIds("extreme", 150),
                                     .attention_overrides = RunTimeTemperature({t}),
                                     .work = ScoreTextWork{}});
    ASSERT_TRUE(result.ok()) << t << ": " << result.status();
    EXPECT_TRUE(std::isfinite(result->log_likelihood)) << t;
  }
}

// Changes the last token; log-probabilities of the tokens before it must not change, unless the mean is over the
// sequence.
TEST(FocalTest, OnlyTheSequenceMeanSeesLaterTokens) {
  struct Mode {
    const char* golden;
    bool sees_later;
  };
  for (const Mode& mode :
       {Mode{"tied-d16-f32", false}, Mode{"focal-constant", false}, Mode{"focal-learned-causal", false},
        Mode{"focal-learned-token", false}, Mode{"focal-learned-sequence", true}}) {
    auto engine = StartEngine(LoadForTest(GoldenDirectory(mode.golden)));
    std::vector<int32_t> ids = RandomIds("perturbed", 150);
    const auto before = engine->Run({.token_ids = ids, .work = ScoreTextWork{}});
    ids.back() = ids.back() == 7 ? 8 : 7;
    const auto after = engine->Run({.token_ids = ids, .work = ScoreTextWork{}});
    ASSERT_TRUE(before.ok() && after.ok());
    size_t changed = 0;
    for (size_t i = 1; i + 1 < ids.size(); ++i) changed += *before->token_log_probs[i] != *after->token_log_probs[i];
    EXPECT_EQ(changed > 0, mode.sees_later) << mode.golden << ": " << changed << " changed";
  }
}

TEST(FocalTest, SequenceMeanRunsWholeWithoutReuse) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focal-learned-sequence")), {.prefill_chunk_tokens = 32});
  const EngineRequest request{.token_ids = RandomIds("whole", 300), .work = Tokens(3)};
  const auto first = engine->Run(request);
  const auto second = engine->Run(request);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->cached_token_count, 0);
  EXPECT_THAT(second->notes, Message());
  EXPECT_EQ(AnswerBits(first), AnswerBits(second));
}

// ---- Prefix reuse ----

TEST(PrefixTest, CountsOfReusedTokens) {
  struct Reuse {
    size_t length;
    int64_t cached;
  };
  for (const Reuse& reuse : {Reuse{1, 0}, Reuse{127, 0}, Reuse{128, 0}, Reuse{129, 128}, Reuse{256, 128},
                             Reuse{257, 256}, Reuse{400, 384}}) {
    auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
    const EngineRequest request{.token_ids = RandomIds("reuse", reuse.length), .work = Tokens(4)};
    const auto cold = engine->Run(request);
    const auto warm = engine->Run(request);
    ASSERT_TRUE(cold.ok() && warm.ok());
    EXPECT_EQ(cold->cached_token_count, 0);
    EXPECT_EQ(warm->cached_token_count, reuse.cached) << reuse.length;
    engine->DropPrefixCache();
    EXPECT_EQ(engine->Run(request)->cached_token_count, 0);
  }
}

TEST(PrefixTest, OnlyTheSameSettingAndTheSameTokensHit) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  std::vector<int32_t> ids = RandomIds("setting", 400);
  ASSERT_TRUE(engine->Run({.token_ids = ids, .work = Tokens(1)}).ok());
  EXPECT_EQ(engine->Run({.token_ids = ids, .attention_overrides = RunTimeTemperature({0.7}), .work = Tokens(1)})
                ->cached_token_count,
            0);
  EXPECT_EQ(engine->Run({.token_ids = ids, .attention_overrides = RunTimeTemperature({0.7}), .work = Tokens(1)})
                ->cached_token_count,
            384);
  EXPECT_EQ(engine->Run({.token_ids = ids, .work = ScoreTextWork{}})->cached_token_count, 0);
  EXPECT_EQ(engine->Run({.token_ids = ids, .work = ScoreContinuationsWork{{{3}, {4, 5}}}})->cached_token_count, 384);
  ids[200] = ids[200] == 7 ? 8 : 7;
  EXPECT_EQ(engine->Run({.token_ids = ids, .work = Tokens(1)})->cached_token_count, 128);
}

// Generated tokens go through decode: a prompt that contains them must not find them in the cache.
TEST(PrefixTest, GeneratedTokensAreNotShared) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  std::vector<int32_t> ids = RandomIds("generated", 100);
  ASSIGN_OR_FAIL(const auto first, engine->Run({.token_ids = ids, .work = Tokens(60)}));
  ids.insert(ids.end(), first.new_token_ids.begin(), first.new_token_ids.end());
  EXPECT_EQ(engine->Run({.token_ids = ids, .work = Tokens(1)})->cached_token_count, 0);
}

TEST(PrefixTest, ConcurrentQuestionsPrefillTheirContextOnce) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")), {.prefill_chunk_tokens = 64});
  const std::vector<int32_t> context = RandomIds("context", 1280);
  std::vector<std::promise<int64_t>> cached(4);
  for (size_t i = 0; i < 4; ++i) {
    std::vector<int32_t> ids = context;
    const std::vector<int32_t> question = RandomIds(absl::StrCat("question ", i), 20);
    ids.insert(ids.end(), question.begin(), question.end());
    ASSERT_TRUE(engine
                    ->Start({.token_ids = ids, .work = Tokens(4)},
                            {.on_done = [&, i](auto result) { cached[i].set_value(result->cached_token_count); }})
                    .ok());
  }
  EXPECT_EQ(cached[0].get_future().get(), 0);
  for (size_t i = 1; i < 4; ++i) EXPECT_EQ(cached[i].get_future().get(), 1280);
}

// ---- Endings ----

TEST(EndingTest, EosOfGenerationConfigEndsAndIsKept) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "eos");
  const std::vector<int32_t> ids = RandomIds("eos", 50);
  ASSIGN_OR_FAIL(const auto free_run,
                 StartEngine(LoadForTest(checkpoint.directory()))->Run({.token_ids = ids, .work = Tokens(12)}));
  const int32_t eos = free_run.new_token_ids[5];
  const size_t first =
      std::find(free_run.new_token_ids.begin(), free_run.new_token_ids.end(), eos) - free_run.new_token_ids.begin();
  checkpoint.Write("generation_config.json", absl::StrCat("{\"eos_token_id\": [", eos, "]}"));
  auto engine = StartEngine(LoadForTest(checkpoint.directory()));
  ASSIGN_OR_FAIL(const auto ended, engine->Run({.token_ids = ids, .work = GenerateWork{.max_new_tokens = 12}}));
  EXPECT_EQ(ended.finish_reason, EngineFinishReason::kEos);
  EXPECT_EQ(ended.new_token_ids.size(), first + 1);
  EXPECT_EQ(ended.new_token_ids.back(), eos);
  EXPECT_EQ(engine->Run({.token_ids = ids, .work = Tokens(12)})->finish_reason, EngineFinishReason::kLength);
}

// One printable character per id, for readable texts.
std::string TinyTokenizer() {
  Json vocabulary = Json::object();
  for (int id = 0; id < 94; ++id) vocabulary[std::string(1, static_cast<char>('!' + id))] = id;
  const Json json = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", Json::array()},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}}},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", vocabulary},
        {"merges", Json::array()}}}};
  return json.dump();
}

TEST(EndingTest, StopStringCutsTheText) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "stop");
  checkpoint.Write("tokenizer.json", TinyTokenizer());
  auto engine = StartEngine(LoadForTest(checkpoint.directory()));
  const std::vector<int32_t> ids = RandomIds("stop", 60);
  ASSIGN_OR_FAIL(const auto free_run, engine->Run({.token_ids = ids, .work = Tokens(16)}));
  ASSERT_GE(free_run.text.size(), 6u);
  const std::string stop = free_run.text.substr(3, 2);
  const size_t at = free_run.text.find(stop);
  ASSIGN_OR_FAIL(const auto stopped,
                 engine->Run({.token_ids = ids,
                              .work = GenerateWork{.max_new_tokens = 16, .ignore_eos = true, .stop = {"\n\n", stop}}}));
  EXPECT_EQ(stopped.finish_reason, EngineFinishReason::kStop);
  EXPECT_EQ(stopped.matched_stop, stop);
  EXPECT_EQ(stopped.text, free_run.text.substr(0, at));
  EXPECT_LT(stopped.new_token_ids.size(), free_run.new_token_ids.size());
}

TEST(EndingTest, BeyondTheTrainedLengthIsMarkedExtrapolated) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "trained");
  checkpoint.EditConfig("trained_context_length", 100);
  auto engine = StartEngine(LoadForTest(checkpoint.directory()));
  EXPECT_FALSE(engine->Run({.token_ids = RandomIds("a", 90), .work = Tokens(10)})->extrapolated);
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 90), .work = Tokens(11)})->extrapolated);
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 101), .work = ScoreTextWork{}})->extrapolated);
}

TEST(EndingTest, TextAndContinuationScoresAgree) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focal-learned-causal")));
  const std::vector<int32_t> ids = RandomIds("agree", 200);
  const std::vector<int32_t> prompt(ids.begin(), ids.begin() + 150), rest(ids.begin() + 150, ids.end());
  const auto text = engine->Run({.token_ids = ids, .work = ScoreTextWork{}});
  const auto parts = engine->Run({.token_ids = prompt, .work = ScoreContinuationsWork{{{9}, rest, {ids[150]}}}});
  ASSERT_TRUE(text.ok() && parts.ok());
  for (size_t i = 0; i < rest.size(); ++i)
    EXPECT_EQ(parts->continuations[1].token_log_probs[i], *text->token_log_probs[150 + i]) << i;
  EXPECT_EQ(parts->continuations[1].token_count, 50);
  EXPECT_EQ(parts->continuations[2].log_likelihood, *text->token_log_probs[150]);
}

// Continuations of one prompt share steps: the prompt's, then one for all that fit.
TEST(EndingTest, ContinuationsAreBatched) {
  auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  ScoreContinuationsWork work;
  for (int i = 0; i < 12; ++i) work.continuations.push_back(RandomIds(absl::StrCat("together ", i), 2 + i % 5));
  work.continuations[3] = {7};
  const EngineRequest request{.token_ids = RandomIds("together", 300), .work = work};
  struct Row {
    int64_t batch_size_max, chunk, page_count, steps;
  };
  // All at once; 8 entries a step; one after another where a step takes one entry, or no page is left for more.
  std::string first;
  for (const Row& row : {Row{16, 512, 100, 2}, Row{8, 512, 100, 3}, Row{1, 512, 100, 12}, Row{16, 512, 3, 12}}) {
    auto engine = StartEngine(model, {.prefill_chunk_tokens = row.chunk,
                                      .batch_size_max = row.batch_size_max,
                                      .kv_cache_bytes = row.page_count * model->provenance().page_bytes});
    const auto result = engine->Run(request);
    ASSERT_TRUE(result.ok()) << result.status();
    if (first.empty()) first = AnswerBits(result);
    EXPECT_EQ(AnswerBits(result), first) << row.batch_size_max << " " << row.page_count;
    EXPECT_EQ(engine->Status().step_count, row.steps) << row.batch_size_max << " " << row.page_count;
    EXPECT_EQ(engine->Status().pages_used, 0);
  }
}

TEST(EndingTest, GreedyContinuationIsCalledGreedy) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  const std::vector<int32_t> ids = RandomIds("greedy", 77);
  ASSIGN_OR_FAIL(const auto text, engine->Run({.token_ids = ids, .work = Tokens(5)}));
  std::vector<int32_t> other = text.new_token_ids;
  other[4] = other[4] == 7 ? 8 : 7;
  const auto scores = engine->Run({.token_ids = ids, .work = ScoreContinuationsWork{{text.new_token_ids, other}}});
  EXPECT_TRUE(scores->continuations[0].is_greedy);
  EXPECT_FALSE(scores->continuations[1].is_greedy);
}

// ---- Values that are not finite ----

TEST(NumericTest, InfiniteLogitsAreAnErrorNeverAScore) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "overflow");
  checkpoint.Fill("model.norm.weight", 3e38f);
  auto engine = StartEngine(LoadForTest(checkpoint.directory()));
  for (const EngineRequest& request : {EngineRequest{.token_ids = {0, 5, 6}, .work = Tokens(2)},
                                       EngineRequest{.token_ids = {0, 5, 6}, .work = ScoreTextWork{}},
                                       EngineRequest{.token_ids = {0, 5}, .work = ScoreContinuationsWork{{{6, 7}}}}}) {
    const auto result = engine->Run(request);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kDataLoss) << result.status();
    EXPECT_EQ(ReasonOf(result.status()).name, "NUMERIC_ERROR");
  }
}

TEST(NumericTest, NanWeightIsNamedAtLoad) {
  TemporaryCheckpoint checkpoint("tied-d16-f32", "nan");
  checkpoint.Fill("model.layers.1.mlp.up_proj.weight", std::numeric_limits<float>::quiet_NaN());
  const auto model = LoadModel(checkpoint.directory(), {.cache_directory = testing::TempDir()});
  EXPECT_THAT(model.status().message(), Message("model.layers.1.mlp.up_proj.weight", "0"));
}

// ---- Life cycle ----

TEST(LifeTest, CancelledPrefillStopsAndReleasesPages) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")), {.prefill_chunk_tokens = 16});
  std::promise<absl::StatusOr<EngineResult>> done;
  std::promise<void> started;
  std::atomic<bool> once{false};
  auto handle = engine->Start({.token_ids = RandomIds("cancel", 4000), .work = ScoreTextWork{}},
                              {.on_progress =
                                   [&](const EngineProgress&) {
                                     if (!once.exchange(true)) started.set_value();
                                   },
                               .on_done = [&](auto result) { done.set_value(std::move(result)); }});
  ASSERT_TRUE(handle.ok());
  started.get_future().wait();
  engine->Cancel(*handle);
  const auto result = done.get_future().get();
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  engine->DropPrefixCache();
  EXPECT_TRUE(engine->Run({.token_ids = {0, 5}, .work = Tokens(1)}).ok());
  EXPECT_EQ(engine->Status().pages_used, 0);
}

TEST(LifeTest, CancelledGenerationReturnsItsTokens) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  std::promise<absl::StatusOr<EngineResult>> done;
  std::promise<void> third;
  int tokens = 0;
  auto handle = engine->Start({.token_ids = RandomIds("cancel", 40), .work = Tokens(4000)},
                              {.on_token =
                                   [&](int32_t, double) {
                                     if (++tokens == 3) third.set_value();
                                   },
                               .on_done = [&](auto result) { done.set_value(std::move(result)); }});
  third.get_future().wait();
  engine->Cancel(*handle);
  engine->Cancel(*handle);
  engine->Cancel(123456);
  ASSIGN_OR_FAIL(const auto result, done.get_future().get());
  EXPECT_EQ(result.finish_reason, EngineFinishReason::kCancelled);
  EXPECT_GE(result.new_token_ids.size(), 3u);
  EXPECT_LT(result.new_token_ids.size(), 4000u);
}

TEST(LifeTest, DestructionCompletesAllRequests) {
  auto engine =
      StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")), {.prefill_chunk_tokens = 16, .batch_size_max = 2});
  std::atomic<int> unavailable{0};
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(engine
                    ->Start({.token_ids = RandomIds(absl::StrCat("bye ", i), 4000), .work = ScoreTextWork{}},
                            {.on_done = [&](auto result) { unavailable += absl::IsUnavailable(result.status()); }})
                    .ok());
  }
  engine.reset();
  EXPECT_EQ(unavailable, 6);
}

TEST(LifeTest, QueueIsBounded) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")),
                            {.prefill_chunk_tokens = 16, .batch_size_max = 1, .queue_length_max = 3});
  std::vector<Engine::Handle> handles;
  absl::Status refused;
  for (int i = 0; i < 10 && refused.ok(); ++i) {
    auto handle =
        engine->Start({.token_ids = RandomIds("queue", 4000), .work = ScoreTextWork{}}, {.on_done = [](auto) {}});
    if (handle.ok())
      handles.push_back(*handle);
    else
      refused = handle.status();
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused, RefusedFor("QUEUE_FULL", Message("3")));
}

// Memory reserved by one engine and not written yet is not available to the next one.
TEST(LifeTest, EnginesOfOneProcessReserveDistinctMemory) {
  constexpr int64_t kFree = int64_t{1} << 50;  // as reported by the OS
  auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  const int64_t before = MemoryLedger::Get().FreeAfterReservations(kFree);
  auto engine = StartEngine(model, {.kv_cache_bytes = int64_t{1} << 24});
  const int64_t cache_bytes = engine->Describe().kv_cache_bytes;
  EXPECT_EQ(MemoryLedger::Get().FreeAfterReservations(kFree), before - cache_bytes);
  ASSERT_TRUE(engine->Run({.token_ids = RandomIds("touch", 300), .work = Tokens(2)}).ok());
  engine->DropPrefixCache();
  ASSERT_TRUE(engine->Run({.token_ids = RandomIds("touch", 2), .work = Tokens(2)}).ok());
  EXPECT_EQ(MemoryLedger::Get().FreeAfterReservations(kFree), before - cache_bytes + 3 * model->provenance().page_bytes)
      << "three pages were written: the OS counts them";
  engine.reset();
  EXPECT_EQ(MemoryLedger::Get().FreeAfterReservations(kFree), before);
}

TEST(LifeTest, EstimateGrowsWithTheWork) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  const auto small = engine->Estimate(100, 10), large = engine->Estimate(4000, 10);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_GT(small->seconds, 0);
  EXPECT_GT(large->seconds, small->seconds);
  EXPECT_EQ(small->cache_bytes, engine->Describe().model.page_bytes);
  const auto known = engine->Estimate(4000, 10, 3900);
  EXPECT_LT(known->seconds, large->seconds) << "a cached prefix costs nothing";
  EXPECT_GT(known->seconds, small->seconds) << "but its keys are read";
  EXPECT_EQ(engine->Status().requests_done, 0);
}

// Of a multimodal checkpoint text alone is supported: wherever a request has the token of an image, it is refused.
TEST(EngineTest, TokensOfImagesAreRefusedByName) {
  const TemporaryCheckpoint checkpoint("architectures/gemma3-wrapped", "images");
  Json config = *ParseJson(checkpoint.Read("config.json"));
  config["image_token_index"] = 7;
  checkpoint.Write("config.json", config.dump());
  const auto engine = StartEngine(LoadForTest(checkpoint.directory(), {}), {.kv_cache_bytes = 8 << 20});
  const auto refusal = [&](std::vector<int32_t> ids, decltype(EngineRequest::work) work) {
    const auto result = engine->Run({.token_ids = std::move(ids), .work = std::move(work)});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kUnimplemented) << result.status();
    EXPECT_EQ(ReasonOf(result.status()).name, "BAD_TOKEN_ID");
    return std::string(result.status().message());
  };
  EXPECT_THAT(refusal({3, 4, 7}, ScoreTextWork{}), Message("token 2 of prompt_token_ids", "7", "gemma3"));
  EXPECT_THAT(refusal({3, 4}, ScoreContinuationsWork{{{5, 6}, {5, 7}}}), Message("token 1 of continuations", "7"));
  EXPECT_THAT(refusal({3}, GenerateWork{.max_new_tokens = 2, .scored = {{7}}}),
              Message("token 0 of continuations", "7"));
  EXPECT_TRUE(engine->Run({.token_ids = {3, 4, 8}, .work = ScoreTextWork{}}).ok());
}

}  // namespace
}  // namespace varifocal
