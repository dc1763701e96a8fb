// An engine over a server of another program, over real HTTP: abilities found out by trying, generation, scores against
// the server's own function of the tokens, order, concurrency, faults and recovery.
#include "server/endpoint/endpoint_engine.h"

#include <atomic>
#include <future>

#include "base/reason.h"
#include "gmock/gmock.h"
#include "server/endpoint/faulty_server.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Fault = FaultyServer::Fault;
using Logprobs = FaultyServer::Logprobs;

class EndpointEngineTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<EndpointEngine>> Make(const FaultyServer& server, EndpointSpec spec = {}) {
    spec.name = "e";
    spec.url = server.url();
    const auto pause = [](int64_t, const EndpointClient::IsCancelled&) {};
    auto client = std::make_unique<EndpointClient>(spec, MakeHttpClient(), Clock::Real(), pause);
    const absl::Status connected = client->Connect();
    if (!connected.ok()) return connected;
    tokenizer_ = *Tokenizer::Load("models/baseline");
    ModelConfig config;
    config.vocabulary_size = tokenizer_->vocab_size();
    config.max_position = 2048;
    return EndpointEngine::Create(std::move(client), tokenizer_, config, pause);
  }
  std::vector<int32_t> Ids(const std::string& text) const { return *tokenizer_->Encode(text); }
  std::vector<int32_t> Piece(const std::string& text) const {
    return *tokenizer_->Encode(text, {.add_special_tokens = false});
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
};

TEST_F(EndpointEngineTest, GeneratesFromTokenIds) {
  const FaultyServer server({});
  ASSIGN_OR_FAIL(const auto engine, Make(server));
  EXPECT_TRUE(engine->abilities().takes_token_ids);
  EXPECT_EQ(engine->abilities().why_no_scores, "");
  ASSIGN_OR_FAIL(const auto result,
                 engine->Run({.token_ids = Ids("Rome is"), .work = GenerateWork{.max_new_tokens = 3}}));
  EXPECT_EQ(result.new_token_count, 3);
  EXPECT_THAT(result.new_token_ids, IsEmpty());
  EXPECT_THAT(FaultyServer::kContinuation, ::testing::StartsWith(result.text));
  EXPECT_EQ(result.finish_reason, EngineFinishReason::kLength);
  EXPECT_EQ(result.prompt_token_count, std::ssize(Ids("Rome is")));
  EXPECT_EQ(server.bodies().back()["prompt"], Json(Ids("Rome is")));
  EXPECT_EQ(server.bodies().back()["temperature"], 0.0);
}

// What a server that refuses top_k and min_p, or ignores them, cannot do is reported; one that knows them gets them always, so that
// its own defaults do not apply.
TEST_F(EndpointEngineTest, FindsTheFiltersOfAServer) {
  const auto ask = [&](EndpointEngine& engine, const Sampling& sampling) {
    const auto result =
        engine.Run({.token_ids = Ids("Rome is"), .work = GenerateWork{.max_new_tokens = 3, .sampling = sampling}});
    EXPECT_TRUE(result.ok()) << result.status();
  };
  const FaultyServer knows({});
  ASSIGN_OR_FAIL(const auto engine, Make(knows, {.body = {{"min_p", 0.2}}}));
  EXPECT_EQ(engine->Describe().why_no_top_k, "");
  EXPECT_EQ(engine->Describe().why_no_min_p, "");
  ask(*engine, {.temperature = 0.5, .top_k = 20});
  EXPECT_EQ(knows.bodies().back()["top_k"], 20);
  EXPECT_EQ(knows.bodies().back()["min_p"], 0.2) << "the body's own stays where the job has none";
  ask(*engine, {.temperature = 0.5, .min_p = 0.05});
  EXPECT_EQ(knows.bodies().back()["top_k"], 0);
  EXPECT_EQ(knows.bodies().back()["min_p"], 0.05);
  for (const auto& [filters, word] : {std::pair(FaultyServer::Filters::kRefused, "Unrecognized"),
                                      std::pair(FaultyServer::Filters::kIgnored, "ignores")}) {
    const FaultyServer lacks({.filters = filters});
    ASSIGN_OR_FAIL(const auto other, Make(lacks));
    EXPECT_THAT(other->Describe().why_no_top_k, Message("top_k", word));
    EXPECT_THAT(other->Describe().why_no_min_p, Message("min_p", word));
    ask(*other, {.temperature = 0.5, .top_p = 0.9});
    EXPECT_FALSE(lacks.bodies().back().contains("top_k")) << lacks.bodies().back();
  }
}

TEST_F(EndpointEngineTest, SendsTextWhereIdsAreRefused) {
  const FaultyServer server({.takes_token_ids = false});
  ASSIGN_OR_FAIL(const auto engine, Make(server));
  EXPECT_FALSE(engine->abilities().takes_token_ids);
  ASSIGN_OR_FAIL(
      const auto result,
      engine->Run({.token_ids = Ids("Rome is"),
                   .work = GenerateWork{.max_new_tokens = 500, .sampling = {.temperature = 0.5}, .seed = 9}}));
  EXPECT_EQ(result.text, FaultyServer::kContinuation);
  EXPECT_EQ(result.finish_reason, EngineFinishReason::kEos);
  EXPECT_EQ(server.bodies().back()["prompt"], "Rome is");
  EXPECT_EQ(server.bodies().back()["seed"], 9);
  // Ids that no text has: the letters of a word, one token each, are not how its text is tokenized.
  std::vector<int32_t> letters;
  for (const char c : std::string("Rome")) letters.push_back(Piece(std::string(1, c))[0]);
  ASSERT_NE(letters, Piece("Rome"));
  EXPECT_THAT(engine->Run({.token_ids = letters, .work = GenerateWork{.max_new_tokens = 1}}).status(),
              IsError(absl::StatusCode::kInvalidArgument, Message()));
  // Asked to send ids, it does not fall back.
  EXPECT_THAT(Make(server, {.prompts = PromptForm::kTokenIds}).status().message(), HasSubstr("422"));
}

TEST_F(EndpointEngineTest, ScoresContinuationsTextsAndGoldAnswers) {
  for (const Logprobs logprobs : {Logprobs::kRight, Logprobs::kWithoutLeadingBos}) {
    for (const bool takes_ids : {true, false}) {
      const FaultyServer server({.takes_token_ids = takes_ids, .logprobs = logprobs});
      ASSIGN_OR_FAIL(const auto engine, Make(server));
      ASSERT_EQ(engine->abilities().why_no_scores, "");
      const std::vector<int32_t> prompt = Ids("The capital is"), continuation = Piece(" Rome, Italy");
      std::vector<int32_t> whole = prompt;
      whole.insert(whole.end(), continuation.begin(), continuation.end());
      double expected = 0;
      for (size_t i = prompt.size(); i < whole.size(); ++i) expected += FaultyServer::LogProb(whole[i - 1], whole[i]);

      ASSIGN_OR_FAIL(const auto scored, engine->Run({.token_ids = prompt,
                                                     .work = ScoreContinuationsWork{{continuation, Piece(" Paris")}}}));
      ASSERT_EQ(scored.continuations.size(), 2u);
      EXPECT_DOUBLE_EQ(scored.continuations[0].log_likelihood, expected);
      EXPECT_EQ(scored.continuations[0].token_count, std::ssize(continuation));

      ASSIGN_OR_FAIL(
          const auto generated,
          engine->Run({.token_ids = prompt, .work = GenerateWork{.max_new_tokens = 8, .scored = {continuation}}}));
      EXPECT_NE(generated.text, "");
      EXPECT_DOUBLE_EQ(generated.continuations[0].log_likelihood, expected);

      ASSIGN_OR_FAIL(const auto text, engine->Run({.token_ids = whole, .work = ScoreTextWork{}}));
      ASSERT_EQ(text.token_log_probs.size(), whole.size());
      EXPECT_FALSE(text.token_log_probs[0].has_value());
      EXPECT_DOUBLE_EQ(*text.token_log_probs[1], FaultyServer::LogProb(whole[0], whole[1]));
    }
  }
}

// A model may generate tokens that its own text is not tokenized to; the test of scores ends before them.
TEST_F(EndpointEngineTest, FindsScoresBesideAContinuationThatIsNotReadBack) {
  tokenizer_ = *Tokenizer::Load("models/baseline");
  std::vector<int32_t> readable = Piece(" the city");
  readable.resize(1);
  std::vector<int32_t> letters;
  for (const char c : std::string("Rome")) letters.push_back(Piece(std::string(1, c))[0]);
  std::vector<int32_t> partly = readable;
  partly.insert(partly.end(), letters.begin(), letters.end());
  const FaultyServer server({.continuation = partly});
  ASSIGN_OR_FAIL(const auto engine, Make(server));
  EXPECT_EQ(engine->Describe().why_no_scores, "");
  // The first request for log-probabilities has four new tokens, and the one that is read back fewer.
  std::vector<int64_t> wanted;
  for (const Json& body : server.bodies()) {
    if (body.contains("logprobs") && !body.contains("echo")) wanted.push_back(body["max_tokens"].get<int64_t>());
  }
  ASSERT_GT(wanted.size(), 1u);
  EXPECT_EQ(wanted.front(), 4);
  EXPECT_LT(wanted.back(), 4);
}

TEST_F(EndpointEngineTest, RefusesScoresOfAServerWithoutThem) {
  const FaultyServer without({.logprobs = Logprobs::kRefused});
  const FaultyServer shifted({.logprobs = Logprobs::kShifted});
  for (const auto& [server, expected] :
       {std::pair<const FaultyServer*, const char*>{&without, "logprobs are not supported"},
        {&shifted, "when generated and"}}) {
    ASSIGN_OR_FAIL(const auto engine, Make(*server));
    EXPECT_THAT(engine->Describe().why_no_scores, HasSubstr(expected));
    const absl::Status refused = engine->Run({.token_ids = Ids("a b"), .work = ScoreTextWork{}}).status();
    EXPECT_TRUE(HasReason(refused, ErrorReason::kEndpointWithoutLogprobs)) << refused;
    EXPECT_THAT(refused.message(), HasSubstr(expected));
    EXPECT_TRUE(engine->Run({.token_ids = Ids("a b"), .work = GenerateWork{.max_new_tokens = 1}}).ok());
  }
}

// The server would stop at a stop string inside the block, so none are sent; the text is split here. Where the tokens of
// thinking end inside the answer, or the block's end is forced, a second request continues from the whole text.
TEST_F(EndpointEngineTest, ThinkingIsSplitHere) {
  tokenizer_ = *Tokenizer::Load("models/baseline");
  const std::string block = "<think>\nRome? No.\n</think>", text = block + "\n\nParis. And more, and more.";
  const FaultyServer server({.continuation = Piece(text)});
  ASSIGN_OR_FAIL(const auto engine, Make(server));
  const auto ask = [&](int64_t thinking_tokens, int64_t answer_tokens, std::vector<int32_t> forced = {}) {
    GenerateWork work;
    work.max_new_tokens = thinking_tokens + answer_tokens + std::ssize(forced);
    work.stop = {"\n", "."};
    work.thinking = ThinkingWork{.rule = {{"<think>", "</think>"}, false, "\n\n"},
                                 .tokens_max = thinking_tokens,
                                 .answer_tokens_max = answer_tokens,
                                 .forced_ids = std::move(forced)};
    const auto result = engine->Run({.token_ids = Ids("The capital is"), .work = work});
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(EngineResult());
  };
  const size_t asked_before = server.bodies().size();
  const EngineResult whole = ask(100, 20);
  EXPECT_EQ(server.bodies().size(), asked_before + 1);
  EXPECT_FALSE(server.bodies().back().contains("stop"));
  EXPECT_EQ(server.bodies().back()["max_tokens"], 100);
  EXPECT_EQ(whole.text, block + "\n\nParis");
  EXPECT_EQ(whole.matched_stop, ".");
  EXPECT_EQ(whole.finish_reason, EngineFinishReason::kStop);
  EXPECT_GE(whole.thinking_token_count, std::ssize(Piece(block)));
  // Unfinished: the server is not asked again.
  const EngineResult cut = ask(4, 20);
  EXPECT_EQ(server.bodies().size(), asked_before + 2);
  EXPECT_EQ(cut.finish_reason, EngineFinishReason::kLength);
  EXPECT_EQ(cut.thinking_token_count, 4);
  // Forced: the same server begins its continuation again, after prompt, thinking and forced text.
  const EngineResult forced = ask(4, 40, Piece("\n</think>\n\n"));
  EXPECT_EQ(server.bodies().size(), asked_before + 4);
  EXPECT_TRUE(forced.is_thinking_forced);
  EXPECT_EQ(server.bodies().back()["max_tokens"], 40);
  EXPECT_EQ(server.bodies().back()["prompt"].size(),
            Ids("The capital is").size() + Piece(cut.text + "\n</think>\n\n").size());
  EXPECT_TRUE(forced.text.starts_with(cut.text + "\n</think>\n\n")) << forced.text;
}

TEST_F(EndpointEngineTest, RefusesAttentionSettingsAndLongPrompts) {
  const FaultyServer server({});
  ASSIGN_OR_FAIL(const auto engine, Make(server));
  EXPECT_EQ((engine)
                ->Start({.token_ids = {5},
                         .attention_overrides = RunTimeTemperature(std::vector<double>{0.5}),
                         .work = ScoreTextWork{}},
                        {})
                .status()
                .code(),
            absl::StatusCode::kUnimplemented);
  const absl::Status too_long =
      (engine)
          ->Start({.token_ids = std::vector<int32_t>(2048, 5), .work = GenerateWork{.max_new_tokens = 1}}, {})
          .status();
  EXPECT_TRUE(HasReason(too_long, ErrorReason::kPromptTooLong)) << too_long;
}

// One exchange at a time arrives in the order of Start; more run together up to the bound.
TEST_F(EndpointEngineTest, KeepsTheOrderAndTheBound) {
  for (const int bound : {1, 3}) {
    FaultyServer server({});
    ASSIGN_OR_FAIL(const auto engine, Make(server, {.in_flight = bound}));
    const size_t before = server.bodies().size();
    server.FailNext({{Fault::kHang}, {Fault::kHang}, {Fault::kHang}});
    std::atomic<int> done_count{0};
    for (int i = 0; i < 12; ++i) {
      EngineCallbacks callbacks;
      callbacks.on_done = [&](absl::StatusOr<EngineResult> result) {
        EXPECT_TRUE(result.ok()) << result.status();
        ++done_count;
      };
      ASSERT_TRUE(
          (engine)
              ->Start({.token_ids = {5, 20 + i}, .work = GenerateWork{.max_new_tokens = 1}}, std::move(callbacks))
              .ok());
    }
    server.WaitForBodies(before + bound);
    server.ReleaseHanging();
    server.WaitForBodies(before + 12);
    while (done_count < 12) std::this_thread::yield();
    EXPECT_EQ(server.in_flight_max(), bound);
    if (bound > 1) continue;
    for (int i = 0; i < 12; ++i) EXPECT_EQ(server.bodies()[before + i]["prompt"], Json({5, 20 + i}));
  }
}

TEST_F(EndpointEngineTest, CancelsQueuedAndRunningRequests) {
  FaultyServer server({});
  ASSIGN_OR_FAIL(const auto engine, Make(server, {.in_flight = 1}));
  const size_t before = server.bodies().size();
  server.FailNext({{Fault::kHang}});
  std::vector<std::promise<absl::Status>> ends(2);
  std::vector<Engine::Handle> handles;
  for (auto& end : ends) {
    EngineCallbacks callbacks;
    callbacks.on_done = [&end](absl::StatusOr<EngineResult> result) { end.set_value(result.status()); };
    handles.push_back(
        *engine->Start({.token_ids = {5}, .work = GenerateWork{.max_new_tokens = 1}}, std::move(callbacks)));
  }
  server.WaitForBodies(before + 1);
  engine->Cancel(handles[1]);
  engine->Cancel(handles[0]);
  for (auto& end : ends) EXPECT_EQ(end.get_future().get().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(server.bodies().size(), before + 1);
}

TEST_F(EndpointEngineTest, FaultsWhileTheServerIsAwayAndRecovers) {
  FaultyServer server({});
  ASSIGN_OR_FAIL(const auto engine, Make(server, {.in_flight = 1, .attempts_max = 2}));
  server.FailNext({{Fault::kStatus, 503}, {Fault::kStatus, 503}});
  const absl::Status gone = engine->Run({.token_ids = {5}, .work = GenerateWork{.max_new_tokens = 1}}).status();
  EXPECT_TRUE(HasReason(gone, ErrorReason::kEndpointFaulted)) << gone;
  // It lists its models, so the fault ends by itself.
  while (!engine->Fault().ok()) std::this_thread::yield();
  const auto again = engine->Run({.token_ids = {5}, .work = GenerateWork{.max_new_tokens = 1}});
  EXPECT_TRUE(again.ok()) << again.status();
}

}  // namespace
}  // namespace varifocal
