// Calls of the services to a model behind the chat API, over real sockets on both sides: the switch for thinking of Generate
// reaches the other server, also through a coordinator, as the messages of a conversation do; a job that forces the ends of
// blocks, or sets a filter that the server does not know, is refused when it is submitted.
#include <gmock/gmock.h>

#include <filesystem>
#include <future>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "server/endpoint/faulty_server.h"
#include "server/workers/remote_workers.h"
#include "server/workers/worker_model.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

class EndpointCallsTest : public ServerTest {
 protected:
  void SetUp() override {
    const std::string model = directory_.File("model");
    std::filesystem::create_directory(model);
    std::filesystem::copy_file("models/baseline/tokenizer.json", model + "/tokenizer.json");
    const ChatFormat format = FaultyServer::Format();
    const auto sides = [](const ChatFormat::Texts& texts) {
      return Json{{"without_system", {{"prefix", texts.prefix}, {"suffix", texts.suffix}}}, {"with_system", nullptr}};
    };
    Json json = sides(format.without_system);
    json["template_sha256"] = format.template_sha256;
    json["thinking"] = {{"begin", format.thinking->begin}, {"end", format.thinking->end}};
    json["thinking_switch"] = {{"variable", format.thinking_switch->variable},
                               {"on", sides(format.thinking_switch->on.without_system)},
                               {"off", sides(format.thinking_switch->off.without_system)}};
    WriteFile(model + "/chat_format.json", json.dump());
    options_.endpoints = {absl::StrCat("e=", other_.url(), ",api=chat,tokenizer=", model)};
    ServerTest::SetUp();
  }

  FaultyServer other_{{.filters = FaultyServer::Filters::kRefused}};
};

TEST_F(EndpointCallsTest, TheSwitchOfGenerateReachesTheServer) {
  v1::GenerateRequest request = SmallGenerate();
  request.set_model("models/e");
  request.mutable_chat();
  ASSERT_TRUE(Generate(request).ok());
  EXPECT_FALSE(other_.bodies().back().contains("chat_template_kwargs"));
  for (const bool is_on : {true, false}) {
    (*request.mutable_overrides())["thinking"].clear_values();
    (*request.mutable_overrides())["thinking"].add_values(is_on ? 1 : 0);
    const grpc::Status status = Generate(request);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(other_.bodies().back()["chat_template_kwargs"], (Json{{"enable_thinking", is_on}}));
    EXPECT_EQ(other_.bodies().back()["messages"], (Json{{{"role", "user"}, {"content", "Find the key"}}}));
  }
  // Without a chat format there is nothing to be switched, and no other server is asked.
  const size_t asked = other_.bodies().size();
  request.clear_chat();
  const grpc::Status plain = Generate(request);
  EXPECT_EQ(plain.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonIn(plain), "BAD_ATTENTION_OVERRIDE");
  EXPECT_EQ(other_.bodies().size(), asked);
}

TEST_F(EndpointCallsTest, ACoordinatorPassesTurnsAndTheSwitch) {
  RemoteWorkersOptions options;
  options.addresses = {server_->address()};
  options.model_names = {"e"};
  options.connect_timeout = std::chrono::milliseconds(5000);
  ASSIGN_OR_FAIL(auto workers, RemoteWorkers::Connect(options));
  ASSIGN_OR_FAIL(const auto model, MakeWorkerModel(std::move(workers), "e", directory_.File("model")));
  const EngineDescription engine = model->engine->Describe();
  EXPECT_THAT(engine.why_no_scores, Message("\"e\""));
  EXPECT_THAT(engine.why_no_plain_prompts, Message("\"e\""));
  EXPECT_THAT(engine.why_no_top_k, Message("top_k"));
  EXPECT_THAT(engine.why_no_forced_end, Message("forced"));
  const std::vector<ChatTurn> turns = {{"user", "Who?"}, {"assistant", "She."}, {"user", "When?"}};
  for (const bool is_on : {true, false}) {
    const ChatFormat format = is_on ? FaultyServer::Format() : FaultyServer::Format().WithThinking(false);
    EngineRequest request;
    request.token_ids = *EncodeChat(*model->tokenizer, *format.WrapTurns(turns));
    request.turns = turns;
    request.thinking_switch = is_on;
    request.work = GenerateWork{.max_new_tokens = 4};
    std::promise<absl::StatusOr<EngineResult>> ended;
    EngineCallbacks callbacks;
    callbacks.on_done = [&](absl::StatusOr<EngineResult> result) { ended.set_value(std::move(result)); };
    ASSERT_TRUE(model->engine->Start(request, std::move(callbacks)).ok());
    const absl::StatusOr<EngineResult> result = ended.get_future().get();
    ASSERT_TRUE(result.ok()) << result.status();
    const Json sent = other_.bodies().back();
    EXPECT_EQ(sent["chat_template_kwargs"], (Json{{"enable_thinking", is_on}}));
    ASSERT_EQ(sent["messages"].size(), 3u);
    EXPECT_EQ(sent["messages"][1], (Json{{"role", "assistant"}, {"content", "She."}}));
  }
  // Neither is known of a prompt that this daemon wraps itself.
  v1::GenerateRequest text = SmallGenerate();
  text.set_model("models/e");
  text.add_turns()->set_role("user");
  EXPECT_EQ(ReasonIn(Generate(text)), "BAD_CHAT");
  text.clear_turns();
  text.set_thinking_switch(true);
  EXPECT_EQ(ReasonIn(Generate(text)), "BAD_CHAT");
}

TEST_F(EndpointCallsTest, AFilterThatTheServerRefusesIsNamedWhenAJobIsSubmitted) {
  v1::SubmitJobRequest request = SmallJob();
  request.mutable_spec()->clear_variants();
  request.mutable_spec()->add_variants()->set_model("models/e");
  request.mutable_spec()->mutable_suite()->mutable_tasks(0)->set_chat(true);
  request.mutable_spec()->set_sampling_temperature(0.7);
  request.mutable_spec()->set_top_k(20);
  v1::SubmitJobResponse response;
  const grpc::Status refused = Submit(request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(refused), "ENDPOINT_WITHOUT_SAMPLING");
  EXPECT_THAT(refused.error_message(), Message("top_k", "\"e\"", "Unrecognized"));
  request.mutable_spec()->clear_top_k();
  EXPECT_TRUE(Submit(request, &response).ok());
}

TEST_F(EndpointCallsTest, AJobWithForcedEndsIsRefusedWhenItIsSubmitted) {
  v1::SubmitJobRequest request = SmallJob();
  v1::SuiteConfig& suite = *request.mutable_spec()->mutable_suite();
  request.mutable_spec()->clear_variants();
  request.mutable_spec()->add_variants()->set_model("models/e");
  suite.mutable_tasks(0)->set_chat(true);
  suite.mutable_answer()->set_thinking_max_tokens(64);
  suite.mutable_thinking()->set_force(true);
  const size_t asked = other_.bodies().size();
  v1::SubmitJobResponse response;
  const grpc::Status refused = Submit(request, &response);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ReasonIn(refused), "BAD_THINKING");
  EXPECT_THAT(refused.error_message(), Message("recall_kv", "force", "chat API", "\"e\""));
  EXPECT_EQ(other_.bodies().size(), asked);
  suite.mutable_thinking()->set_force(false);
  const grpc::Status accepted = Submit(request, &response);
  EXPECT_TRUE(accepted.ok()) << accepted.error_message();
}

}  // namespace
}  // namespace varifocal
