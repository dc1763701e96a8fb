// Metrics of a running server, scraped over HTTP. Method: values are compared with what the calls before them must have
// caused; the number of series is counted with more models than labels; every query of the Grafana dashboard is checked
// against the families.
#include "server/metrics.h"

#include <gmock/gmock.h>

#include <atomic>
#include <future>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#ifdef VARIFOCAL_HAS_METRICS
#include "server/endpoint/endpoint_spec.h"
#include "server/endpoint/faulty_server.h"
#include "server/endpoint_retries.h"
#include "tests/fakes/metrics_fixture.h"
#endif
#include "server/server_limits.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "wire/channel.h"

namespace varifocal {
namespace {

#ifdef VARIFOCAL_HAS_METRICS

using testing::HasSubstr;

std::set<std::string> Names(const std::map<std::string, double>& values) {
  std::set<std::string> names;
  for (const auto& [series, value] : values) names.insert(series.substr(0, series.find('{')));
  return names;
}

TEST_F(MetricsTest, CountsWhatCallsAndJobsDid) {
  control_->FailNext(2, WithReason(absl::DataLossError("not finite"), ErrorReason::kNumericError));
  RunJob();
  v1::GenerateRequest unknown = SmallGenerate();
  unknown.set_model("models/nobody");
  EXPECT_FALSE(Generate(unknown).ok());
  EXPECT_TRUE(Generate(SmallGenerate()).ok());

  std::map<std::string, double> values = ScrapeWhenIdle();
  // The count is of the process, where connections of an earlier test may be about to close.
  while (values["varifocal_connections"] > 1) values = Scrape();
  const auto samples = [&](const char* model, const char* outcome) {
    return values[absl::StrCat("varifocal_samples_total{model=\"", model, "\",outcome=\"", outcome, "\"}")];
  };
  EXPECT_EQ(samples("a", "answered") + samples("b", "answered"), 14);
  EXPECT_EQ(samples("a", "failed") + samples("b", "failed"), 2);
  double failed = 0;
  for (const char* model : {"a", "b"})
    failed += values[absl::StrCat("varifocal_sample_errors_total{model=\"", model, "\",reason=\"NUMERIC_ERROR\"}")];
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(values["varifocal_jobs{state=\"succeeded\"}"], 1);
  EXPECT_EQ(values["varifocal_jobs{state=\"queued\"}"], 0);
  EXPECT_EQ(values["varifocal_job_paused"], 0);
  EXPECT_EQ(values["varifocal_calls_total{method=\"Inference/Generate\",code=\"OK\"}"], 1);
  EXPECT_EQ(values["varifocal_calls_total{method=\"Inference/Generate\",code=\"NOT_FOUND\"}"], 1);
  EXPECT_EQ(values["varifocal_calls_total{method=\"Evaluation/SubmitJob\",code=\"OK\"}"], 1);
  EXPECT_EQ(values["varifocal_call_errors_total{reason=\"MODEL_NOT_FOUND\"}"], 1);
  EXPECT_EQ(values["varifocal_service_serving{service=\"varifocal.v1.Inference\"}"], 1);
  EXPECT_EQ(values["varifocal_connections"], 1) << "the channel of the test";
  EXPECT_GT(values["varifocal_database_bytes{file=\"database\"}"], 0);
  EXPECT_GT(values["process_resident_memory_bytes"], 1 << 20);
  EXPECT_GT(values["process_open_fds"], 3);
  EXPECT_GT(values["process_max_fds"], values["process_open_fds"]);
}

// A request that cannot be parsed is counted with the status that the client gets, not with gRPC's own.
TEST_F(MetricsTest, CountsTheStatusThatIsSent) {
  ASSERT_EQ(AskBytes(channel_, "/varifocal.v1.Evaluation/GetJob", "\xff").error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_EQ(ScrapeWhenIdle()["varifocal_calls_total{method=\"Evaluation/GetJob\",code=\"INVALID_ARGUMENT\"}"], 1);
}

TEST_F(MetricsTest, WaitingCallsAreSeen) {
  control_->Hold();
  std::vector<std::future<grpc::Status>> calls;
  for (int i = 0; i < kEngineCallsMax + 3; ++i)
    calls.push_back(std::async(std::launch::async, [this] { return Generate(SmallGenerate()); }));
  std::map<std::string, double> values;
  do {
    values = Scrape();
  } while (values["varifocal_requests_waiting{model=\"a\",queue=\"gate\"}"] < 3);
  EXPECT_EQ(values["varifocal_calls_active"], kEngineCallsMax + 3);
  EXPECT_GT(values["varifocal_call_bytes_active"], 0);
  EXPECT_GT(values["varifocal_oldest_wait_seconds{model=\"a\",queue=\"gate\"}"], 0);
  control_->Release();
  for (auto& call : calls) EXPECT_TRUE(call.get().ok());
}

// Calls above the limit wait at the client, so no call fails, and the server never has more of one connection.
TEST_F(MetricsTest, StreamsOfAConnection) {
  KeepCallbackThreads();
  for (const int call_count : {kStreamsPerConnectionMax - 1, kStreamsPerConnectionMax, kStreamsPerConnectionMax + 1}) {
    control_->Hold();
    struct OneCall {
      grpc::ClientContext context;
      v1::ComputeLogLikelihoodsRequest request;
      v1::ComputeLogLikelihoodsResponse response;
    };
    std::vector<std::unique_ptr<OneCall>> calls;
    std::atomic<int> ok_count = 0, end_count = 0;
    for (int i = 0; i < call_count; ++i) {
      OneCall& call = *calls.emplace_back(std::make_unique<OneCall>());
      call.request.set_model("models/a");
      call.request.set_prompt_text("Find the key");
      inference_->async()->ComputeLogLikelihoods(&call.context, &call.request, &call.response,
                                                 [&](grpc::Status status) {
                                                   ok_count += status.ok();
                                                   ++end_count;
                                                 });
    }
    const int expected = std::min(call_count, kStreamsPerConnectionMax);
    while (Scrape()["varifocal_calls_active"] < expected) continue;
    for (int i = 0; i < 5; ++i) EXPECT_EQ(Scrape()["varifocal_calls_active"], expected);
    control_->Release();
    while (end_count < call_count) std::this_thread::yield();
    EXPECT_EQ(ok_count, call_count);
  }
}

TEST_F(MetricsTest, ManyModelsDoNotAddSeries) {
  const auto load = [&](int begin, int end) {
    for (int i = begin; i < end; ++i) {
      v1::LoadModelRequest request;
      request.set_model_id(absl::StrCat("more-", i));
      request.set_directory("fake");
      v1::Model model;
      const grpc::Status status = Ask(*inference_, &v1::Inference::Stub::LoadModel, request, &model);
      ASSERT_TRUE(status.ok()) << status.error_message();
    }
  };
  load(0, ModelLabels::kMax);  // four more than labels: the fixture has four models
  const std::map<std::string, double> full = Scrape();
  load(ModelLabels::kMax, 2 * ModelLabels::kMax);
  std::map<std::string, double> more = Scrape();
  std::set<std::string> before, after;
  for (const auto& [series, value] : full) before.insert(series);
  for (const auto& [series, value] : more) after.insert(series);
  EXPECT_EQ(before, after);
  EXPECT_EQ(more.count("varifocal_model_serving{model=\"_other\"}"), 1u);
  EXPECT_EQ(more["varifocal_kv_pages{model=\"_other\",state=\"free\"}"], 32 * (4 + 32)) << "the sum of 36 models";
  EXPECT_LT(after.size(), 4000u);
}

TEST_F(MetricsTest, OtherPathsMethodsAndHostsAreRefused) {
  EXPECT_EQ(Get("/")->status, 404);
  httplib::Client client("127.0.0.1", server_->metrics_port());
  EXPECT_EQ(client.Post("/metrics", "", "text/plain")->status, 405);
  EXPECT_EQ(client.Get("/metrics", httplib::Headers{{"Host", "example.org"}})->status, 403);
}

// Every name in a query of the dashboard is a family that a server with traffic has.
TEST_F(MetricsTest, TheDashboardAsksForFamiliesThatExist) {
  control_->FailNext(1, absl::DataLossError("not finite"));
  RunJob();
  v1::GenerateRequest unknown = SmallGenerate();
  unknown.set_model("models/nobody");
  EXPECT_FALSE(Generate(unknown).ok());
  const std::set<std::string> names = Names(Scrape());

  ASSIGN_OR_FAIL(const auto dashboard, ParseJson(ReadFile("deploy/grafana/varifocal.json")));
  const std::regex name("(varifocal|process)_[a-z_]+");
  std::set<std::string> asked;
  int query_count = 0;
  for (const Json& panel : dashboard["panels"]) {
    for (const Json& target : panel.value("targets", Json::array())) {
      const std::string query = target.at("expr");
      ++query_count;
      std::sregex_iterator found(query.begin(), query.end(), name);
      EXPECT_NE(found, std::sregex_iterator()) << query;
      for (; found != std::sregex_iterator(); ++found) asked.insert(found->str());
    }
  }
  EXPECT_GE(query_count, 15);
  for (const std::string& one : asked) EXPECT_EQ(names.count(one), 1u) << one;
  // And it shows each family, but those that other panels imply.
  const std::string document = ReadFile("docs/metrics.md");
  for (const std::string& one : names) {
    const std::string family = std::regex_replace(one, std::regex("_(bucket|sum|count)$"), "");
    EXPECT_THAT(document, HasSubstr("`" + family + "`")) << "docs/metrics.md lists every family";
  }
}

// Anyone may call a method that does not exist, by any name.
TEST_F(MetricsTest, MethodsThatDoNotExistAreOneLabel) {
  const auto call = [this](const std::string& method) { return AskBytes(channel_, method, "").error_code(); };
  call("/varifocal.v1.made/up");
  const size_t before = Scrape().size();
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(call(absl::StrCat("/varifocal.v1.made/up", i)), grpc::UNIMPLEMENTED);
    EXPECT_EQ(call(absl::StrCat("/other.v", i, "/Method")), grpc::UNIMPLEMENTED);
    EXPECT_EQ(call(absl::StrCat("/varifocal.v1.Inference/Method", i)), grpc::UNIMPLEMENTED);
  }
  auto values = Scrape();
  EXPECT_EQ(values.size(), before);
  EXPECT_EQ((values["varifocal_calls_total{method=\"unknown\",code=\"UNIMPLEMENTED\"}"]), 151);
}

// A server that miscounts tokens is refused: its model is off and listed with the cause, the other one serves, and once it
// answers as it should it serves too.
TEST(EndpointOffTest, OneBadEndpointStopsNoOtherModel) {
  SetLogLevel(LogLevel::kError);
  FaultyServer endpoint({});
  endpoint.FailNext(std::vector<FaultyServer::Scripted>(1000, {FaultyServer::Fault::kPromptCount}));
  TemporaryDirectory directory;
  ServerOptions options;
  options.database_path = directory.File("results.db");
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
  options.endpoints = {absl::StrCat("far=", endpoint.url(), ",tokenizer=models/baseline,attempts=1")};
  options.listen_address = "127.0.0.1:0";
  options.metrics_address = "127.0.0.1:0";
  options.endpoint_retry_ms = 50;
  ASSIGN_OR_FAIL(const auto started, Server::Start(options));
  Server& server = *started;
  const auto stub = v1::Inference::NewStub(server.InProcessChannel());
  const auto model = [&](int index) {
    v1::ListModelsResponse models;
    EXPECT_TRUE(Ask(*stub, &v1::Inference::Stub::ListModels, {}, &models).ok());
    EXPECT_EQ(models.models_size(), 2);
    return models.models_size() == 2 ? models.models(index) : v1::Model();
  };
  const auto scrape = [&] { return httplib::Client("127.0.0.1", server.metrics_port()).Get("/metrics")->body; };
  EXPECT_EQ(model(0).state(), v1::Model::READY);
  const v1::Model off = model(1);
  EXPECT_EQ(off.name(), "models/far");
  EXPECT_EQ(off.state(), v1::Model::FAULTED);
  EXPECT_THAT(off.fault(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(Health(server.InProcessChannel(), "model/far"), "NOT_SERVING");
  EXPECT_EQ(Health(server.InProcessChannel(), "model/a"), "SERVING");
  EXPECT_EQ(Health(server.InProcessChannel(), ""), "SERVING");
  EXPECT_THAT(scrape(), AllOf(HasSubstr("varifocal_model_serving{model=\"far\"} 0"),
                              HasSubstr("varifocal_model_serving{model=\"a\"} 1")));
  v1::TokenizeRequest request;
  request.set_model("models/far");
  request.set_text("a");
  v1::TokenizeResponse response;
  EXPECT_EQ(ReasonIn(Ask(*stub, &v1::Inference::Stub::Tokenize, request, &response)), "ENDPOINT_FAULTED");

  endpoint.FailNext({});
  while (model(1).state() != v1::Model::READY) std::this_thread::yield();
  while (Health(server.InProcessChannel(), "model/far") != "SERVING") std::this_thread::yield();
  EXPECT_TRUE(Ask(*stub, &v1::Inference::Stub::Tokenize, request, &response).ok());
  EXPECT_THAT(scrape(), HasSubstr("varifocal_model_serving{model=\"far\"} 1"));
}

// A shutdown does not wait for an endpoint that is being tried.
// A question whether it answers costs nothing, the start of an endpoint does.
TEST(EndpointOffTest, OneThatIsRefusedIsTriedEverMoreSeldom) {
  SetLogLevel(LogLevel::kError);
  FaultyServer endpoint({});
  ModelHost host(MakeFakeModelFactory(std::make_shared<FakeEngineControl>()));
  host.AddOff("far", endpoint.url(), absl::UnavailableError("off"));
  ASSIGN_OR_FAIL(const auto spec,
                 ParseEndpointSpec(absl::StrCat("far=", endpoint.url(), ",tokenizer=models/baseline,attempts=1")));
  struct {
    Mutex mutex;
    CondVar changed;
    std::vector<int> questions VF_GUARDED_BY(mutex);  // before each
  } tries;
  const auto refuse = [&](const EndpointSpec&, const std::function<bool()>&) {
    const MutexLock lock(tries.mutex);
    tries.questions.push_back(endpoint.list_count());
    tries.changed.NotifyAll();
    return absl::FailedPreconditionError("other tokens");
  };
  EndpointRetries retries(
      {spec}, &host, Clock::Real(), refuse, [](const std::string&) {}, /*period_ms=*/1);
  MutexLock lock(tries.mutex);
  tries.changed.Wait(tries.mutex, [&]() VF_REQUIRES(tries.mutex) { return tries.questions.size() >= 4; });
  EXPECT_EQ(tries.questions[1] - tries.questions[0], 2);
  EXPECT_EQ(tries.questions[2] - tries.questions[1], 4);
  EXPECT_EQ(tries.questions[3] - tries.questions[2], 8);
}

TEST(EndpointOffTest, OneThatIsUnloadedIsNotTriedAgain) {
  SetLogLevel(LogLevel::kError);
  FaultyServer endpoint({});
  endpoint.FailNext(std::vector<FaultyServer::Scripted>(1000, {FaultyServer::Fault::kPromptCount}));
  TemporaryDirectory directory;
  ServerOptions options;
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
  options.endpoints = {absl::StrCat("far=", endpoint.url(), ",tokenizer=models/baseline,attempts=1")};
  options.listen_address = "127.0.0.1:0";
  options.endpoint_retry_ms = 20;
  options.database_path = directory.File("results.db");
  ASSIGN_OR_FAIL(const auto started, Server::Start(options));
  const auto stub = v1::Inference::NewStub(started->InProcessChannel());
  const auto unload = Named<v1::UnloadModelRequest>("models/far");
  v1::UnloadModelResponse unloaded;
  EXPECT_TRUE(Ask(*stub, &v1::Inference::Stub::UnloadModel, unload, &unloaded).ok());
  v1::ListModelsResponse models;
  EXPECT_TRUE(Ask(*stub, &v1::Inference::Stub::ListModels, {}, &models).ok());
  EXPECT_EQ(models.models_size(), 1);
  EXPECT_EQ(ReasonIn(Ask(*stub, &v1::Inference::Stub::UnloadModel, unload, &unloaded)), "MODEL_NOT_FOUND");
}

TEST(EndpointOffTest, ShutdownAbandonsAnEndpointThatHangs) {
  SetLogLevel(LogLevel::kError);
  FaultyServer endpoint({});
  endpoint.FailNext(std::vector<FaultyServer::Scripted>(1000, {FaultyServer::Fault::kPromptCount}));
  ServerOptions options;
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
  options.endpoints = {absl::StrCat("far=", endpoint.url(), ",tokenizer=models/baseline,attempts=1")};
  options.listen_address = "127.0.0.1:0";
  options.endpoint_retry_ms = 50;
  ASSIGN_OR_FAIL(const auto started, Server::Start(options));
  const size_t asked = endpoint.bodies().size();
  endpoint.FailNext(std::vector<FaultyServer::Scripted>(1000, {FaultyServer::Fault::kHang}));
  while (endpoint.bodies().size() < asked + 1) std::this_thread::yield();
  started->Shutdown(std::chrono::milliseconds(0));  // returns while the endpoint hangs
}

// A daemon that would serve nothing does not start, and neither does a server without a listener.
TEST(EndpointOffTest, WithoutAnotherModelTheStartIsRefused) {
  ServerOptions options;
  options.endpoints = {"far=http://127.0.0.1:1/v1,tokenizer=models/baseline,attempts=1"};
  options.listen_address = "127.0.0.1:0";
  EXPECT_FALSE(Server::Start(options).ok());
  options.models = {{"a", "fake"}};
  options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
  EXPECT_TRUE(Server::Start(options).ok());
  options.listen_address = "";
  EXPECT_FALSE(Server::Start(options).ok());
}

#endif  // VARIFOCAL_HAS_METRICS

TEST(MetricsAddressTest, OnlyLoopback) {
  for (const char* address : {"0.0.0.0:9464", "10.0.0.1:9464", "unix:/tmp/m", "9464", "[::]:9464"}) {
    ServerOptions options;
    options.metrics_address = address;
    options.model_factory = MakeFakeModelFactory(std::make_shared<FakeEngineControl>());
    const absl::Status status = Server::Start(options).status();
    EXPECT_TRUE(HasReason(status, ErrorReason::kBadListenAddress)) << address << ": " << status;
  }
}

}  // namespace
}  // namespace varifocal
