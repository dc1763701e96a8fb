// The services as a client sees them: a real server on a loopback socket, real channels, an engine that computes nothing. Status
// codes and reasons table-driven; streams, watching, cancelling, deadlines, health, reflection, message size, shutdown.
#include "server/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <limits>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "server/jobs/reason.h"
#include "tests/fakes/fake_engine.h"
#include "tests/support/process.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

std::string ReasonIn(const grpc::Status& status) {
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  if (!details.ParseFromString(status.error_details())) return "(unreadable details)";
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&info)) return info.domain() == "varifocal.v1" ? info.reason() : "(foreign domain)";
  }
  return "(no reason)";
}

// "SERVING", "NOT_SERVING" or the error code, spoken by hand: Debian has no compiled health client.
std::string Health(const std::shared_ptr<grpc::Channel>& channel, const std::string& service) {
  grpc::GenericStub stub(channel);
  const std::string request = service.empty() ? "" : absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())), service);
  grpc::Slice slice(request);
  grpc::ByteBuffer in(&slice, 1), out;
  grpc::ClientContext context;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, "/grpc.health.v1.Health/Check", grpc::StubOptions(), &in, &out,
                 [&done](grpc::Status status) { done.set_value(std::move(status)); });
  const grpc::Status status = done.get_future().get();
  if (!status.ok()) return absl::StrCat("error ", status.error_code());
  std::vector<grpc::Slice> slices;
  if (!out.Dump(&slices).ok()) return "unreadable";
  std::string bytes;
  for (const grpc::Slice& part : slices) bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  return bytes == std::string("\x08\x01", 2) ? "SERVING" : bytes == std::string("\x08\x02", 2) ? "NOT_SERVING" : "other";
}

class ServerTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    options_.database_path = directory_.File("results.db");
    options_.models = {{"a", "fake"}, {"b", "fake-b"}, {"bare", "fake-bare"}, {"learned", "fake-learned"}};
    options_.listen_address = "127.0.0.1:0";
    options_.model_factory = MakeFakeModelFactory(control_);
    auto server = Server::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(kMessageBytesMax);
    channel_ = grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(), arguments);
    inference_ = v1::Inference::NewStub(channel_);
    evaluation_ = v1::Evaluation::NewStub(channel_);
  }

  static v1::GenerateRequest SmallGenerate() {
    v1::GenerateRequest request;
    request.set_model("models/a");
    request.set_prompt_text("Find the key");
    request.set_max_new_tokens(8);
    return request;
  }

  static v1::SubmitJobRequest SmallJob() {
    v1::SubmitJobRequest request;
    v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
    suite->set_name("small");
    suite->add_lengths(256);
    suite->set_samples(8);
    suite->add_tasks()->set_kind("recall_kv");
    request.mutable_spec()->add_variants()->set_model("models/a");
    request.mutable_spec()->add_variants()->set_model("models/b");
    return request;
  }

  grpc::Status Generate(const v1::GenerateRequest& request, std::vector<v1::GenerateResponse>* messages = nullptr) {
    grpc::ClientContext context;
    const auto reader = inference_->Generate(&context, request);
    for (v1::GenerateResponse message; reader->Read(&message);) {
      if (messages != nullptr) messages->push_back(message);
    }
    return reader->Finish();
  }

  grpc::Status Submit(const v1::SubmitJobRequest& request, v1::SubmitJobResponse* response) {
    grpc::ClientContext context;
    return evaluation_->SubmitJob(&context, request, response);
  }

  v1::Job GetJob(const std::string& name) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    grpc::ClientContext context;
    EXPECT_TRUE(evaluation_->GetJob(&context, request, &job).ok());
    return job;
  }

  testing_support::TemporaryDirectory directory_;
  std::shared_ptr<FakeEngineControl> control_ = std::make_shared<FakeEngineControl>();
  ServerOptions options_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Inference::Stub> inference_;
  std::unique_ptr<v1::Evaluation::Stub> evaluation_;
};

TEST_F(ServerTest, ListsModelsInPages) {
  v1::ListModelsRequest request;
  request.set_page_size(3);
  v1::ListModelsResponse first, second;
  grpc::ClientContext context1, context2;
  ASSERT_TRUE(inference_->ListModels(&context1, request, &first).ok());
  ASSERT_EQ(first.models_size(), 3);
  EXPECT_EQ(first.models(0).name(), "models/a");
  EXPECT_EQ(first.models(0).context_length_max(), 4096);
  EXPECT_EQ(first.models(0).state(), v1::Model::READY);
  request.set_page_token(first.next_page_token());
  ASSERT_TRUE(inference_->ListModels(&context2, request, &second).ok());
  ASSERT_EQ(second.models_size(), 1);
  EXPECT_EQ(second.models(0).name(), "models/learned");
  EXPECT_EQ(second.models(0).attention_mode(), v1::Model::FOCAL_LEARNED);
  EXPECT_EQ(second.next_page_token(), "");
}

TEST_F(ServerTest, GenerateStreamsTokensAndThenOneResult) {
  std::vector<v1::GenerateResponse> messages;
  const grpc::Status status = Generate(SmallGenerate(), &messages);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_FALSE(messages.empty());
  const v1::GenerateResponse& last = messages.back();
  ASSERT_TRUE(last.has_result());
  EXPECT_EQ(last.result().finish_reason(), v1::GenerationResult::EOS);
  EXPECT_TRUE(absl::StartsWith(last.result().text(), "answer-"));
  EXPECT_EQ(last.result().token_log_probs_size(), last.result().token_ids_size());
  std::vector<int32_t> streamed;
  for (size_t i = 0; i + 1 < messages.size(); ++i) {
    ASSERT_TRUE(messages[i].has_new_tokens());
    for (int32_t id : messages[i].new_tokens().ids()) streamed.push_back(id);
  }
  ASSERT_LE(streamed.size(), static_cast<size_t>(last.result().token_ids_size()));
  for (size_t i = 0; i < streamed.size(); ++i) EXPECT_EQ(streamed[i], last.result().token_ids(i));
}

TEST_F(ServerTest, GenerateRefusesByReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  struct Case {
    const char* name;
    std::function<void(v1::GenerateRequest&)> spoil;
    grpc::StatusCode code;
    const char* reason;
    const char* words;
  };
  using R = v1::GenerateRequest;
  const Case cases[] = {
      {"unknown model", [](R& r) { r.set_model("models/nobody"); }, grpc::NOT_FOUND, "MODEL_NOT_FOUND", "nobody"},
      {"no model", [](R& r) { r.clear_model(); }, grpc::INVALID_ARGUMENT, "BAD_RESOURCE_NAME", "models/NAME"},
      {"path as model", [](R& r) { r.set_model("models/../etc"); }, grpc::INVALID_ARGUMENT, "BAD_RESOURCE_NAME", "../etc"},
      {"no prompt", [](R& r) { r.clear_prompt(); }, grpc::INVALID_ARGUMENT, "EMPTY_PROMPT", "no token"},
      {"no ids", [](R& r) { r.mutable_prompt_token_ids(); }, grpc::INVALID_ARGUMENT, "EMPTY_PROMPT", "no token"},
      {"id too large", [](R& r) { r.mutable_prompt_token_ids()->add_ids(2048); }, grpc::INVALID_ARGUMENT, "BAD_TOKEN_ID", "2048"},
      {"id negative", [](R& r) { r.mutable_prompt_token_ids()->add_ids(-1); }, grpc::INVALID_ARGUMENT, "BAD_TOKEN_ID", "-1"},
      {"unset new tokens", [](R& r) { r.clear_max_new_tokens(); }, grpc::INVALID_ARGUMENT, "BAD_MAX_NEW_TOKENS", "not set"},
      {"no new tokens", [](R& r) { r.set_max_new_tokens(0); }, grpc::INVALID_ARGUMENT, "BAD_MAX_NEW_TOKENS", "0"},
      {"focal zero", [](R& r) { r.add_focal_temperatures(0); }, grpc::INVALID_ARGUMENT, "BAD_FOCAL_TEMPERATURE", "0"},
      {"focal negative", [](R& r) { r.add_focal_temperatures(-0.5); }, grpc::INVALID_ARGUMENT, "BAD_FOCAL_TEMPERATURE", "-0.5"},
      {"focal nan", [=](R& r) { r.add_focal_temperatures(nan); }, grpc::INVALID_ARGUMENT, "BAD_FOCAL_TEMPERATURE", "nan"},
      {"focal inf", [=](R& r) { r.add_focal_temperatures(inf); }, grpc::INVALID_ARGUMENT, "BAD_FOCAL_TEMPERATURE", "inf"},
      {"focal count", [](R& r) { for (int i = 0; i < 3; ++i) r.add_focal_temperatures(1); }, grpc::INVALID_ARGUMENT,
       "BAD_FOCAL_TEMPERATURE", "3 focal temperatures"},
      {"focal on learned", [](R& r) { r.set_model("models/learned"); r.add_focal_temperatures(1); }, grpc::INVALID_ARGUMENT,
       "BAD_FOCAL_TEMPERATURE", "learned"},
      {"sampling negative", [](R& r) { r.mutable_decode_settings()->set_sampling_temperature(-1); }, grpc::INVALID_ARGUMENT,
       "BAD_SAMPLING_TEMPERATURE", "-1"},
      {"sampling nan", [=](R& r) { r.mutable_decode_settings()->set_sampling_temperature(nan); }, grpc::INVALID_ARGUMENT,
       "BAD_SAMPLING_TEMPERATURE", "nan"},
      {"top_p zero", [](R& r) { r.mutable_decode_settings()->set_top_p(0); }, grpc::INVALID_ARGUMENT, "BAD_TOP_P", "0"},
      {"top_p above one", [](R& r) { r.mutable_decode_settings()->set_top_p(1.5); }, grpc::INVALID_ARGUMENT, "BAD_TOP_P", "1.5"},
      {"top_p nan", [=](R& r) { r.mutable_decode_settings()->set_top_p(nan); }, grpc::INVALID_ARGUMENT, "BAD_TOP_P", "nan"},
      {"empty stop", [](R& r) { r.mutable_decode_settings()->add_stop(""); }, grpc::INVALID_ARGUMENT, "BAD_STOP", "empty"},
      {"many stops", [](R& r) { for (int i = 0; i < 17; ++i) r.mutable_decode_settings()->add_stop("x"); }, grpc::INVALID_ARGUMENT,
       "BAD_STOP", "17"},
      {"text without tokenizer", [](R& r) { r.set_model("models/bare"); }, grpc::FAILED_PRECONDITION, "MODEL_WITHOUT_TOKENIZER", "bare"},
  };
  for (const Case& c : cases) {
    v1::GenerateRequest request = SmallGenerate();
    c.spoil(request);
    const grpc::Status status = Generate(request);
    EXPECT_EQ(status.error_code(), c.code) << c.name << ": " << status.error_message();
    EXPECT_EQ(ReasonIn(status), c.reason) << c.name << ": " << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(c.words)) << c.name;
  }
  EXPECT_EQ(control_->started_count(), 0) << "nothing of this reaches an engine";
}

TEST_F(ServerTest, PromptLengthLimitIsExact) {
  for (const int prompt_tokens : {1, 4087, 4088, 4089, 4096, 40960}) {
    v1::GenerateRequest request = SmallGenerate();
    for (int i = 0; i < prompt_tokens; ++i) request.mutable_prompt_token_ids()->add_ids(5);
    const grpc::Status status = Generate(request);
    if (prompt_tokens + 8 <= 4096) {
      EXPECT_TRUE(status.ok()) << prompt_tokens << ": " << status.error_message();
    } else {
      EXPECT_EQ(ReasonIn(status), "PROMPT_TOO_LONG") << prompt_tokens;
      EXPECT_THAT(status.error_message(), HasSubstr(absl::StrCat(prompt_tokens)));
      EXPECT_THAT(status.error_message(), HasSubstr("4096"));
    }
  }
}

TEST_F(ServerTest, ZeroTemperatureIsGreedyAndNotADefault) {
  v1::GenerateRequest request = SmallGenerate();
  request.mutable_decode_settings()->set_sampling_temperature(0);
  EXPECT_TRUE(Generate(request).ok());
}

TEST_F(ServerTest, LogLikelihoodsOfContinuationsAndOfText) {
  v1::ComputeLogLikelihoodsRequest request;
  request.set_model("models/a");
  request.set_prompt_text("Question: where is it? ");
  request.add_continuations()->set_text("here");
  request.add_continuations()->set_text("over there");
  request.set_per_token(true);
  v1::ComputeLogLikelihoodsResponse response;
  grpc::ClientContext context;
  grpc::Status status = inference_->ComputeLogLikelihoods(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.continuations_size(), 2);
  for (const auto& continuation : response.continuations()) {
    EXPECT_GT(continuation.token_count(), 0);
    EXPECT_EQ(continuation.token_ids_size(), continuation.token_count());
    EXPECT_EQ(continuation.token_log_probs_size(), continuation.token_count());
    EXPECT_DOUBLE_EQ(continuation.log_likelihood(), -0.5 * continuation.token_count());
  }

  request.clear_continuations();
  grpc::ClientContext context2;
  response.Clear();
  ASSERT_TRUE(inference_->ComputeLogLikelihoods(&context2, request, &response).ok());
  EXPECT_EQ(response.token_log_probs_size(), response.token_ids_size() - 1);
  EXPECT_DOUBLE_EQ(response.log_likelihood(), -0.5 * (response.token_ids_size() - 1));

  request.add_continuations()->mutable_token_ids()->add_ids(1);
  grpc::ClientContext context3;
  EXPECT_EQ(ReasonIn(inference_->ComputeLogLikelihoods(&context3, request, &response)), "BAD_CONTINUATION");
}

TEST_F(ServerTest, TokenizesAndBack) {
  v1::TokenizeRequest request;
  request.set_model("models/a");
  request.set_text("Find the key\xff");
  v1::TokenizeResponse ids;
  grpc::ClientContext context;
  ASSERT_TRUE(inference_->Tokenize(&context, request, &ids).ok());
  EXPECT_EQ(ids.invalid_utf8_count(), 1);
  v1::DetokenizeRequest back;
  back.set_model("models/a");
  *back.mutable_token_ids() = ids.token_ids();
  v1::DetokenizeResponse text;
  grpc::ClientContext context2;
  ASSERT_TRUE(inference_->Detokenize(&context2, back, &text).ok());
  EXPECT_EQ(text.text(), "Find the key\xEF\xBF\xBD");
}

TEST_F(ServerTest, AClientThatLeavesStopsItsRequest) {
  control_->Hold();
  for (const bool by_deadline : {false, true}) {
    const int cancelled_before = control_->cancelled_count(), started_before = control_->started_count();
    grpc::ClientContext context;
    if (by_deadline) context.set_deadline(std::chrono::system_clock::now() + milliseconds(200));
    const auto reader = inference_->Generate(&context, SmallGenerate());
    while (control_->started_count() == started_before) std::this_thread::sleep_for(milliseconds(1));
    if (!by_deadline) context.TryCancel();
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), by_deadline ? grpc::DEADLINE_EXCEEDED : grpc::CANCELLED);
    for (int i = 0; i < 500 && control_->cancelled_count() == cancelled_before; ++i) std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(control_->cancelled_count(), cancelled_before + 1);
  }
  control_->Release();
  EXPECT_TRUE(Generate(SmallGenerate()).ok()) << "and the server goes on";
}

TEST_F(ServerTest, ManyCallsAtOnceAllEnd) {
  std::vector<std::thread> threads;
  std::atomic<int> done = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        grpc::ClientContext context;
        // Some of them are given up at random-looking instants.
        if ((i + k) % 3 == 0) context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(100 * k));
        const auto reader = inference_->Generate(&context, SmallGenerate());
        v1::GenerateResponse message;
        while (reader->Read(&message)) {
        }
        const grpc::Status status = reader->Finish();
        if (status.ok() || status.error_code() == grpc::DEADLINE_EXCEEDED) ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 160);
}

TEST_F(ServerTest, LoadsAndUnloadsModels) {
  v1::LoadModelRequest request;
  request.set_model_id("late");
  request.set_directory("fake-late");
  v1::Model model;
  grpc::ClientContext context;
  ASSERT_TRUE(inference_->LoadModel(&context, request, &model).ok());
  EXPECT_EQ(model.name(), "models/late");
  EXPECT_EQ(Health(channel_, "model/late"), "SERVING");
  grpc::ClientContext context2;
  EXPECT_TRUE(inference_->LoadModel(&context2, request, &model).ok()) << "the same again is the present one";
  request.set_directory("elsewhere");
  grpc::ClientContext context3;
  EXPECT_EQ(ReasonIn(inference_->LoadModel(&context3, request, &model)), "MODEL_ALREADY_LOADED");
  request.set_model_id("../x");
  grpc::ClientContext context4;
  EXPECT_EQ(ReasonIn(inference_->LoadModel(&context4, request, &model)), "BAD_MODEL_NAME");
  request.set_model_id("gone");
  request.set_directory("missing");
  grpc::ClientContext context5;
  EXPECT_EQ(inference_->LoadModel(&context5, request, &model).error_code(), grpc::NOT_FOUND);

  v1::UnloadModelRequest unload;
  unload.set_name("models/late");
  v1::UnloadModelResponse gone;
  grpc::ClientContext context6;
  ASSERT_TRUE(inference_->UnloadModel(&context6, unload, &gone).ok());
  EXPECT_EQ(Health(channel_, "model/late"), "NOT_SERVING");
  grpc::ClientContext context7;
  EXPECT_EQ(ReasonIn(inference_->UnloadModel(&context7, unload, &gone)), "MODEL_NOT_FOUND");

  control_->Hold();
  v1::SubmitJobResponse job;
  ASSERT_TRUE(Submit(SmallJob(), &job).ok());
  unload.set_name("models/a");
  grpc::ClientContext context8;
  EXPECT_EQ(ReasonIn(inference_->UnloadModel(&context8, unload, &gone)), "MODEL_IN_USE");
  control_->Release();
}

TEST_F(ServerTest, SubmitWatchAndGet) {
  control_->SetDelayMs(30);
  v1::SubmitJobResponse submitted;
  ASSERT_TRUE(Submit(SmallJob(), &submitted).ok());
  EXPECT_EQ(submitted.job().variants_size(), 2);
  EXPECT_EQ(submitted.job().spec().suite().tasks(0).metrics(0), "exact_match") << "the spec comes back complete";

  v1::WatchJobRequest watch;
  watch.set_name(submitted.job().name());
  grpc::ClientContext context;
  const auto reader = evaluation_->WatchJob(&context, watch);
  std::vector<v1::WatchJobResponse> messages;
  for (v1::WatchJobResponse message; reader->Read(&message);) messages.push_back(message);
  ASSERT_TRUE(reader->Finish().ok());
  ASSERT_GE(messages.size(), 2u);
  for (size_t i = 0; i < messages.size(); ++i) {
    EXPECT_EQ(messages[i].sequence_number(), static_cast<int64_t>(i) + 1);
    EXPECT_EQ(messages[i].job().progress().cells_size(), 2);
    const int64_t before = i > 0 ? messages[i - 1].job().progress().done_count() : 0;
    EXPECT_GE(messages[i].job().progress().done_count(), before);
    EXPECT_EQ(messages[i].job().state() == v1::Job::SUCCEEDED, i + 1 == messages.size());
  }
  EXPECT_EQ(messages.back().job().progress().done_count(), 16);

  const v1::Job job = GetJob(submitted.job().name());
  EXPECT_EQ(job.state(), v1::Job::SUCCEEDED);
  EXPECT_TRUE(job.has_end_time());
  // Watching a settled job is one message.
  grpc::ClientContext context2;
  const auto again = evaluation_->WatchJob(&context2, watch);
  v1::WatchJobResponse message;
  EXPECT_TRUE(again->Read(&message));
  EXPECT_FALSE(again->Read(&message));
  EXPECT_TRUE(again->Finish().ok());
}

TEST_F(ServerTest, WatchersThatLeaveOrStallHurtNobody) {
  control_->SetDelayMs(10);
  v1::SubmitJobResponse submitted;
  ASSERT_TRUE(Submit(SmallJob(), &submitted).ok());
  v1::WatchJobRequest watch;
  watch.set_name(submitted.job().name());
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>>> stalled;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    stalled.push_back(evaluation_->WatchJob(contexts.back().get(), watch));  // and never read
    if (i % 2 == 0) contexts.back()->TryCancel();
  }
  for (int i = 0; i < 1000 && GetJob(submitted.job().name()).state() != v1::Job::SUCCEEDED; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(submitted.job().name()).state(), v1::Job::SUCCEEDED);
  for (auto& context : contexts) context->TryCancel();
  for (auto& reader : stalled) reader->Finish();
}

TEST_F(ServerTest, CancelAndResume) {
  control_->SetDelayMs(20);
  v1::SubmitJobResponse submitted;
  ASSERT_TRUE(Submit(SmallJob(), &submitted).ok());
  const std::string name = submitted.job().name();
  v1::CancelJobRequest cancel;
  cancel.set_name(name);
  v1::Job job;
  grpc::ClientContext context;
  ASSERT_TRUE(evaluation_->CancelJob(&context, cancel, &job).ok());
  EXPECT_TRUE(job.state() == v1::Job::CANCELLING || job.state() == v1::Job::CANCELLED);
  for (int i = 0; i < 500 && GetJob(name).state() != v1::Job::CANCELLED; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(name).state(), v1::Job::CANCELLED);
  v1::ResumeJobRequest resume;
  resume.set_name(name);
  grpc::ClientContext context2;
  ASSERT_TRUE(evaluation_->ResumeJob(&context2, resume, &job).ok());
  for (int i = 0; i < 1000 && GetJob(name).state() != v1::Job::SUCCEEDED; ++i) std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(name).progress().done_count(), 16);
  grpc::ClientContext context3;
  EXPECT_EQ(ReasonIn(evaluation_->CancelJob(&context3, cancel, &job)), "JOB_FINISHED");
}

TEST_F(ServerTest, SubmitRefusesByReason) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* name;
    std::function<void(v1::SubmitJobRequest&)> spoil;
    grpc::StatusCode code;
    const char* reason;
  };
  using R = v1::SubmitJobRequest;
  const auto suite = [](R& r) { return r.mutable_spec()->mutable_suite(); };
  const auto variant = [](R& r) { return r.mutable_spec()->mutable_variants(0); };
  const Case cases[] = {
      {"empty", [](R& r) { r.clear_spec(); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown model", [=](R& r) { variant(r)->set_model("models/c"); }, grpc::NOT_FOUND, "MODEL_NOT_FOUND"},
      {"sql as model", [=](R& r) { variant(r)->set_model("models/a'; DROP TABLE jobs; --"); }, grpc::INVALID_ARGUMENT, "BAD_RESOURCE_NAME"},
      {"variant twice", [=](R& r) { variant(r)->set_model("models/b"); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown task", [=](R& r) { suite(r)->mutable_tasks(0)->set_kind("recall"); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown metric", [=](R& r) { suite(r)->mutable_tasks(0)->add_metrics("f2"); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"unknown parameter", [=](R& r) { (*suite(r)->mutable_tasks(0)->mutable_parameters())["dept"] = "1"; }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"zero length", [=](R& r) { suite(r)->set_lengths(0, 0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"negative length", [=](R& r) { suite(r)->set_lengths(0, -8); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"too long", [=](R& r) { suite(r)->set_lengths(0, 4097); }, grpc::INVALID_ARGUMENT, "CONTEXT_TOO_LONG"},
      {"no samples", [=](R& r) { suite(r)->set_samples(0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"in flight", [](R& r) { r.mutable_spec()->set_in_flight(2000); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"focal zero", [=](R& r) { variant(r)->add_focal_temperatures(0); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"focal nan", [=](R& r) { variant(r)->add_focal_temperatures(nan); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
      {"sampling nan", [=](R& r) { r.mutable_spec()->set_sampling_temperature(nan); }, grpc::INVALID_ARGUMENT, "BAD_JOB_SPEC"},
  };
  for (const Case& c : cases) {
    for (const bool validate_only : {false, true}) {
      v1::SubmitJobRequest request = SmallJob();
      c.spoil(request);
      request.set_validate_only(validate_only);
      v1::SubmitJobResponse response;
      const grpc::Status status = Submit(request, &response);
      EXPECT_EQ(status.error_code(), c.code) << c.name << ": " << status.error_message();
      EXPECT_EQ(ReasonIn(status), c.reason) << c.name << ": " << status.error_message();
    }
  }
  v1::ListJobsResponse jobs;
  grpc::ClientContext context;
  ASSERT_TRUE(evaluation_->ListJobs(&context, {}, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0) << "nothing was stored";
}

TEST_F(ServerTest, RequestIdAndDryRun) {
  v1::SubmitJobRequest request = SmallJob();
  request.set_validate_only(true);
  v1::SubmitJobResponse response;
  ASSERT_TRUE(Submit(request, &response).ok());
  EXPECT_FALSE(response.has_job());
  EXPECT_EQ(response.estimate().sample_count(), 16);
  EXPECT_GT(response.estimate().duration_seconds(), 0);

  request = SmallJob();
  request.set_request_id("9b2f");
  ASSERT_TRUE(Submit(request, &response).ok());
  const std::string name = response.job().name();
  ASSERT_TRUE(Submit(request, &response).ok());
  EXPECT_EQ(response.job().name(), name);
  request.mutable_spec()->mutable_suite()->set_seed(2);
  EXPECT_EQ(ReasonIn(Submit(request, &response)), "REQUEST_ID_REUSED");
}

TEST_F(ServerTest, JobNamesAndPages) {
  for (const char* name : {"", "jobs/", "jobs/0", "jobs/-1", "jobs/01", "jobs/1x", "1", "jobs/99999999999999999999", "jobs/1 OR 1=1"}) {
    v1::GetJobRequest request;
    request.set_name(name);
    v1::Job job;
    grpc::ClientContext context;
    EXPECT_EQ(ReasonIn(evaluation_->GetJob(&context, request, &job)), "BAD_RESOURCE_NAME") << name;
    v1::WatchJobRequest watch;
    watch.set_name(name);
    grpc::ClientContext context2;
    EXPECT_EQ(ReasonIn(evaluation_->WatchJob(&context2, watch)->Finish()), "BAD_RESOURCE_NAME") << name;
  }
  v1::WatchJobRequest watch;
  watch.set_name("jobs/12345");
  grpc::ClientContext context;
  EXPECT_EQ(ReasonIn(evaluation_->WatchJob(&context, watch)->Finish()), "JOB_NOT_FOUND");

  for (int i = 0; i < 5; ++i) {
    v1::SubmitJobResponse response;
    ASSERT_TRUE(Submit(SmallJob(), &response).ok());
  }
  std::vector<std::string> names;
  v1::ListJobsRequest list;
  list.set_page_size(2);
  do {
    v1::ListJobsResponse page;
    grpc::ClientContext page_context;
    ASSERT_TRUE(evaluation_->ListJobs(&page_context, list, &page).ok());
    EXPECT_LE(page.jobs_size(), 2);
    for (const v1::Job& job : page.jobs()) names.push_back(job.name());
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  EXPECT_EQ(names, (std::vector<std::string>{"jobs/5", "jobs/4", "jobs/3", "jobs/2", "jobs/1"}));

  v1::ListJobsResponse page;
  list.set_page_token("forged");
  grpc::ClientContext context3;
  EXPECT_EQ(ReasonIn(evaluation_->ListJobs(&context3, list, &page)), "BAD_PAGE_TOKEN");
  list.clear_page_token();
  list.set_page_size(-1);
  grpc::ClientContext context4;
  EXPECT_EQ(ReasonIn(evaluation_->ListJobs(&context4, list, &page)), "BAD_PAGE_SIZE");
}

TEST_F(ServerTest, SuitesAndTasks) {
  v1::ListSuitesResponse suites;
  grpc::ClientContext context;
  ASSERT_TRUE(evaluation_->ListSuites(&context, {}, &suites).ok());
  ASSERT_GE(suites.suites_size(), 2);
  EXPECT_THAT(suites.suites(0).yaml(), HasSubstr("tasks:"));
  v1::ListTasksResponse tasks;
  grpc::ClientContext context2;
  ASSERT_TRUE(evaluation_->ListTasks(&context2, {}, &tasks).ok());
  EXPECT_GE(tasks.tasks_size(), 5);
}

TEST_F(ServerTest, MessagesAboveTheCapAreRefused) {
  v1::TokenizeRequest request;
  request.set_model("models/bare");
  for (const int64_t bytes : {int64_t{5} << 20, (int64_t{16} << 20) - 64, (int64_t{16} << 20) + 1}) {
    request.set_text(std::string(bytes, 'x'));
    v1::TokenizeResponse response;
    grpc::ClientContext context;
    const grpc::Status status = inference_->Tokenize(&context, request, &response);
    EXPECT_EQ(status.error_code(), bytes > kMessageBytesMax ? grpc::RESOURCE_EXHAUSTED : grpc::FAILED_PRECONDITION) << bytes;
  }
}

TEST_F(ServerTest, HealthFollowsLifeAndShutdownEndsWatches) {
  for (const char* name : {"", "varifocal.v1.Inference", "varifocal.v1.Evaluation", "model/a", "model/learned"}) {
    EXPECT_EQ(Health(channel_, name), "SERVING") << name;
  }
  EXPECT_EQ(Health(channel_, "model/nobody"), "error 5");
  control_->Hold();
  v1::SubmitJobResponse submitted;
  ASSERT_TRUE(Submit(SmallJob(), &submitted).ok());
  v1::WatchJobRequest watch;
  watch.set_name(submitted.job().name());
  grpc::ClientContext context;
  const auto reader = evaluation_->WatchJob(&context, watch);
  v1::WatchJobResponse message;
  ASSERT_TRUE(reader->Read(&message));
  const auto start = std::chrono::steady_clock::now();
  server_->Shutdown(seconds(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(4)) << "nothing is left that needs the grace";
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(ReasonIn(reader->Finish()), "SHUTTING_DOWN");
  EXPECT_EQ(message.job().state(), v1::Job::QUEUED) << "the watcher hears that the job waits for the next daemon";
}

TEST_F(ServerTest, ShutdownCancelsCallsWhenTheGraceIsOver) {
  control_->Hold();
  grpc::ClientContext context;
  const auto reader = inference_->Generate(&context, SmallGenerate());
  while (control_->started_count() == 0) std::this_thread::sleep_for(milliseconds(1));
  server_->Shutdown(milliseconds(100));
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_FALSE(reader->Finish().ok());
  EXPECT_EQ(control_->cancelled_count(), 1);
}

TEST_F(ServerTest, TheChannelInsideThisProcessIsTheSameServer) {
  const auto stub = v1::Inference::NewStub(server_->InProcessChannel());
  v1::GetModelRequest request;
  request.set_name("models/a");
  v1::Model model;
  grpc::ClientContext context;
  ASSERT_TRUE(stub->GetModel(&context, request, &model).ok());
  grpc::ClientContext context2;
  const auto reader = stub->Generate(&context2, SmallGenerate());
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_TRUE(message.has_result());
}

TEST_F(ServerTest, AServerWithoutDatabaseHasNoJobs) {
  ServerOptions options;
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(control_);
  const auto server = Server::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  EXPECT_EQ((*server)->address(), "");
  const auto stub = v1::Evaluation::NewStub((*server)->InProcessChannel());
  v1::SubmitJobResponse response;
  grpc::ClientContext context;
  EXPECT_EQ(ReasonIn(stub->SubmitJob(&context, SmallJob(), &response)), "NO_DATABASE");
  grpc::ClientContext context2;
  EXPECT_EQ(ReasonIn(stub->WatchJob(&context2, {})->Finish()), "NO_DATABASE");
}

TEST_F(ServerTest, StartRefusesByReason) {
  struct Case {
    const char* name;
    std::function<void(ServerOptions&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"port in use", [this](ServerOptions& o) { o.listen_address = server_->address(); }, "ADDRESS_IN_USE"},
      {"no port", [](ServerOptions& o) { o.listen_address = "127.0.0.1"; }, "BAD_LISTEN_ADDRESS"},
      {"port too large", [](ServerOptions& o) { o.listen_address = "127.0.0.1:65536"; }, "BAD_LISTEN_ADDRESS"},
      {"for everybody", [](ServerOptions& o) { o.listen_address = "0.0.0.0:0"; }, "REMOTE_LISTEN_ADDRESS"},
      {"locked database", [this](ServerOptions& o) { o.database_path = options_.database_path; }, "FAILED_PRECONDITION"},
      {"model directory", [](ServerOptions& o) { o.models = {{"x", "missing"}}; }, "NOT_FOUND"},
      {"model name", [](ServerOptions& o) { o.models = {{"x y", "fake"}}; }, "BAD_MODEL_NAME"},
  };
  for (const Case& c : cases) {
    ServerOptions options = options_;
    options.database_path = directory_.File("other.db");
    c.spoil(options);
    const auto server = Server::Start(options);
    ASSERT_FALSE(server.ok()) << c.name;
    EXPECT_EQ(ReasonOf(server.status()).name, c.reason) << c.name << ": " << server.status();
  }
}

}  // namespace
}  // namespace varifocal
