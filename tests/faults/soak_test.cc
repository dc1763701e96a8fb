// Soak: 32 clients of one server for a time, with shipped checkpoints: jobs that run, are cancelled and resumed, watches,
// generation, scoring, tokenization, listing, a model that is loaded and unloaded. Method: every answer of a known prompt
// must be the known one, every status one that the race of the calls allows; then no call is active, the database is
// clean, and the growth of memory and descriptors since the first tenth of the time is printed with the latencies.
// The number of trials is the duration in seconds: VARIFOCAL_FAULT_SIZE=3600 for an hour.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/random.h"
#include "db/sqlite/database.h"
#include "tests/fakes/server_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/connected_channel.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using grpc::StatusCode;

constexpr int kClients = 32;

struct Resources {
  int64_t resident_bytes = 0;
  int64_t descriptor_count = 0;

  static Resources Now() {
    std::ifstream file("/proc/self/statm");
    int64_t total = 0, resident = 0;
    file >> total >> resident;
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return {resident * sysconf(_SC_PAGESIZE), std::distance(begin(all), end(all))};
  }
};

class SoakTest : public ServerTest {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    options_.database_path = directory_.File("results.db");
    options_.models = {{"a", "models/baseline"}, {"b", "models/focal-constant"}};
    options_.listen_address = "127.0.0.1:0";
    options_.model.threads = 1;
    ASSIGN_OR_FAIL(server_, Server::Start(options_));
    for (int i = 0; i < 8; ++i) channels_.push_back(ConnectedChannel(server_->address()));
  }

  // A status that a call may get because others change jobs and models at the same time.
  void Expect(const char* call, const grpc::Status& status, std::initializer_list<StatusCode> allowed) {
    if (status.ok() || std::find(allowed.begin(), allowed.end(), status.error_code()) != allowed.end()) return;
    ADD_FAILURE() << call << ": " << status.error_code() << " " << status.error_message();
  }

  template <typename Call>
  void Timed(const char* name, Call&& call) {
    const int64_t start_us = Clock::Real().MonotonicMicros();
    call();
    const double ms = (Clock::Real().MonotonicMicros() - start_us) / 1000.0;
    MutexLock lock(mutex_);
    milliseconds_[name].push_back(ms);
  }

  void CallOnce(v1::Inference::Stub& inference, v1::Evaluation::Stub& evaluation, Random& random);
  std::string KnownAnswer(v1::Inference::Stub& inference, uint64_t prompt);

  std::vector<std::shared_ptr<grpc::Channel>> channels_;
  Mutex mutex_;
  std::map<std::string, std::vector<double>> milliseconds_ VF_GUARDED_BY(mutex_);  // by call
  std::map<uint64_t, std::string> known_answers_;                                  // by prompt
  std::atomic<int64_t> job_count_{0};
};

std::string SoakTest::KnownAnswer(v1::Inference::Stub& inference, uint64_t prompt) {
  v1::GenerateRequest request;
  request.set_model(prompt % 2 == 0 ? "models/a" : "models/b");
  for (uint64_t i = 0; i < 20 + 40 * prompt; ++i) request.mutable_prompt_token_ids()->add_ids(10 + (i * prompt) % 800);
  request.set_max_new_tokens(8);
  grpc::ClientContext context;
  const auto reader = inference.Generate(&context, request);
  std::string text;
  for (v1::GenerateResponse message; reader->Read(&message);) {
    if (message.has_result()) text = absl::StrCat("answer ", message.result().text());
  }
  const grpc::Status status = reader->Finish();
  Expect("Generate", status, {});
  return text;
}

void SoakTest::CallOnce(v1::Inference::Stub& inference, v1::Evaluation::Stub& evaluation, Random& random) {
  grpc::ClientContext context;
  switch (random.Below(10)) {
    case 0:
    case 1: {
      const uint64_t prompt = random.Below(6);
      Timed("Generate", [&] {
        const std::string text = KnownAnswer(inference, prompt);
        EXPECT_EQ(text, known_answers_.at(prompt));
      });
      break;
    }
    case 2: {
      v1::SubmitJobRequest request = SmallJob();
      request.mutable_spec()->mutable_suite()->set_samples(2);
      v1::SubmitJobResponse response;
      Timed("SubmitJob", [&] { Expect("SubmitJob", evaluation.SubmitJob(&context, request, &response), {}); });
      ++job_count_;
      break;
    }
    case 3: {
      const auto request = Named<v1::CancelJobRequest>(absl::StrCat("jobs/", 1 + random.Below(1 + job_count_)));
      v1::Job job;
      Timed("CancelJob", [&] {
        Expect("CancelJob", evaluation.CancelJob(&context, request, &job),
               {StatusCode::FAILED_PRECONDITION, StatusCode::NOT_FOUND});
      });
      break;
    }
    case 4: {
      const auto request = Named<v1::ResumeJobRequest>(absl::StrCat("jobs/", 1 + random.Below(1 + job_count_)));
      v1::Job job;
      Timed("ResumeJob", [&] {
        Expect("ResumeJob", evaluation.ResumeJob(&context, request, &job),
               {StatusCode::FAILED_PRECONDITION, StatusCode::NOT_FOUND});
      });
      break;
    }
    case 5: {
      v1::TokenizeRequest request;
      request.set_model("models/a");
      request.set_text(std::string(random.Below(20'000), 'x'));
      v1::TokenizeResponse response;
      Timed("Tokenize", [&] { Expect("Tokenize", inference.Tokenize(&context, request, &response), {}); });
      break;
    }
    case 6: {
      const auto request = Named<v1::WatchJobRequest>(absl::StrCat("jobs/", 1 + random.Below(1 + job_count_)));
      const auto watch = evaluation.WatchJob(&context, request);
      v1::WatchJobResponse message;
      for (int i = 0; i < 3 && watch->Read(&message); ++i) continue;
      context.TryCancel();
      Expect("WatchJob", watch->Finish(), {StatusCode::CANCELLED, StatusCode::NOT_FOUND});
      break;
    }
    case 7: {
      v1::ComputeLogLikelihoodsRequest request;
      request.set_model("models/b");
      request.set_prompt_text("The key of the door");
      request.add_continuations()->set_text(" is");
      v1::ComputeLogLikelihoodsResponse response;
      Timed("ComputeLogLikelihoods", [&] {
        Expect("ComputeLogLikelihoods", inference.ComputeLogLikelihoods(&context, request, &response), {});
      });
      break;
    }
    case 8: {
      v1::ListJobsRequest request;
      request.set_page_size(20);
      v1::ListJobsResponse response;
      Timed("ListJobs", [&] { Expect("ListJobs", evaluation.ListJobs(&context, request, &response), {}); });
      break;
    }
    default: {
      if (random.Coin()) {
        v1::LoadModelRequest request;
        request.set_model_id("extra");
        request.set_directory("models/focal-learned");
        v1::Model model;
        Expect("LoadModel", inference.LoadModel(&context, request, &model), {StatusCode::UNAVAILABLE});
      } else {
        const auto request = Named<v1::UnloadModelRequest>("models/extra");
        v1::UnloadModelResponse response;
        Expect("UnloadModel", inference.UnloadModel(&context, request, &response),
               {StatusCode::NOT_FOUND, StatusCode::UNAVAILABLE});
      }
    }
  }
}

TEST_F(SoakTest, MixedCallsOfManyClients) {
  {
    const auto inference = v1::Inference::NewStub(channels_[0]);
    for (uint64_t prompt = 0; prompt < 6; ++prompt) known_answers_[prompt] = KnownAnswer(*inference, prompt);
  }
  std::atomic<bool> is_over{false};
  std::atomic<int64_t> call_count{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&, i] {
      const auto inference = v1::Inference::NewStub(channels_[i % channels_.size()]);
      const auto evaluation = v1::Evaluation::NewStub(channels_[i % channels_.size()]);
      Random random(SeedOf(absl::StrCat("client ", i)));
      while (!is_over) {
        CallOnce(*inference, *evaluation, random);
        ++call_count;
        std::this_thread::sleep_for(std::chrono::milliseconds(random.Below(40)));
      }
    });
  }
  Resources first;
  {
    Trials trials("seconds of 32 clients", {.quick = 12, .full = 28'800});
    while (trials.Next()) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (trials.index() == trials.wanted_count() / 10) first = Resources::Now();
      if (trials.index() % 5 == 0) {
        EXPECT_EQ(Health(channels_[0], ""), "SERVING");
      }
    }
  }
  const Resources last = Resources::Now();
  is_over = true;
  for (std::thread& client : clients) client.join();
  PrintMeasured(
      absl::StrFormat("%d calls, %d jobs; after the first tenth: memory %d to %d MiB (%+.1f %%), descriptors %d to %d",
                      call_count.load(), job_count_.load(), first.resident_bytes >> 20, last.resident_bytes >> 20,
                      100.0 * (last.resident_bytes - first.resident_bytes) / first.resident_bytes,
                      first.descriptor_count, last.descriptor_count));
  {
    MutexLock lock(mutex_);
    for (const auto& [call, milliseconds] : milliseconds_) PrintQuantiles(call, "ms", milliseconds);
  }
  EXPECT_LE(last.descriptor_count, first.descriptor_count + 16);
  server_.reset();
  ASSIGN_OR_FAIL(auto database, sqlite::Database::Open(options_.database_path, {.read_only = true}));
  EXPECT_TRUE(database->FullCheck().ok());
}

}  // namespace
}  // namespace varifocal
