// Fault tests of the server: blocked calls, a deleted database, call floods, and termination of a hanging process.
// Method: a model factory that blocks until released by the test; the real server on a loopback socket.
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/health_monitor.h"
#include "server/stop_signal.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/connected_channel.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

constexpr int kPolls = 6000;  // of 10 ms: a minute

class Gate {
 public:
  void Wait() {
    MutexLock lock(mutex_);
    ++waiting_count_;
    changed_.NotifyAll();
    changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return is_open_; });
  }
  void WaitForOne() {
    MutexLock lock(mutex_);
    changed_.Wait(mutex_, [this]() VF_REQUIRES(mutex_) { return waiting_count_ > 0; });
  }
  void Open() {
    MutexLock lock(mutex_);
    is_open_ = true;
    changed_.NotifyAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int waiting_count_ VF_GUARDED_BY(mutex_) = 0;
  bool is_open_ VF_GUARDED_BY(mutex_) = false;
};

class ServerFaultsTest : public ServerTest {
 protected:
  // Like ServerTest's, with models that block while loading from directories named "blocked..".
  void Restart() {
    options_.model_factory = [this, fake = MakeFakeModelFactory(control_)](const std::string& name,
                                                                           const std::string& directory) {
      if (absl::StrContains(directory, "blocked")) gate_.Wait();
      return fake(name, directory);
    };
    Start();
  }
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
  }

  Gate gate_;
};

TEST_F(ServerFaultsTest, BlockedCallsLeaveTheOthersServed) {
  Restart();
  std::vector<std::thread> loads;
  for (int i = 0; i < 8; ++i) {
    loads.emplace_back([this, i] {
      v1::LoadModelRequest request;
      request.set_model_id(absl::StrCat("m", i));
      request.set_directory(absl::StrCat("blocked", i));
      EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, request).ok());
    });
  }
  gate_.WaitForOne();
  control_->Hold();
  v1::SubmitJobResponse submitted;
  EXPECT_TRUE(Submit(SmallJob(), &submitted).ok());
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListJobsResponse jobs;
    EXPECT_TRUE(evaluation_->ListJobs(&context, {}, &jobs).ok());
    EXPECT_EQ(jobs.jobs_size(), 1);
  }
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::ListModelsResponse models;
    EXPECT_TRUE(inference_->ListModels(&context, {}, &models).ok());
  }
  {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto request = Named<v1::CancelJobRequest>(submitted.job().name());
    v1::Job job;
    EXPECT_TRUE(evaluation_->CancelJob(&context, request, &job).ok());
  }
  {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::TokenizeRequest request;
    request.set_model("models/a");
    request.set_text("text");
    v1::TokenizeResponse response;
    EXPECT_TRUE(inference_->Tokenize(&context, request, &response).ok());
  }
  gate_.Open();
  for (std::thread& load : loads) load.join();
}

TEST_F(ServerFaultsTest, HealthFollowsTheDeviceOfAModel) {
  ASSERT_EQ(Health(channel_, "model/b"), "SERVING");
  control_->SetFault("b", absl::UnavailableError("CUDA error 700"));
  for (int i = 0; i < 1000 && Health(channel_, "model/b") == "SERVING"; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(Health(channel_, "model/b"), "NOT_SERVING");
  EXPECT_EQ(Health(channel_, "model/a"), "SERVING");
  EXPECT_EQ(Health(channel_, ""), "SERVING") << "other models answer";
}

// Malformed messages and invalid UTF-8 on every method.
TEST_F(ServerFaultsTest, ARequestThatCannotBeReadIsToldSo) {
  const std::string bad_text("\x0a\x02\xff\xfe", 4);  // field 1, two bytes
  for (const std::string& request : {std::string("\x0a\x7f"), bad_text}) {
    for (const google::protobuf::ServiceDescriptor* service :
         {v1::GenerateRequest::descriptor()->file()->service(0),
          v1::SubmitJobRequest::descriptor()->file()->service(0)}) {
      for (int i = 0; i < service->method_count(); ++i) {
        const google::protobuf::MethodDescriptor& method = *service->method(i);
        // A first field that is not a string accepts any bytes, and so does an unknown one.
        const auto* first = method.input_type()->FindFieldByNumber(1);
        if (request == bad_text && (first == nullptr || first->type() != first->TYPE_STRING)) continue;
        const grpc::Status status =
            AskBytes(channel_, absl::StrCat("/", service->full_name(), "/", method.name()), request);
        EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT) << method.full_name() << ": " << status.error_message();
        EXPECT_THAT(status.error_message(), Message());
        EXPECT_EQ(ReasonIn(status), "INVALID_ARGUMENT");
      }
    }
  }
  EXPECT_EQ(Health(channel_, ""), "SERVING");
}

TEST_F(ServerFaultsTest, HealthFollowsTheFilesOfTheDatabase) {
  const std::string path = directory_.File("results.db");
  const auto wait_for = [this](const std::string& service, const std::string& health) {
    for (int i = 0; i < kPolls && Health(channel_, service) != health; ++i)
      std::this_thread::sleep_for(milliseconds(10));
    EXPECT_EQ(Health(channel_, service), health) << service;
  };
  ASSERT_EQ(std::rename(path.c_str(), (path + ".aside").c_str()), 0);
  wait_for("varifocal.v1.Evaluation", "NOT_SERVING");
  wait_for("", "NOT_SERVING");
  EXPECT_EQ(Health(channel_, "varifocal.v1.Inference"), "SERVING");
  ASSERT_EQ(std::rename((path + ".aside").c_str(), path.c_str()), 0);
  wait_for("varifocal.v1.Evaluation", "SERVING");
  wait_for("", "SERVING");
}

TEST(HealthTest, AStalledPoolIsTheHealthOfItsServices) {
  struct Case {
    RpcPool RpcPools::*pool;
    int64_t limit_us;
    bool inference, evaluation;
  };
  const Case cases[] = {
      {&RpcPools::control, kControlStallUs, false, false}, {&RpcPools::start, kControlStallUs, false, true},
      {&RpcPools::text, kWorkStallUs, false, true},        {&RpcPools::submit, kWorkStallUs, true, false},
      {&RpcPools::load, kWorkStallUs, true, true},         {&RpcPools::change, kWorkStallUs, true, true}};
  for (const Case& c : cases) {
    Gate gate;
    FakeClock clock;
    RpcPools pools(clock);
    RpcPool& pool = pools.*c.pool;
    SCOPED_TRACE(pool.name());
    for (int i = 0; i < 16; ++i) ASSERT_TRUE(pool.Post([&gate] { gate.Wait(); }).ok());
    gate.WaitForOne();
    for (const int64_t us : {c.limit_us - 1, int64_t{1}}) {  // one below the limit, and at it
      clock.Advance(us);
      EXPECT_TRUE(LookAtHealth(pools, nullptr).inference.ok());
      EXPECT_TRUE(LookAtHealth(pools, nullptr).evaluation.ok());
    }
    clock.Advance(1);
    const ServiceHealth health = LookAtHealth(pools, nullptr);
    EXPECT_EQ(health.inference.ok(), c.inference);
    EXPECT_EQ(health.evaluation.ok(), c.evaluation);
    const absl::Status& first = health.inference.ok() ? health.evaluation : health.inference;
    EXPECT_TRUE(first.ok() || absl::StrContains(first.message(), pool.name())) << first;
    gate.Open();
  }
}

// The engine is first-in first-out: a job waits for the callers' requests that are in it already.
TEST_F(ServerFaultsTest, AFloodOfCallsLeavesAShareToTheJob) {
  control_->Hold();
  const v1::Job submitted = Submitted(SmallJob());
  for (int i = 0; i < kPolls && control_->started_count() < 8; ++i) std::this_thread::sleep_for(milliseconds(10));
  ASSERT_EQ(control_->started_count(), 8) << "of the job, --in-flight";
  constexpr int kCalls = 40;
  std::vector<std::thread> calls;
  for (int i = 0; i < kCalls; ++i) calls.emplace_back([this] { EXPECT_TRUE(Generate(SmallGenerate()).ok()); });
  const int most = 8 + kEngineCallsBesideJobMax;
  for (int i = 0; i < kPolls && control_->started_count() < most; ++i) std::this_thread::sleep_for(milliseconds(10));
  for (int i = 0; i < 30; ++i) {
    EXPECT_LE(control_->started_count(), most) << "the others wait outside the engine";
    std::this_thread::sleep_for(milliseconds(10));
  }
  control_->Release();
  for (std::thread& call : calls) call.join();
  for (int i = 0; i < kPolls && GetJob(submitted.name()).state() != v1::Job::SUCCEEDED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  EXPECT_EQ(GetJob(submitted.name()).state(), v1::Job::SUCCEEDED);
}

TEST(StopSignalDeathTest, AProcessThatHangsEndsAtItsLastDeadline) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    EXPECT_EXIT(
        {
          StopSignal stop(milliseconds(1), 3);
          stop.StopInOrderFromNowOn();
          kill(getpid(), signal);
          stop.Wait();
          while (true) pause();
        },
        testing::ExitedWithCode(3), "not_stopped_in_time");
  }
}

TEST(StopSignalDeathTest, WhileItStartsTheFirstSignalEndsItAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignal stop(std::chrono::seconds(5), 3);
        kill(getpid(), SIGTERM);
        while (true) pause();
      },
      testing::ExitedWithCode(0), "");
}

TEST(StopSignalDeathTest, ASecondSignalEndsItAtOnce) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        StopSignal stop(std::chrono::hours(1), 3);
        stop.StopInOrderFromNowOn();
        kill(getpid(), SIGTERM);
        stop.Wait();
        kill(getpid(), SIGTERM);
        while (true) pause();
      },
      testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace varifocal
