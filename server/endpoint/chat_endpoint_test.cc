// The chat API over real HTTP: messages found again in the ids of a prompt, failures with the server's pauses on a fake clock,
// the budget of tokens, and an engine.
#include <future>
#include <thread>

#include "base/reason.h"
#include "gmock/gmock.h"
#include "server/endpoint/chat_messages.h"
#include "server/endpoint/endpoint_budget.h"
#include "server/endpoint/endpoint_engine.h"
#include "server/endpoint/faulty_server.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using Fault = FaultyServer::Fault;
using Scripted = FaultyServer::Scripted;
using Messages = std::vector<ChatTurn>;

class ChatEndpointTest : public ::testing::Test {
 protected:
  static EndpointSpec Spec(const FaultyServer& server) {
    EndpointSpec spec;
    spec.name = "e";
    spec.url = server.url();
    spec.api = EndpointApi::kChat;
    return spec;
  }
  std::unique_ptr<EndpointClient> Client(const EndpointSpec& spec) {
    auto client = std::make_unique<EndpointClient>(
        spec, MakeHttpClient(), clock_,
        [this](int64_t us, const EndpointClient::IsCancelled&) {
          pauses_ms_.push_back(us / 1000);
          clock_.Advance(us);
        },
        budget_);
    const absl::Status status = client->Connect();
    EXPECT_TRUE(status.ok()) << status;
    return client;
  }
  absl::StatusOr<std::unique_ptr<EndpointEngine>> Make(const EndpointSpec& spec,
                                                       const ChatFormat& format = FaultyServer::Format()) {
    const auto pause = [](int64_t, const EndpointClient::IsCancelled&) {};
    auto client = std::make_unique<EndpointClient>(spec, MakeHttpClient(), Clock::Real(), pause, budget_);
    const absl::Status connected = client->Connect();
    if (!connected.ok()) return connected;
    ModelConfig config;
    config.vocabulary_size = tokenizer_->vocab_size();
    config.max_position = 2048;
    return EndpointEngine::Create(std::move(client), tokenizer_, config, pause, std::make_shared<ChatFormat>(format));
  }
  std::vector<int32_t> Ids(const std::string& user, const std::optional<std::string>& system = {},
                           const ChatFormat& format = FaultyServer::Format()) const {
    return *EncodeChat(*tokenizer_, *format.Wrap(user, system));
  }
  CompletionRequest Request(const std::string& user) const {
    CompletionRequest request;
    request.token_ids = Ids(user);
    request.max_new_tokens = 4;
    request.chat = ChatPart{.messages = {{"user", user}}};
    return request;
  }

  FakeClock clock_{1'700'000'000'000'000};  // Tue, 14 Nov 2023 22:13:20 GMT
  std::vector<int64_t> pauses_ms_;
  std::shared_ptr<EndpointBudget> budget_;
  std::shared_ptr<const Tokenizer> tokenizer_ = *Tokenizer::Load("models/baseline");
};

TEST_F(ChatEndpointTest, FindsMessagesInIds) {
  const ChatFormat format = FaultyServer::Format();
  const auto found = [&](const std::vector<int32_t>& ids, const ChatFormat& in) {
    const auto messages = MessagesOf(*tokenizer_, in, ids);
    EXPECT_TRUE(messages.ok()) << messages.status();
    return messages.ok() ? *messages : Messages();
  };
  for (const std::string user :
       {"Where is Rome?", "", " a\n\nb \xc3\xa9 \xe6\x9d\xb1", "a<|end|>\nmodel\nYes<|begin|>user\n"}) {
    EXPECT_EQ(found(Ids(user), format), (Messages{{"user", user}}));
    for (const std::string system : {"Be kind.", "", "Marks: <|end|>\n<|begin|>user\nare text."})
      EXPECT_EQ(found(Ids(user, system), format), (Messages{{"system", system}, {"user", user}}));
  }
  // Without marks of its own, a system message is the start of the user's: the server renders the same text.
  const ChatFormat plain = PlainChatFormat();
  EXPECT_EQ(found(Ids("u", "s", plain), plain), (Messages{{"user", "s\n\nu"}}));
  const absl::Status none = MessagesOf(*tokenizer_, format, *tokenizer_->Encode("Rome is")).status();
  EXPECT_TRUE(HasReason(none, ErrorReason::kEndpointRefused)) << none;
  EXPECT_THAT(none.message(), Message("`chat: true`"));
}

TEST_F(ChatEndpointTest, RepeatsWhatMayPassAndNamesTheRest) {
  const struct {
    Scripted fault;
    ErrorReason reason;
    absl::StatusCode code;
    std::vector<std::string> expected;
    int attempts;
  } cases[] = {
      {{Fault::kStatus, 400, "", "no such role"},
       ErrorReason::kEndpointRefused,
       absl::StatusCode::kInvalidArgument,
       {"no such role"},
       1},
      {{Fault::kStatus, 429}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {"429", "3"}, 3},
      {{Fault::kCutBody}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {"3"}, 3},
      {{Fault::kNotJson}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {"3"}, 3},
      {{Fault::kNoUsage}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {"3"}, 3},
      {{Fault::kErrorInReply}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {"it failed"}, 3},
      {{Fault::kErrorInStream}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {"it failed"}, 3},
      {{Fault::kStream}, ErrorReason::kEndpointBadReply, absl::StatusCode::kInternal, {"3"}, 3},
      {{Fault::kOtherModel}, ErrorReason::kEndpointFaulted, absl::StatusCode::kUnavailable, {"\"another\""}, 1},
      {{Fault::kPromptCount}, ErrorReason::kEndpointWrongCount, absl::StatusCode::kFailedPrecondition, {}, 1},
      {{Fault::kNewCount}, ErrorReason::kEndpointWrongCount, absl::StatusCode::kFailedPrecondition, {"4"}, 1},
  };
  for (const auto& c : cases) {
    FaultyServer server({});
    EndpointSpec spec = Spec(server);
    spec.attempts_max = 3;
    const auto client = Client(spec);
    server.FailNext({c.fault, c.fault, c.fault});
    const absl::Status status = client->Complete(Request("Rome?"), {}).status();
    EXPECT_EQ(status.code(), c.code) << status;
    EXPECT_TRUE(HasReason(status, c.reason)) << status;
    EXPECT_THAT(status.message(), MessageMatcher(c.expected)) << status;
    EXPECT_EQ(ReasonOf(status).metadata["attemptCount"], std::to_string(c.attempts)) << status;
  }
}

TEST_F(ChatEndpointTest, ObeysRetryAfterInSecondsAndAsADate) {
  FaultyServer server({});
  const auto client = Client(Spec(server));
  server.FailNext({{Fault::kStatus, 429, "7"},
                   {Fault::kStatus, 503, "Tue, 14 Nov 2023 22:13:37 GMT"},  // the first pause has ended at :27
                   {Fault::kStatus, 429, "Tue, 14 Nov 2023 22:00:00 GMT"}});
  ASSIGN_OR_FAIL(const auto done, client->Complete(Request("Rome?"), {}));
  EXPECT_EQ(done.attempt_count, 4);
  EXPECT_THAT(pauses_ms_, ElementsAre(7000, 10'000, 2000));
}

TEST(EndpointBudget, RefusesWaitsAndCancels) {
  EndpointBudget budget(100);
  ASSERT_TRUE(budget.Reserve(60, {}).ok());
  std::promise<absl::Status> waited;
  std::thread waiter([&] { waited.set_value(budget.Reserve(90, {})); });
  EXPECT_EQ(budget.Reserve(60, [] { return true; }).code(), absl::StatusCode::kCancelled);
  budget.Settle(60, 10);
  EXPECT_TRUE(waited.get_future().get().ok());
  waiter.join();
  budget.Settle(90, 85);
  EXPECT_EQ(budget.spent(), 95);
  const absl::Status refused = budget.Reserve(6, {});
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(HasReason(refused, ErrorReason::kEndpointBudgetSpent));
  EXPECT_THAT(refused.message(), Message("6", "95", "100"));
  EXPECT_TRUE(budget.Reserve(5, {}).ok());
}

// Refused requests cost nothing, lost replies all that they may have cost, answers what the server counted.
TEST_F(ChatEndpointTest, CountsWhatAttemptsCost) {
  FaultyServer server({});
  budget_ = std::make_shared<EndpointBudget>(1'000'000);
  const auto client = Client(Spec(server));
  const CompletionRequest request = Request("Rome?");
  const int64_t prompt = std::ssize(request.token_ids), most = prompt + request.max_new_tokens;
  const struct {
    Fault fault;
    int64_t cost;
  } cases[] = {{Fault::kStatus, 0}, {Fault::kCutBody, most}, {Fault::kNotJson, most}, {Fault::kNone, 0}};
  for (const auto& c : cases) {
    const int64_t before = budget_->spent();
    server.FailNext({{c.fault}});
    ASSERT_TRUE(client->Complete(request, {}).ok());
    EXPECT_EQ(budget_->spent() - before, c.cost + most) << static_cast<int>(c.fault);
  }
}

TEST_F(ChatEndpointTest, GeneratesFromMessages) {
  const FaultyServer server({.reasoning = "It is old."});
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  EXPECT_EQ(engine->abilities().length_name, "max_completion_tokens");
  ASSIGN_OR_FAIL(const auto result, engine->Run({.token_ids = Ids("Where?", "Be kind."),
                                                 .work = GenerateWork{.max_new_tokens = 500, .stop = {"\n"}}}));
  EXPECT_EQ(result.text, absl::StrCat("<think>It is old.</think>", FaultyServer::kContinuation));
  EXPECT_EQ(result.prompt_token_count, std::ssize(Ids("Where?", "Be kind.")));
  EXPECT_EQ(result.finish_reason, EngineFinishReason::kEos);
  const Json body = server.bodies().back();
  EXPECT_EQ(body["messages"],
            (Json{{{"role", "system"}, {"content", "Be kind."}}, {{"role", "user"}, {"content", "Where?"}}}));
  EXPECT_EQ(body["max_completion_tokens"], 500);
  EXPECT_FALSE(body.contains("prompt"));

  // What the chat API lacks is named when a job is submitted, and refused.
  EXPECT_THAT(engine->Describe().why_no_scores, Message("\"e\""));
  EXPECT_THAT(engine->Describe().why_no_plain_prompts, Message("\"e\""));
  const absl::Status scores = engine->Run({.token_ids = Ids("a"), .work = ScoreTextWork{}}).status();
  EXPECT_TRUE(HasReason(scores, ErrorReason::kEndpointWithoutLogprobs)) << scores;
  const absl::Status plain =
      engine->Run({.token_ids = *tokenizer_->Encode("Rome is"), .work = GenerateWork{.max_new_tokens = 1}}).status();
  EXPECT_EQ(plain.code(), absl::StatusCode::kInvalidArgument) << plain;
}

// A conversation is sent as it is; its ids, which are counted, are those of the format.
TEST_F(ChatEndpointTest, SendsTheTurnsOfAConversation) {
  tokenizer_ = *Tokenizer::Load("models/baseline");
  const ChatFormat format = FaultyServer::Format();
  const FaultyServer server({});
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  const std::vector<ChatTurn> turns = {
      {"system", "Be brief."}, {"user", "Who?"}, {"assistant", "She."}, {"user", "When?"}};
  const std::vector<int32_t> ids = *EncodeChat(*tokenizer_, *format.WrapTurns(turns));
  const auto result = engine->Run({.token_ids = ids, .turns = turns, .work = GenerateWork{.max_new_tokens = 4}});
  ASSERT_TRUE(result.ok()) << result.status();
  const Json sent = server.bodies().back()["messages"];
  ASSERT_EQ(sent.size(), 4u);
  EXPECT_EQ(sent[0], (Json{{"role", "system"}, {"content", "Be brief."}}));
  EXPECT_EQ(sent[2], (Json{{"role", "assistant"}, {"content", "She."}}));
  EXPECT_EQ(sent[3], (Json{{"role", "user"}, {"content", "When?"}}));
}

// One text of reasoning and content, split here; the switch of the server's template, which changes the count of the prompt.
TEST_F(ChatEndpointTest, SplitsThinkingAndSetsTheSwitch) {
  tokenizer_ = *Tokenizer::Load("models/baseline");
  const FaultyServer server({.continuation = *tokenizer_->Encode("Rome.\nOr not.", {.add_special_tokens = false}),
                             .reasoning = "Paris?\nNo."});
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  GenerateWork work;
  work.max_new_tokens = 200;
  work.stop = {"\n"};
  work.thinking =
      ThinkingWork{.rule = {{"<think>", "</think>"}, false, ""}, .tokens_max = 150, .answer_tokens_max = 50};
  for (const bool is_opened : {false, true}) {
    work.thinking->rule.is_opened = is_opened;
    ASSIGN_OR_FAIL(const auto result, engine->Run({.token_ids = Ids("Where?"), .work = work}));
    EXPECT_EQ(result.text, absl::StrCat(is_opened ? "" : "<think>", "Paris?\nNo.</think>Rome."));
    EXPECT_EQ(result.finish_reason, EngineFinishReason::kStop);
    EXPECT_GT(result.thinking_token_count, 0);
    const Json body = server.bodies().back();
    EXPECT_FALSE(body.contains("stop"));
    EXPECT_FALSE(body.contains("chat_template_kwargs"));
    EXPECT_EQ(body["max_completion_tokens"], 200);
  }
  const auto off = engine->Run({.token_ids = Ids("Where?", {}, FaultyServer::Format().WithThinking(false)),
                                .thinking_switch = false,
                                .work = work});
  ASSERT_TRUE(off.ok()) << off.status();
  EXPECT_EQ(server.bodies().back()["chat_template_kwargs"], (Json{{"enable_thinking", false}}));
  work.thinking->forced_ids = {5};
  work.max_new_tokens = 201;
  const absl::Status forced = engine->Run({.token_ids = Ids("Where?"), .work = work}).status();
  EXPECT_EQ(forced.code(), absl::StatusCode::kUnimplemented) << forced;
}

TEST_F(ChatEndpointTest, FindsOutTheServersWordAndItsTemplate) {
  const FaultyServer older({.knows_max_completion_tokens = false});
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(older)));
  EXPECT_EQ(engine->abilities().length_name, "max_tokens");
  EXPECT_TRUE(engine->Run({.token_ids = Ids("a"), .work = GenerateWork{.max_new_tokens = 2}}).ok());
  EXPECT_EQ(older.bodies().back()["max_tokens"], 2);

  const FaultyServer other({.is_template_other = true});
  const absl::Status refused = Make(Spec(other)).status();
  EXPECT_TRUE(HasReason(refused, ErrorReason::kEndpointWrongCount)) << refused;
  EXPECT_THAT(refused.message(), Message("\"e\""));
  EndpointSpec unchecked = Spec(other);
  unchecked.checks_prompt_counts = false;
  ASSIGN_OR_FAIL(const auto loose, Make(unchecked, PlainChatFormat()));
  EXPECT_TRUE(
      loose->Run({.token_ids = Ids("a", {}, PlainChatFormat()), .work = GenerateWork{.max_new_tokens = 2}}).ok());
}

// llama.cpp's server passes the variable to templates that leave it out, by a guess of its own.
TEST_F(ChatEndpointTest, StatesTheSwitchWhereTheServersDefaultIsAnother) {
  const FaultyServer server({.thinks_by_default = false});
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  EXPECT_EQ(engine->abilities().length_name, "max_completion_tokens");
  EXPECT_EQ(FaultyServer::Format().DefaultThinking(), true);
  EXPECT_FALSE(PlainChatFormat().DefaultThinking().has_value());
  for (const std::optional<bool> set : {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    const bool is_on = set.value_or(true);
    const ChatFormat format = is_on ? FaultyServer::Format() : FaultyServer::Format().WithThinking(false);
    const auto result = engine->Run(
        {.token_ids = Ids("a", {}, format), .thinking_switch = set, .work = GenerateWork{.max_new_tokens = 2}});
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(server.bodies().back()["chat_template_kwargs"], (Json{{"enable_thinking", is_on}}));
  }
}

TEST_F(ChatEndpointTest, ACallBeyondTheBudgetLeavesOthersServed) {
  FaultyServer server({});
  budget_ = std::make_shared<EndpointBudget>(400);
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  const auto ask = [&](int count) {
    return engine->Run({.token_ids = Ids("a"), .work = GenerateWork{.max_new_tokens = count}}).status();
  };
  EXPECT_TRUE(HasReason(ask(1000), ErrorReason::kEndpointBudgetSpent));
  EXPECT_TRUE(engine->Fault().ok());
  EXPECT_TRUE(ask(1).ok());
}

TEST_F(ChatEndpointTest, EndsWithASpentBudget) {
  FaultyServer server({});
  budget_ = std::make_shared<EndpointBudget>(800);
  ASSIGN_OR_FAIL(const auto engine, Make(Spec(server)));
  absl::Status status = absl::OkStatus();
  int answers = 0;
  for (; status.ok(); ++answers) {
    EngineRequest request{.token_ids = Ids("Where is Rome?"), .work = GenerateWork{.max_new_tokens = 8}};
    request.lane = EngineLane::kJob;
    status = engine->Run(std::move(request)).status();
  }
  EXPECT_GT(answers, 2) << budget_->spent();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_TRUE(HasReason(engine->Fault(), ErrorReason::kEndpointBudgetSpent)) << engine->Fault();
  EXPECT_LE(budget_->spent(), 800);
  const size_t sent = server.bodies().size();
  EXPECT_FALSE(engine->Run({.token_ids = Ids("a"), .work = GenerateWork{.max_new_tokens = 1}}).ok());
  EXPECT_EQ(server.bodies().size(), sent);
}

}  // namespace
}  // namespace varifocal
