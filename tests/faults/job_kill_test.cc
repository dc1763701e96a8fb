// A job whose daemon is killed with SIGKILL at random times ends with the same content, bit for bit, as an uninterrupted
// one. Method: the real daemon with two shipped checkpoints runs a small job (generated answers and log-likelihoods) once
// uninterrupted; then once more, killed at random times from start-up to the last sample, restarted each time with
// other thread counts, chunk sizes, prefix cache settings and bounds; v_content of both databases must be equal.
//
// The control: a job with another seed differs.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "db/diff.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/connected_channel.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"
#include "varifocal/v1/evaluation.grpc.pb.h"
#include "varifocal/v1/inference.grpc.pb.h"

namespace varifocal {
namespace {

std::vector<std::string> Arguments(const std::string& path, const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {absl::StrCat("--db=", path), "--model=baseline=models/baseline",
                                        "--model=focal=models/focal-constant"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

void Submit(const std::string& address, int64_t seed) {
  const auto stub = v1::Evaluation::NewStub(ConnectedChannel(address));
  v1::SubmitJobRequest request;
  v1::SuiteConfig* suite = request.mutable_spec()->mutable_suite();
  suite->set_name("kills");
  suite->set_seed(seed);
  suite->add_lengths(512);
  suite->add_lengths(1024);
  suite->set_samples(8);
  suite->add_tasks()->set_kind("recall_kv");
  v1::TaskConfig* choices = suite->add_tasks();
  choices->set_kind("longqa_story");
  (*choices->mutable_parameters())["format"] = "multiple_choice";
  request.mutable_spec()->add_variants()->set_model("models/baseline");
  request.mutable_spec()->add_variants()->set_model("models/focal");
  v1::SubmitJobResponse response;
  grpc::ClientContext context;
  const grpc::Status status = stub->SubmitJob(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
}

std::optional<db::JobRow> JobOf(const std::string& path) {
  auto reader = db::Reader::Open(path);
  if (!reader.ok()) return std::nullopt;
  auto job = (*reader)->Job(1);
  return job.ok() ? std::optional(*job) : std::nullopt;
}

// Repeated kills before the first sample look like a job that crashes its daemon, which marks it failed: resumes it.
void ResumeIfStopped(const std::string& path, const std::string& address) {
  const std::optional<db::JobRow> job = JobOf(path);
  if (!job.has_value() || job->state != db::JobState::kFailed) return;
  ASSERT_NE(job->error.find("varifocal resume jobs/"), std::string::npos) << job->error;
  const auto stub = v1::Evaluation::NewStub(ConnectedChannel(address));
  v1::ResumeJobRequest request;
  request.set_name("jobs/1");
  v1::Job resumed;
  grpc::ClientContext context;
  const grpc::Status status = stub->ResumeJob(&context, request, &resumed);
  ASSERT_TRUE(status.ok()) << status.error_message();
}

// Waits until the job has succeeded; returns seconds, or -1 on failure or timeout.
double WaitForSuccess(const std::string& path) {
  const auto start = std::chrono::steady_clock::now();
  auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (seconds() < 240) {
    const std::optional<db::JobRow> job = JobOf(path);
    if (job.has_value() && job->state == db::JobState::kSucceeded) return seconds();
    if (job.has_value() && job->state == db::JobState::kFailed) {
      ADD_FAILURE() << job->error;
      return -1;
    }
    usleep(10'000);
  }
  return -1;
}

// An uninterrupted job; returns seconds.
double RunUnbroken(const std::string& path, int64_t seed) {
  DaemonProcess daemon(Arguments(path, {}));
  const std::string address = daemon.Address();
  EXPECT_NE(address, "") << daemon.Errors();
  Submit(address, seed);
  return WaitForSuccess(path);
}

TEST(JobKill, KilledJobsResumeToTheSameContent) {
  Trials trials("kills of the daemon", {.quick = 3, .full = 130});
  TemporaryDirectory directory;
  const std::string unbroken = directory.File("unbroken.db");
  const double seconds = RunUnbroken(unbroken, 5);
  ASSERT_GT(seconds, 0);
  const std::optional<db::JobRow> whole = JobOf(unbroken);
  ASSERT_TRUE(whole.has_value());
  ASSERT_EQ(whole->answered_count, 2 * 2 * 2 * 8);

  Random random(SeedOf("job kills"));
  int64_t kills = 0;
  int jobs = 0;
  int kills_inside = 0;  // with some samples recorded and some missing
  while (kills < trials.wanted_count()) {
    const std::string path = directory.File(absl::StrCat("broken", jobs++, ".db"));
    {
      DaemonProcess first(Arguments(path, {}));
      const std::string address = first.Address();
      ASSERT_NE(address, "") << first.Errors();
      Submit(address, 5);
      usleep(random.Uniform() * 0.6 * seconds * 1e6);
      first.Signal(SIGKILL);
      ASSERT_EQ(first.Wait(20), 128 + SIGKILL) << first.Errors();
      ++kills;
      trials.Count();
    }
    int64_t answered_count = 0;
    while (true) {
      // I1 and I2: the file is intact and recorded samples are kept.
      ASSIGN_OR_FAIL(auto database, sqlite::Database::Open(path, {.read_only = true}));
      EXPECT_TRUE(database->FullCheck().ok());
      database.reset();
      const std::optional<db::JobRow> job = JobOf(path);
      ASSERT_TRUE(job.has_value()) << "a submitted job is durable";
      EXPECT_GE(job->answered_count, answered_count);
      answered_count = job->answered_count;
      kills_inside += answered_count > 0 && answered_count < whole->answered_count;
      if (job->state == db::JobState::kSucceeded) break;  // killed after the job's end

      const std::vector<std::string> settings = {absl::StrCat("--threads=", 1 + random.Below(2)),
                                                 absl::StrCat("--in-flight=", 1 + random.Below(8)),
                                                 absl::StrCat("--prefill-chunk-tokens=", 128 << random.Below(3)),
                                                 random.Coin() ? "--prefix-cache=on" : "--prefix-cache=off"};
      DaemonProcess next(Arguments(path, settings));
      if (kills >= trials.wanted_count()) {
        ResumeIfStopped(path, next.Address());
        ASSERT_GT(WaitForSuccess(path), 0) << next.Errors();
        break;
      }
      usleep(random.Uniform() * 0.6 * seconds * 1e6);
      next.Signal(SIGKILL);
      ASSERT_EQ(next.Wait(20), 128 + SIGKILL) << next.Errors();
      ++kills;
      trials.Count();
    }
    ASSIGN_OR_FAIL(auto diff, db::DiffDatabases(unbroken, path));
    EXPECT_EQ(diff.row_count_a, diff.row_count_b);
    EXPECT_EQ(diff.difference_count, 0);
    for (const db::ContentDifference& d : diff.differences) {
      ADD_FAILURE() << d.variant << " " << d.task << " " << d.context_length << " " << d.sample_index << " " << d.column
                    << ": " << d.a << " against " << d.b;
    }
    EXPECT_FALSE(JobOf(path)->is_mixed);
  }
  PrintMeasured(absl::StrCat(kills_inside, " of the kills with some samples recorded, ", jobs, " jobs"));
  EXPECT_GT(kills_inside, 0) << "some kills interrupted the job";

  const std::string other = directory.File("other.db");
  ASSERT_GT(RunUnbroken(other, 6), 0);
  ASSIGN_OR_FAIL(auto control, db::DiffDatabases(unbroken, other));
  EXPECT_GT(control.difference_count, 0);
}

// A stream shows the phase: its long prompt is computed until the first token, and then it generates, both in the same
// steps as the samples of the job.
TEST(JobKill, KilledInPrefillAndInDecodeTheyResumeToTheSameContent) {
  TemporaryDirectory directory;
  const std::string unbroken = directory.File("unbroken.db");
  ASSERT_GT(RunUnbroken(unbroken, 5), 0);
  int64_t inside_count = 0;
  for (Trials trials("kills in prefill or decode", {.quick = 4, .full = 300}); trials.Next();) {
    Random random = trials.MakeRandom();
    const bool in_decode = trials.index() % 2 == 1;
    SCOPED_TRACE(in_decode ? "in decode" : "in prefill");
    const std::string path = directory.File(absl::StrCat("aimed", trials.index(), ".db"));
    {
      DaemonProcess daemon(Arguments(path, {"--prefix-cache=off"}));
      const std::string address = daemon.Address();
      ASSERT_NE(address, "") << daemon.Errors();
      Submit(address, 5);
      const auto stub = v1::Inference::NewStub(ConnectedChannel(address));
      v1::GenerateRequest request;
      request.set_model("models/baseline");
      for (int i = 0; i < 1500; ++i) request.mutable_prompt_token_ids()->add_ids(100 + i % 700);
      request.set_max_new_tokens(400);
      request.mutable_decode_settings()->set_ignore_eos(true);
      grpc::ClientContext context;
      const auto reader = stub->Generate(&context, request);
      v1::GenerateResponse message;
      if (in_decode) {
        for (uint64_t chunks = 1 + random.Below(60); chunks > 0; --chunks) ASSERT_TRUE(reader->Read(&message));
      } else {
        usleep(random.Below(50'000));
      }
      daemon.Signal(SIGKILL);
      ASSERT_EQ(daemon.Wait(20), 128 + SIGKILL) << daemon.Errors();
      int64_t received_count = 0;
      while (reader->Read(&message)) ++received_count;
      EXPECT_FALSE(reader->Finish().ok());
      inside_count += in_decode || received_count == 0;
    }
    {
      DaemonProcess next(Arguments(path, {}));
      ASSERT_NE(next.Address(), "") << next.Errors();
      ASSERT_GT(WaitForSuccess(path), 0) << next.Errors();
    }
    ASSIGN_OR_FAIL(auto diff, db::DiffDatabases(unbroken, path));
    EXPECT_EQ(diff.row_count_a, diff.row_count_b);
    EXPECT_EQ(diff.difference_count, 0);
  }
  PrintMeasured(absl::StrCat(inside_count, " of the kills surely in the phase that they aim at"));
}

}  // namespace
}  // namespace varifocal
