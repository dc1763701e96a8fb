// A coordinator over worker daemons, on loopback sockets with fake engines: placement, loss and return of workers, those that
// differ, cancellation. Every request must end once, with the answer that a fake engine gives it. The real daemons are in
// tests/integration/workers_test.cc.
#include <gmock/gmock.h>

#include <cstring>
#include <future>
#include <map>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "server/model/model.h"
#include "server/server.h"
#include "server/workers/remote_workers.h"
#include "server/workers/worker_addresses.h"
#include "server/workers/worker_model.h"
#include "tests/fakes/fake_engine.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

EngineRequest Request(int index, const std::string& context = "") {
  EngineRequest request;
  request.token_ids = {5, 6, 7 + index};
  request.context = context;
  request.work = GenerateWork{.max_new_tokens = 8};
  return request;
}

// A daemon whose engines are fakes.
struct WorkerDaemon {
  explicit WorkerDaemon(const std::string& address = "127.0.0.1:0", const std::string& isa = "none",
                        const std::string& directory = "fake", const ModelConfig* config = nullptr) {
    control->SetInstructionSet(isa);
    ServerOptions options;
    options.models = {{"a", directory}};
    options.listen_address = address;
    options.model_factory = MakeFakeModelFactory(control);
    if (config != nullptr) {
      options.model_factory = [fake = MakeFakeModelFactory(control), config = *config](const std::string& name,
                                                                                       const std::string& place) {
        absl::StatusOr<std::unique_ptr<HostedModel>> model = fake(name, place);
        (*model)->config = config;
        return model;
      };
    }
    auto started = Server::Start(options);
    EXPECT_TRUE(started.ok()) << started.status();
    server = *std::move(started);
  }
  std::shared_ptr<FakeEngineControl> control = std::make_shared<FakeEngineControl>();
  std::unique_ptr<Server> server;
};

class WorkersTest : public testing::Test {
 protected:
  void SetUp() override { SetLogLevel(LogLevel::kError); }

  static absl::StatusOr<std::unique_ptr<RemoteWorkers>> Connect(std::vector<std::string> addresses,
                                                                bool allow_mixed = false, int in_flight = 2) {
    RemoteWorkersOptions options;
    options.addresses = std::move(addresses);
    options.model_names = {"a"};
    options.in_flight = in_flight;
    options.allow_mixed = allow_mixed;
    options.period = milliseconds(20);
    options.connect_timeout = milliseconds(5000);
    return RemoteWorkers::Connect(options);
  }

  // Starts a request; its outcome is in ends_ once.
  EngineHandle Start(RemoteWorkers& workers, EngineRequest request) {
    const int index = request.token_ids.back();
    return workers.Start(
        "a", std::move(request), /*has_bounds=*/false, [this, index](absl::StatusOr<EngineResult> result) {
          const MutexLock lock(mutex_);
          ends_[index].push_back(result.ok() ? result->text
                                             : std::string(absl::StatusCodeToString(result.status().code())));
          if (result.ok()) workers_seen_.insert(result->worker);
          changed_.NotifyAll();
        });
  }
  void WaitFor(size_t count) {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [&]() VF_REQUIRES(mutex_) {
      size_t ended = 0;
      for (const auto& [index, ends] : ends_) ended += ends.size();
      return ended >= count;
    });
  }
  void ForgetEnds() {
    const MutexLock lock(mutex_);
    ends_.clear();
    workers_seen_.clear();
  }
  std::set<std::string> WorkersSeen() {
    const MutexLock lock(mutex_);
    return workers_seen_;
  }
  void ExpectEveryAnswerOnce(int count) {
    const MutexLock lock(mutex_);
    ASSERT_EQ(std::ssize(ends_), count);
    for (int i = 0; i < count; ++i) EXPECT_THAT(ends_[7 + i], testing::ElementsAre(FakeAnswer(Request(i)).text)) << i;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<int, std::vector<std::string>> ends_ VF_GUARDED_BY(mutex_);  // by the request's last id
  std::set<std::string> workers_seen_ VF_GUARDED_BY(mutex_);            // EngineResult::worker
};

TEST_F(WorkersTest, AnswersDoNotDependOnTheNumberOfWorkers) {
  for (const int worker_count : {1, 2, 4}) {
    std::vector<std::unique_ptr<WorkerDaemon>> daemons;
    std::vector<std::string> addresses;
    for (int i = 0; i < worker_count; ++i) {
      daemons.push_back(std::make_unique<WorkerDaemon>());
      addresses.push_back(daemons.back()->server->address());
    }
    ASSIGN_OR_FAIL(const auto workers, Connect(addresses));
    while (std::ssize(workers->Addresses()) < worker_count) std::this_thread::yield();
    ForgetEnds();
    for (int i = 0; i < 40; ++i) Start(*workers, Request(i, absl::StrCat("context ", i / 4)));
    WaitFor(40);
    ExpectEveryAnswerOnce(40);
    EXPECT_EQ(WorkersSeen(), std::set<std::string>(addresses.begin(), addresses.end()));
    int started = 0;
    for (const auto& daemon : daemons) {
      EXPECT_GT(daemon->control->started_count(), 0);
      EXPECT_EQ(daemon->control->started_count() % 4, 0) << "the four questions of a context have one worker";
      started += daemon->control->started_count();
    }
    EXPECT_EQ(started, 40);
  }
}

TEST_F(WorkersTest, BoundsTheRequestsOfAWorker) {
  WorkerDaemon daemon;
  ASSIGN_OR_FAIL(const auto workers, Connect({daemon.server->address()}, false, /*in_flight=*/3));
  daemon.control->Hold();
  for (int i = 0; i < 10; ++i) Start(*workers, Request(i));
  while (daemon.control->started_count() < 3) std::this_thread::yield();
  EXPECT_EQ(workers->running_count(), 3);
  EXPECT_EQ(workers->queued_count(), 7);
  EXPECT_EQ(daemon.control->started_count(), 3);
  daemon.control->Release();
  WaitFor(10);
  ExpectEveryAnswerOnce(10);
}

TEST_F(WorkersTest, RequestsOfALostWorkerRunElsewhereAndReturnsAreUsed) {
  WorkerDaemon stays;
  auto leaves = std::make_unique<WorkerDaemon>();
  const std::string address = leaves->server->address();
  ASSIGN_OR_FAIL(const auto workers, Connect({stays.server->address(), address}));
  while (workers->Addresses().size() < 2) std::this_thread::yield();
  leaves->control->Hold();
  for (int i = 0; i < 12; ++i) Start(*workers, Request(i, absl::StrCat("context ", i)));
  while (leaves->control->started_count() < 2) std::this_thread::yield();
  leaves->server->Shutdown(milliseconds(0));
  leaves.reset();
  WaitFor(12);
  ExpectEveryAnswerOnce(12);
  EXPECT_EQ(workers->Addresses().size(), 1u);

  // Another process at the same address joins again.
  WorkerDaemon returned(address);
  while (workers->Addresses().size() < 2) std::this_thread::yield();
  ForgetEnds();
  for (int i = 0; i < 12; ++i) Start(*workers, Request(i, absl::StrCat("later context ", i)));
  WaitFor(12);
  ExpectEveryAnswerOnce(12);
  EXPECT_GT(returned.control->started_count(), 0);
}

TEST_F(WorkersTest, WaitsWithoutAnyWorker) {
  auto daemon = std::make_unique<WorkerDaemon>();
  const std::string address = daemon->server->address();
  ASSIGN_OR_FAIL(const auto workers, Connect({address}));
  daemon->server->Shutdown(milliseconds(0));
  daemon.reset();
  while (!workers->Addresses().empty()) std::this_thread::yield();
  for (int i = 0; i < 3; ++i) Start(*workers, Request(i));
  EXPECT_EQ(workers->queued_count(), 3);
  const WorkerDaemon returned(address);
  WaitFor(3);
  ExpectEveryAnswerOnce(3);
}

TEST_F(WorkersTest, RefusesWorkersThatDiffer) {
  const WorkerDaemon first;
  const WorkerDaemon other_weights("127.0.0.1:0", "none", "fake-b");
  const WorkerDaemon other_rope("127.0.0.1:0", "none", "fake-stretched");
  const WorkerDaemon other_kind("127.0.0.1:0", "avx9");
  const auto connect = [&](const WorkerDaemon& other, bool allow_mixed) {
    return Connect({first.server->address(), other.server->address()}, allow_mixed);
  };
  for (const bool allow_mixed : {false, true}) {
    const absl::Status weights = connect(other_weights, allow_mixed).status();
    EXPECT_TRUE(HasReason(weights, ErrorReason::kWorkersDiffer)) << weights;
    EXPECT_THAT(weights.message(), testing::HasSubstr("weights"));
    const absl::Status rope = connect(other_rope, allow_mixed).status();
    EXPECT_TRUE(HasReason(rope, ErrorReason::kWorkersDiffer)) << rope;
    EXPECT_THAT(rope.message(), testing::HasSubstr("ropes"));
  }
  const absl::Status kind = connect(other_kind, false).status();
  EXPECT_TRUE(HasReason(kind, ErrorReason::kWorkersDiffer)) << kind;
  EXPECT_THAT(kind.message(), testing::HasSubstr("--allow-mixed"));
  ASSIGN_OR_FAIL(const auto mixed, connect(other_kind, true));
  EXPECT_EQ(mixed->KindsInWords(), "fake/avx9+fake/none");
}

// One that comes to a known address later with other weights gets no request.
TEST_F(WorkersTest, DoesNotUseAReplacementThatDiffers) {
  const WorkerDaemon stays;
  auto leaves = std::make_unique<WorkerDaemon>();
  const std::string address = leaves->server->address();
  ASSIGN_OR_FAIL(const auto workers, Connect({stays.server->address(), address}));
  leaves->server->Shutdown(milliseconds(0));
  leaves.reset();
  while (workers->Addresses().size() > 1) std::this_thread::yield();
  const WorkerDaemon impostor(address, "none", "fake-b");
  for (int i = 0; i < 20; ++i) {
    Start(*workers, Request(i, absl::StrCat("context ", i)));
    std::this_thread::sleep_for(milliseconds(5));
  }
  WaitFor(20);
  ExpectEveryAnswerOnce(20);
  EXPECT_EQ(impostor.control->started_count(), 0);
}

TEST_F(WorkersTest, PassesErrorsOfTheRequestWithTheirReason) {
  const WorkerDaemon daemon;
  ASSIGN_OR_FAIL(const auto workers, Connect({daemon.server->address()}));
  std::promise<absl::Status> ended;
  EngineRequest too_long = Request(0);
  too_long.token_ids.assign(5000, 5);
  workers->Start("a", too_long, false, [&](absl::StatusOr<EngineResult> result) { ended.set_value(result.status()); });
  const absl::Status status = ended.get_future().get();
  EXPECT_TRUE(HasReason(status, ErrorReason::kPromptTooLong)) << status;
  EXPECT_EQ(ReasonOf(status).metadata["promptTokenCount"], "5000");
}

TEST_F(WorkersTest, ScoresBesideAGenerationAndOnTheirOwn) {
  const WorkerDaemon daemon;
  ASSIGN_OR_FAIL(const auto workers, Connect({daemon.server->address()}));
  const auto run = [&](EngineRequest request) {
    std::promise<EngineResult> ended;
    workers->Start("a", std::move(request), false,
                   [&](absl::StatusOr<EngineResult> result) { ended.set_value(*result); });
    return ended.get_future().get();
  };
  EngineRequest request = Request(0);
  request.work = GenerateWork{.max_new_tokens = 8, .scored = {{3, 4}}};
  const EngineResult beside = run(request);
  EXPECT_EQ(beside.text, FakeAnswer(Request(0)).text);
  ASSERT_EQ(beside.continuations.size(), 1u);
  EXPECT_EQ(beside.continuations[0].token_count, 2);
  EXPECT_EQ(beside.log_likelihood, -1.0);
  request.work = ScoreContinuationsWork{{{3}, {4, 5, 6}}};
  const EngineResult scored = run(request);
  ASSERT_EQ(scored.continuations.size(), 2u);
  EXPECT_EQ(scored.continuations[1].log_likelihood, -1.5);
  request.work = ScoreTextWork{};
  const EngineResult text = run(request);
  ASSERT_EQ(text.token_log_probs.size(), 3u);
  EXPECT_FALSE(text.token_log_probs[0].has_value());
  EXPECT_EQ(text.token_log_probs[2], -0.5);
}

TEST_F(WorkersTest, PassesInspectionsBitForBit) {
  const WorkerDaemon daemon;
  ASSIGN_OR_FAIL(const auto workers, Connect({daemon.server->address()}));
  EngineRequest request = Request(0);
  request.inspected_boundaries = {0, 1, 3};
  request.inspected_row_count = 2;
  for (const decltype(request.work)& work :
       {decltype(request.work)(GenerateWork{.max_new_tokens = 8, .scored = {{3, 4}}}),
        decltype(request.work)(ScoreContinuationsWork{{{3}, {4, 5, 6}}}), decltype(request.work)(ScoreTextWork{})}) {
    request.work = work;
    const InspectedAttention expected = FakeAnswer(request).inspected;
    std::promise<InspectedAttention> ended;
    workers->Start("a", request, false,
                   [&](absl::StatusOr<EngineResult> result) { ended.set_value(result->inspected); });
    const InspectedAttention inspected = ended.get_future().get();
    EXPECT_EQ(inspected.masses, expected.masses);
    ASSERT_EQ(inspected.heads.size(), expected.heads.size());
    for (size_t i = 0; i < inspected.heads.size(); ++i)
      EXPECT_EQ(std::memcmp(&inspected.heads[i], &expected.heads[i], sizeof(expected.heads[i])), 0) << i;
  }
}

// A worker whose checkpoint is configured otherwise than the coordinator's directory is refused; one that sends 1,024 heads for
// its 24 all the same is an error.
TEST_F(WorkersTest, AnInspectionOfOtherHeadsIsAnError) {
  const std::string directory = "models/baseline";
  const ModelConfig config = *ReadModelConfig(directory);
  {
    ModelConfig other = config;
    other.ropes[0].theta *= 2;
    const WorkerDaemon stranger("127.0.0.1:0", "none", "fake", &other);
    const std::shared_ptr<RemoteWorkers> workers = *Connect({stranger.server->address()});
    const absl::Status refused = MakeWorkerModel(workers, "a", directory).status();
    EXPECT_TRUE(HasReason(refused, ErrorReason::kWorkersDiffer)) << refused;
    EXPECT_THAT(refused.message(), Message());
  }
  const WorkerDaemon daemon("127.0.0.1:0", "none", "fake", &config);
  const std::shared_ptr<RemoteWorkers> workers = *Connect({daemon.server->address()});
  ASSIGN_OR_FAIL(const auto model, MakeWorkerModel(workers, "a", directory));
  EXPECT_EQ(model->engine->Describe().why_no_inspection, "");
  EngineRequest request = Request(0);
  request.inspected_boundaries = {0, 3};
  std::promise<absl::Status> ended;
  EngineCallbacks callbacks;
  callbacks.on_done = [&](absl::StatusOr<EngineResult> result) { ended.set_value(result.status()); };
  ASSERT_TRUE(model->engine->Start(request, std::move(callbacks)).ok());
  EXPECT_THAT(ended.get_future().get(), IsError(absl::StatusCode::kInternal, Message("1024", "24")));
}

TEST_F(WorkersTest, CancelsQueuedAndRunningRequestsAndStops) {
  WorkerDaemon daemon;
  ASSIGN_OR_FAIL(const auto workers, Connect({daemon.server->address()}, false, /*in_flight=*/1));
  daemon.control->Hold();
  const EngineHandle running = Start(*workers, Request(0));
  const EngineHandle queued = Start(*workers, Request(1));
  Start(*workers, Request(2));
  while (daemon.control->started_count() < 1) std::this_thread::yield();
  workers->Cancel(queued);
  WaitFor(1);
  workers->Cancel(running);
  WaitFor(2);
  while (daemon.control->started_count() < 2) std::this_thread::yield();
  workers->Stop();
  WaitFor(3);
  const MutexLock lock(mutex_);
  EXPECT_THAT(ends_[7], testing::ElementsAre("CANCELLED"));
  EXPECT_THAT(ends_[8], testing::ElementsAre("CANCELLED"));
  EXPECT_THAT(ends_[9], testing::ElementsAre("UNAVAILABLE"));
}

TEST_F(WorkersTest, NamesWhatIsWrongWithAddresses) {
  EXPECT_THAT(ParseWorkerAddresses("a:1,b").status().message(), Message("\"b\"", "HOST", "PORT"));
  EXPECT_THAT(ParseWorkerAddresses("").status().message(), Message("HOST", "PORT"));
  EXPECT_THAT(ParseWorkerAddresses("a:70000").status().message(), Message("1", "65535"));
  RemoteWorkersOptions options;
  options.addresses = {"127.0.0.1:1"};
  options.model_names = {"a"};
  options.period = milliseconds(10);
  options.connect_timeout = milliseconds(100);
  const absl::Status none = RemoteWorkers::Connect(options).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kUnavailable);
  // What gRPC adds to it is its own.
  EXPECT_THAT(none.message().substr(0, none.message().find("; the last: ")), Message("127.0.0.1:1"));
}

// The machines may start in any order: a coordinator without an answer waits for one.
TEST_F(WorkersTest, TheFirstWorkerMayComeLater) {
  std::string address;
  { address = WorkerDaemon().server->address(); }
  RemoteWorkersOptions options;
  options.addresses = {address};
  options.model_names = {"a"};
  options.period = milliseconds(10);
  std::promise<absl::Status> connected;
  std::thread coordinator([&] { connected.set_value(RemoteWorkers::Connect(options).status()); });
  std::future<absl::Status> status = connected.get_future();
  EXPECT_EQ(status.wait_for(milliseconds(300)), std::future_status::timeout) << "it waits";
  const WorkerDaemon late(address);
  EXPECT_TRUE(status.get().ok());
  coordinator.join();
}

}  // namespace
}  // namespace varifocal
