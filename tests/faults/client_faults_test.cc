// Clients that race, vanish, stop reading, set short deadlines, or send more than fits.
//
//   Race      64 clients submit with one request id at once, half of the races with two bodies: one job, or an error
//   Vanish    a proxy between client and server resets the connection after a random number of bytes: the server drops
//             the work, and its memory is free again
//   Deadline  DEADLINE_EXCEEDED or an answer, and no work is left
//   Stall     streams that are never read need bounded memory, and others are served
//   Flood     a long queue of jobs is accepted and runs in order; a database of many jobs that have ended delays no submit
//
// Method: the server over a loopback socket, with the fake engine, or with a shipped checkpoint where memory and work of
// a real engine matter.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <fstream>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/clock.h"
#include "base/random.h"
#include "db/sqlite/database.h"
#include "tests/fakes/server_fixture.h"
#include "tests/faults/loopback.h"
#include "tests/support/connected_channel.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using std::chrono::milliseconds;

constexpr int kPolls = 6000;  // of 10 ms: a minute

double MillisSince(int64_t start_us) { return (Clock::Real().MonotonicMicros() - start_us) / 1000.0; }

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

class ClientFaultsTest : public ServerTest {
 protected:
  // With the shipped checkpoint as models/a and without a prefix cache, so that an idle engine holds no page.
  void UseRealModel() {
    options_.model_factory = nullptr;
    options_.models = {{"a", "models/baseline"}};
    options_.engine.prefix_cache = false;
    options_.model.threads = 1;
    Start();
  }

  int64_t PageBytesInUse() {
    const auto request = Named<v1::GetModelRequest>("models/a");
    v1::Model model;
    EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::GetModel, request, &model).ok());
    return model.kv_cache_bytes_in_use();
  }

  // Milliseconds until no sequence holds a page, or -1 after a minute.
  double MillisUntilIdle() {
    const int64_t start_us = Clock::Real().MonotonicMicros();
    for (int i = 0; i < 60'000; ++i) {
      if (PageBytesInUse() == 0) return MillisSince(start_us);
      std::this_thread::sleep_for(milliseconds(1));
    }
    return -1;
  }

  static v1::GenerateRequest LongGenerate(int prompt_token_count, int new_token_count) {
    v1::GenerateRequest request;
    request.set_model("models/a");
    for (int i = 0; i < prompt_token_count; ++i) request.mutable_prompt_token_ids()->add_ids(100 + i % 700);
    request.set_max_new_tokens(new_token_count);
    request.mutable_decode_settings()->set_ignore_eos(true);
    return request;
  }
};

TEST_F(ClientFaultsTest, RacingSubmitsWithOneIdAreOneJob) {
  constexpr int kClients = 64;
  control_->Hold();  // jobs wait: their answers are not the subject
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  for (int i = 0; i < 8; ++i) channels.push_back(ConnectedChannel(server_->address()));
  Trials trials("races of 64 clients", {.quick = 20, .full = 1000});
  bool goes_on = trials.Next();
  struct Answer {
    grpc::Status status;
    std::string job;
    bool other_body = false;
  };
  std::vector<Answer> answers(kClients);
  const auto check = [&]() noexcept {
    std::set<std::string> jobs;
    std::set<bool> accepted_bodies;
    for (const Answer& answer : answers) {
      if (answer.status.ok()) {
        jobs.insert(answer.job);
        accepted_bodies.insert(answer.other_body);
      } else {
        EXPECT_EQ(ReasonIn(answer.status), "REQUEST_ID_REUSED") << answer.status.error_message();
      }
    }
    EXPECT_EQ(jobs.size(), 1u);
    EXPECT_EQ(accepted_bodies.size(), 1u);
    if (!jobs.empty()) {
      const auto request = Named<v1::CancelJobRequest>(*jobs.begin());
      v1::Job job;
      EXPECT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::CancelJob, request, &job).ok());
    }
    goes_on = trials.Next();
  };
  std::barrier start(kClients);
  std::barrier end(kClients, check);
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      const auto stub = v1::Evaluation::NewStub(channels[i % channels.size()]);
      while (goes_on) {
        v1::SubmitJobRequest request = SmallJob();
        request.set_request_id(absl::StrCat("race ", trials.index()));
        answers[i].other_body = trials.index() % 2 == 1 && i % 2 == 1;
        if (answers[i].other_body) request.mutable_spec()->mutable_suite()->set_seed(2);
        start.arrive_and_wait();
        v1::SubmitJobResponse response;
        answers[i].status = Ask(*stub, &v1::Evaluation::Stub::SubmitJob, request, &response);
        answers[i].job = response.job().name();
        end.arrive_and_wait();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  control_->Release();
}

// Passes bytes on between one client and the server; resets both connections after `byte_limit` bytes of the client, or
// of the server when it is negative.
class CuttingProxy {
 public:
  CuttingProxy(const std::string& server, int64_t byte_limit)
      : server_(server), byte_limit_(byte_limit), listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in any = LoopbackAddress("127.0.0.1:0");
    socklen_t size = sizeof any;
    VF_CHECK(bind(listener_.fd(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 &&
             listen(listener_.fd(), 1) == 0);
    VF_CHECK(getsockname(listener_.fd(), reinterpret_cast<sockaddr*>(&any), &size) == 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(any.sin_port));
    thread_ = std::thread([this] { Pass(); });
  }
  ~CuttingProxy() {
    is_stopping_ = true;
    thread_.join();
  }
  const std::string& address() const { return address_; }

 private:
  // False when the source ended or the limit was reached.
  static bool PassOnce(const Connection& from, Connection& to, int64_t& left) {
    char buffer[256];
    const ssize_t count = recv(from.fd(), buffer, std::min<int64_t>(sizeof buffer, left), 0);
    if (count <= 0) return false;
    to.Send(absl::string_view(buffer, count));
    left -= count;
    return left > 0 && to.is_open();
  }

  void Pass() {
    pollfd arriving = {listener_.fd(), POLLIN, 0};
    while (poll(&arriving, 1, 10) == 0) {
      if (is_stopping_) return;
    }
    Connection client(accept(listener_.fd(), nullptr, nullptr));
    Connection server(server_);
    constexpr int64_t kNoLimit = int64_t{1} << 40;
    int64_t left_of_client = byte_limit_ > 0 ? byte_limit_ : kNoLimit;
    int64_t left_of_server = byte_limit_ < 0 ? -byte_limit_ : kNoLimit;
    pollfd waiting[] = {{client.fd(), POLLIN, 0}, {server.fd(), POLLIN, 0}};
    while (!is_stopping_) {
      if (poll(waiting, 2, 10) == 0) continue;
      if (waiting[0].revents != 0 && !PassOnce(client, server, left_of_client)) break;
      if (waiting[1].revents != 0 && !PassOnce(server, client, left_of_server)) break;
    }
    client.ResetAtClose();
    server.ResetAtClose();
  }

  const std::string server_;
  const int64_t byte_limit_;
  Connection listener_;
  std::string address_;
  std::atomic<bool> is_stopping_{false};
  std::thread thread_;
};

TEST_F(ClientFaultsTest, AClientThatVanishesLeavesNothing) {
  UseRealModel();
  std::vector<double> idle_ms;
  int64_t cut_count = 0;
  for (Trials trials("vanished clients", {.quick = 60, .full = 2000}); trials.Next();) {
    Random random = trials.MakeRandom();
    const int64_t limit = 1 + random.Below(3000);
    const CuttingProxy proxy(server_->address(), random.Coin() ? limit : -limit);
    grpc::ChannelArguments arguments;
    arguments.SetInt("trial", trials.index());
    const auto stub = v1::Inference::NewStub(
        grpc::CreateCustomChannel(proxy.address(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto reader = stub->Generate(&context, LongGenerate(400, 200));
    for (v1::GenerateResponse message; reader->Read(&message);) continue;
    const grpc::Status status = reader->Finish();
    EXPECT_NE(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    cut_count += !status.ok();
    idle_ms.push_back(MillisUntilIdle());
    EXPECT_GE(idle_ms.back(), 0) << "pages are held for a client that left";
  }
  PrintMeasured(absl::StrCat(cut_count, " calls cut before their end"));
  PrintQuantiles("from the cut to free pages", "ms", idle_ms);
  EXPECT_TRUE(Generate(LongGenerate(10, 2)).ok());
}

TEST_F(ClientFaultsTest, ACancelledCallStopsWherever) {
  UseRealModel();
  std::vector<double> end_ms, idle_ms;
  for (Trials trials("cancelled calls", {.quick = 60, .full = 5000}); trials.Next();) {
    Random random = trials.MakeRandom();
    grpc::ClientContext context;
    const auto reader = inference_->Generate(&context, LongGenerate(1 + random.Below(800), 150));
    int64_t start_us = 0;
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random.Below(60'000)));
      start_us = Clock::Real().MonotonicMicros();
      context.TryCancel();
    });
    for (v1::GenerateResponse message; reader->Read(&message);) continue;
    const grpc::Status status = reader->Finish();
    canceller.join();
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::CANCELLED) << status.error_message();
    if (!status.ok()) end_ms.push_back(MillisSince(start_us));
    const double idle = MillisUntilIdle();
    EXPECT_GE(idle, 0);
    if (!status.ok()) idle_ms.push_back(MillisSince(start_us));
  }
  PrintQuantiles("from the cancel to the end of the call", "ms", end_ms);
  PrintQuantiles("from the cancel to free pages", "ms", idle_ms);
}

TEST_F(ClientFaultsTest, ACancelledJobStopsWherever) {
  UseRealModel();
  v1::SubmitJobRequest submit = SmallJob();
  submit.mutable_spec()->mutable_suite()->set_samples(4);
  submit.mutable_spec()->mutable_suite()->set_lengths(0, 768);
  submit.mutable_spec()->mutable_variants(1)->set_model("models/a");
  submit.mutable_spec()->mutable_variants(1)->add_focal_temperatures(0.7);
  std::vector<double> call_ms, end_ms, idle_ms;
  int64_t ended_count = 0;
  for (Trials trials("cancelled jobs", {.quick = 25, .full = 2000}); trials.Next();) {
    Random random = trials.MakeRandom();
    v1::SubmitJobResponse submitted;
    const grpc::Status accepted = Submit(submit, &submitted);
    ASSERT_TRUE(accepted.ok()) << accepted.error_message();
    const std::string name = submitted.job().name();
    std::this_thread::sleep_for(std::chrono::microseconds(random.Below(400'000)));
    const auto request = Named<v1::CancelJobRequest>(name);
    v1::Job job;
    const int64_t start_us = Clock::Real().MonotonicMicros();
    const grpc::Status cancelled = Ask(*evaluation_, &v1::Evaluation::Stub::CancelJob, request, &job);
    if (!cancelled.ok()) {  // it had ended
      ++ended_count;
      EXPECT_EQ(ReasonIn(cancelled), "JOB_FINISHED") << cancelled.error_message();
      EXPECT_EQ(GetJob(name).state(), v1::Job::SUCCEEDED);
      continue;
    }
    call_ms.push_back(MillisSince(start_us));
    v1::Job::State state = job.state();
    for (int i = 0; i < 60'000 && state == v1::Job::CANCELLING; ++i) {
      std::this_thread::sleep_for(milliseconds(1));
      state = GetJob(name).state();
    }
    EXPECT_EQ(state, v1::Job::CANCELLED);
    end_ms.push_back(MillisSince(start_us));
    EXPECT_GE(MillisUntilIdle(), 0);
    idle_ms.push_back(MillisSince(start_us));
    EXPECT_EQ(GetJob(name).state(), v1::Job::CANCELLED) << "one final state";
  }
  PrintMeasured(absl::StrCat(ended_count, " jobs ended before their cancel"));
  PrintQuantiles("CancelJob", "ms", call_ms);
  PrintQuantiles("from the cancel to the state CANCELLED", "ms", end_ms);
  PrintQuantiles("from the cancel of a job to free pages", "ms", idle_ms);
}

TEST_F(ClientFaultsTest, DeadlinesEndCallsAndTheirWork) {
  UseRealModel();
  int64_t exceeded_count = 0;
  for (Trials trials("deadlines", {.quick = 150, .full = 10'000}); trials.Next();) {
    Random random = trials.MakeRandom();
    grpc::ClientContext context;
    // From 1 ms to 10 s, most of them short; the longest end with an answer.
    const int64_t deadline_us = 1000 << random.Below(random.Below(20) == 0 ? 14 : 7);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(deadline_us));
    grpc::Status status;
    if (random.Coin()) {
      const auto reader = inference_->Generate(&context, LongGenerate(200, 40));
      for (v1::GenerateResponse message; reader->Read(&message);) continue;
      status = reader->Finish();
    } else {
      v1::ComputeLogLikelihoodsRequest request;
      request.set_model("models/a");
      *request.mutable_prompt_token_ids() = LongGenerate(600, 1).prompt_token_ids();
      v1::ComputeLogLikelihoodsResponse response;
      status = inference_->ComputeLogLikelihoods(&context, request, &response);
    }
    EXPECT_TRUE(status.ok() || status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED)
        << status.error_code() << " " << status.error_message();
    exceeded_count += !status.ok();
    if (trials.index() % 16 == 15) {
      EXPECT_GE(MillisUntilIdle(), 0);
    }
  }
  EXPECT_GE(MillisUntilIdle(), 0);
  EXPECT_GT(exceeded_count, 0);
  PrintMeasured(absl::StrCat(exceeded_count, " calls ended by their deadline"));
}

TEST_F(ClientFaultsTest, StalledReadersNeedBoundedMemory) {
  control_->SetDelayMs(5);
  v1::SubmitJobRequest long_job = SmallJob();
  long_job.mutable_spec()->mutable_suite()->set_samples(50'000);  // outlasts the test
  const v1::Job submitted = Submitted(long_job);
  Trials trials("stalled streams", {.quick = 100, .full = 3000});
  struct Stalled {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> watch;
  };
  std::vector<std::unique_ptr<Stalled>> streams;
  const int64_t before = ResidentBytes();
  while (trials.Next()) {
    auto stalled = std::make_unique<Stalled>();
    const auto request = Named<v1::WatchJobRequest>(submitted.name());
    stalled->watch = evaluation_->WatchJob(&stalled->context, request);
    streams.push_back(std::move(stalled));
    if (trials.index() % 50 != 49) continue;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ListModelsResponse models;
    EXPECT_TRUE(inference_->ListModels(&context, {}, &models).ok());
  }
  // Two seconds of updates that are not read.
  for (int i = 0; i < 200; ++i) {
    GetJob(submitted.name());
    std::this_thread::sleep_for(milliseconds(10));
  }
  const int64_t grown = std::max<int64_t>(0, ResidentBytes() - before);
  PrintMeasured(absl::StrCat(grown / std::ssize(streams) / 1024, " KiB a stalled stream, client and server together"));
  EXPECT_LE(grown, std::ssize(streams) << 20) << "above 1 MiB a stream";
  const int64_t start_us = Clock::Real().MonotonicMicros();
  grpc::ClientContext context;
  const auto request = Named<v1::CancelJobRequest>(submitted.name());
  v1::Job job;
  EXPECT_TRUE(evaluation_->CancelJob(&context, request, &job).ok());
  PrintMeasured(absl::StrCat(static_cast<int>(MillisSince(start_us)), " ms for a cancel beside them"));
  for (const auto& stalled : streams) stalled->context.TryCancel();
}

TEST_F(ClientFaultsTest, AFloodOfJobsRunsInOrder) {
  control_->Hold();
  std::vector<std::string> names;
  std::vector<double> submit_ms;
  v1::SubmitJobRequest request = SmallJob();
  request.mutable_spec()->mutable_suite()->set_samples(1);
  for (Trials trials("queued jobs", {.quick = 200, .full = 10'000}); trials.Next();) {
    const int64_t start_us = Clock::Real().MonotonicMicros();
    v1::SubmitJobResponse response;
    const grpc::Status status = Submit(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    submit_ms.push_back(MillisSince(start_us));
    names.push_back(response.job().name());
  }
  PrintQuantiles("submit", "ms", submit_ms);
  control_->Release();
  for (int i = 0; i < kPolls && GetJob(names.back()).state() != v1::Job::SUCCEEDED; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  int64_t last_us = 0;
  for (const std::string& name : names) {
    const v1::Job job = GetJob(name);
    EXPECT_EQ(job.state(), v1::Job::SUCCEEDED) << name;
    const int64_t start_us = job.start_time().seconds() * 1'000'000 + job.start_time().nanos() / 1000;
    EXPECT_GE(start_us, last_us) << name << " started before an earlier one";
    last_us = start_us;
  }
}

// Submits while a model is loaded and unloaded, first with few jobs in the database, then with very many that have ended.
TEST_F(ClientFaultsTest, AFloodOfSubmitsToALargeDatabase) {
  const int64_t ended_count = IsFullSize() ? 40'000 : 5'000;
  control_->Hold();
  v1::SubmitJobRequest request = SmallJob();
  request.mutable_spec()->mutable_suite()->set_samples(1);
  v1::SubmitJobResponse running, ended;
  ASSERT_TRUE(Submit(request, &running).ok());
  for (int i = 0; i < kPolls && GetJob(running.job().name()).state() != v1::Job::RUNNING; ++i)
    std::this_thread::sleep_for(milliseconds(10));
  ASSERT_TRUE(Submit(request, &ended).ok());
  const std::string ended_id = ended.job().name().substr(std::string("jobs/").size());
  const auto cancel = Named<v1::CancelJobRequest>(ended.job().name());
  ASSERT_TRUE(Ask(*evaluation_, &v1::Evaluation::Stub::CancelJob, cancel).ok());

  const auto flood = [&](const std::string& where) {
    std::atomic<bool> is_over{false};
    const std::jthread loads([&] {
      while (!is_over) {
        v1::LoadModelRequest load;
        load.set_model_id("extra");
        load.set_directory("fake-c");
        EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::LoadModel, load).ok());
        const auto unload = Named<v1::UnloadModelRequest>("models/extra");
        EXPECT_TRUE(Ask(*inference_, &v1::Inference::Stub::UnloadModel, unload).ok());
      }
    });
    std::vector<double> submit_ms;
    for (Trials trials(absl::StrCat("submits ", where), {.quick = 100, .full = 200}); trials.Next();) {
      const int64_t start_us = Clock::Real().MonotonicMicros();
      v1::SubmitJobResponse response;
      const grpc::Status status = Submit(request, &response);
      submit_ms.push_back(MillisSince(start_us));
      EXPECT_TRUE(status.ok()) << status.error_message();
    }
    is_over = true;
    PrintQuantiles(absl::StrCat("submit ", where), "ms", submit_ms);
  };
  flood("to an empty database");
  {
    auto database = *sqlite::Database::Open(options_.database_path, {.busy_timeout_ms = 60'000});
    const absl::Status copied = database->Execute(absl::StrReplaceAll(
        "BEGIN IMMEDIATE;"
        "CREATE TEMP TABLE copies AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $count)"
        " SELECT (SELECT max(job_id) FROM jobs) + i AS new_id FROM n;"
        "INSERT INTO jobs SELECT new_id, suite, spec_json, spec_sha256, data_seed, NULL, NULL, state, error, create_us,"
        " start_us, end_us FROM jobs, copies WHERE job_id = $id;"
        "INSERT INTO variants (job_id, variant_index, name, model_id, focal_temperature_json) SELECT new_id,"
        " variant_index, name, model_id, focal_temperature_json FROM variants, copies WHERE job_id = $id;"
        "INSERT INTO cells (variant_id, task, context_length, planned_count) SELECT copy.variant_id, task,"
        " context_length, planned_count FROM cells JOIN variants USING (variant_id) JOIN variants AS copy ON"
        " copy.name = variants.name AND copy.job_id IN (SELECT new_id FROM copies) WHERE variants.job_id = $id;"
        "COMMIT",
        {{"$count", absl::StrCat(ended_count)}, {"$id", ended_id}}));
    ASSERT_TRUE(copied.ok()) << copied;
  }
  flood(absl::StrCat("beside ", ended_count, " ended jobs"));
}

}  // namespace
}  // namespace varifocal
