// Requests that the engine rejects, each in one sentence.
#include "base/reason.h"
#include "server/engine/engine.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "server/engine/engine_testing.h"
#include "server/engine/memory_ledger.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Refusal {
  const char* name;
  EngineRequest request;
  absl::StatusCode code;
  const char* reason;
  std::vector<std::string> message;  // contained in the message
};

std::vector<Refusal> Refusals() {
  const std::vector<int32_t> two = {0, 5};
  const auto invalid = absl::StatusCode::kInvalidArgument;
  auto generate = [&](GenerateWork work) { return EngineRequest{.token_ids = two, .work = std::move(work)}; };
  auto focal = [&](std::vector<double> t) {
    return EngineRequest{.token_ids = two, .attention_overrides = RunTimeTemperature(t), .work = Tokens(1)};
  };
  auto score = [&](std::vector<std::vector<int32_t>> c) {
    return EngineRequest{.token_ids = two, .work = ScoreContinuationsWork{std::move(c)}};
  };
  return {
      {"EmptyPrompt", {.token_ids = {}, .work = Tokens(1)}, invalid, "EMPTY_PROMPT", {}},
      {"NegativeId",
       {.token_ids = {0, -1}, .work = Tokens(1)},
       invalid,
       "BAD_TOKEN_ID",
       {"1", "prompt_token_ids", "-1", "0..119"}},
      {"IdAtVocabulary", {.token_ids = {120}, .work = Tokens(1)}, invalid, "BAD_TOKEN_ID", {"120"}},
      {"NoNewTokens", generate(Tokens(0)), invalid, "BAD_MAX_NEW_TOKENS", {"max_new_tokens", "0"}},
      {"NegativeNewTokens", generate(Tokens(-3)), invalid, "BAD_MAX_NEW_TOKENS", {"-3"}},
      {"NegativeSampling",
       generate({.max_new_tokens = 1, .sampling = {.temperature = -1}}),
       invalid,
       "BAD_SAMPLING_TEMPERATURE",
       {"sampling_temperature", "-1"}},
      {"NanSampling",
       generate({.max_new_tokens = 1, .sampling = {.temperature = kNaN}}),
       invalid,
       "BAD_SAMPLING_TEMPERATURE",
       {"nan"}},
      {"TopPZero", generate({.max_new_tokens = 1, .sampling = {.top_p = 0}}), invalid, "BAD_TOP_P", {"top_p", "0"}},
      {"TopPAboveOne", generate({.max_new_tokens = 1, .sampling = {.top_p = 1.5}}), invalid, "BAD_TOP_P", {"1.5"}},
      {"TopPNan", generate({.max_new_tokens = 1, .sampling = {.top_p = kNaN}}), invalid, "BAD_TOP_P", {"top_p"}},
      {"TopKNegative",
       generate({.max_new_tokens = 1, .sampling = {.top_k = -1}}),
       invalid,
       "BAD_TOP_K",
       {"top_k", "-1"}},
      {"MinPAboveOne",
       generate({.max_new_tokens = 1, .sampling = {.min_p = 1.5}}),
       invalid,
       "BAD_MIN_P",
       {"min_p", "1.5"}},
      {"MinPNan", generate({.max_new_tokens = 1, .sampling = {.min_p = kNaN}}), invalid, "BAD_MIN_P", {"min_p"}},
      {"ManyStops",
       generate({.max_new_tokens = 1, .stop = std::vector<std::string>(17, "x")}),
       invalid,
       "BAD_STOP",
       {"17", "16"}},
      {"EmptyStop", generate({.max_new_tokens = 1, .stop = {""}}), invalid, "BAD_STOP", {}},
      {"StopWithoutTokenizer",
       generate({.max_new_tokens = 1, .stop = {"x"}}),
       absl::StatusCode::kFailedPrecondition,
       "MODEL_WITHOUT_TOKENIZER",
       {"none"}},
      {"NoContinuations", score({}), invalid, "BAD_CONTINUATION", {}},
      {"EmptyContinuation", score({{3}, {}}), invalid, "BAD_CONTINUATION", {"1"}},
      {"BadContinuationId", score({{3, 500}}), invalid, "BAD_TOKEN_ID", {"1", "0", "500"}},
      {"EmptyScored", generate({.max_new_tokens = 2, .scored = {{}}}), invalid, "BAD_CONTINUATION", {"0"}},
      {"LongScored",
       generate({.max_new_tokens = 2, .scored = {{3, 4, 5}}}),
       invalid,
       "BAD_CONTINUATION",
       {"3", "max_new_tokens", "2"}},
      {"FocalZero", focal({0}), invalid, "BAD_FOCAL_TEMPERATURE", {}},
      {"FocalNegative", focal({-0.5}), invalid, "BAD_FOCAL_TEMPERATURE", {"-0.5"}},
      {"FocalNan", focal({kNaN}), invalid, "BAD_FOCAL_TEMPERATURE", {"nan"}},
      {"FocalInfinite", focal({kInfinity}), invalid, "BAD_FOCAL_TEMPERATURE", {"inf"}},
      {"FocalSecondLayer", focal({1, -kInfinity}), invalid, "BAD_FOCAL_TEMPERATURE", {"1"}},
      {"FocalTooMany", focal({1, 1, 1}), invalid, "BAD_FOCAL_TEMPERATURE", {"3", "1", "2"}},
      {"PromptAndNewAboveLimit",
       {.token_ids = RandomIds("a", 4096), .work = Tokens(1)},
       invalid,
       "PROMPT_TOO_LONG",
       {"4096", "1"}},
      {"PromptAboveLimit",
       {.token_ids = RandomIds("a", 4097), .work = ScoreTextWork{}},
       invalid,
       "PROMPT_TOO_LONG",
       {"4096"}},
      {"PromptTenTimesLimit",
       {.token_ids = RandomIds("a", 40960), .work = ScoreTextWork{}},
       invalid,
       "PROMPT_TOO_LONG",
       {"40960"}},
      {"NewTokensHuge",
       generate(Tokens(std::numeric_limits<int64_t>::max())),
       invalid,
       "PROMPT_TOO_LONG",
       {"9223372036854775807"}},
  };
}

TEST(RejectionTest, EachInOneSentence) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  for (const Refusal& refusal : Refusals()) {
    const auto result = engine->Run(refusal.request);
    ASSERT_FALSE(result.ok()) << refusal.name;
    EXPECT_EQ(result.status().code(), refusal.code) << refusal.name << ": " << result.status();
    EXPECT_EQ(ReasonOf(result.status()).name, refusal.reason) << refusal.name;
    EXPECT_THAT(result.status().message(), MessageMatcher(refusal.message)) << refusal.name;
  }
  EXPECT_EQ(engine->Status().requests_done, 0);
}

TEST(RejectionTest, LengthsAtTheLimitAreServed) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("tied-d16-f32")));
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 1), .work = ScoreTextWork{}}).ok());
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 4096), .work = ScoreTextWork{}}).ok());
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 4095), .work = Tokens(1)}).ok());
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 4094), .work = ScoreContinuationsWork{{{3, 4}}}}).ok());
}

TEST(RejectionTest, MemoryErrorsNameNeedAndLimit) {
  auto model = LoadForTest(GoldenDirectory("tied-d16-f32"));
  const int64_t page = model->provenance().page_bytes;
  auto engine = StartEngine(model, {.kv_cache_bytes = 2 * page + 1});
  EXPECT_EQ(engine->Describe().page_count, 2);
  EXPECT_TRUE(engine->Run({.token_ids = RandomIds("a", 250), .work = Tokens(6)}).ok());
  const auto refused = engine->Run({.token_ids = RandomIds("a", 250), .work = Tokens(7)});
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused.status()).name, "KV_CACHE_TOO_SMALL");
  EXPECT_THAT(refused.status().message(), Message(3 * page, absl::StrCat(2 * page, " bytes")));
  EXPECT_FALSE(Engine::Create(model, {.kv_cache_bytes = page - 1}).ok());
  EXPECT_FALSE(Engine::Create(model, {.prefill_chunk_tokens = 0}).ok());
  EXPECT_FALSE(Engine::Create(model, {.batch_size_max = 0}).ok());
  EXPECT_FALSE(Engine::Create(model, {.prefill_chunk_tokens = int64_t{1} << 40}).ok());
  EXPECT_FALSE(Engine::Create(model, {.batch_size_max = int64_t{1} << 40}).ok());
  const auto beyond = Engine::Create(model, {.kv_cache_bytes = int64_t{1} << 60});
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(beyond.status().message()), HasSubstr("kv_cache_bytes is 1152921504606846976"));
}

TEST(RejectionTest, LearnedTauCannotBeReplaced) {
  auto engine = StartEngine(LoadForTest(GoldenDirectory("focal-learned-causal")));
  const auto result =
      engine->Run({.token_ids = {0, 5}, .attention_overrides = RunTimeTemperature({1}), .work = Tokens(1)});
  EXPECT_EQ(ReasonOf(result.status()).name, "BAD_FOCAL_TEMPERATURE");
  EXPECT_THAT(std::string(result.status().message()), HasSubstr("learned"));
}

}  // namespace
}  // namespace varifocal
