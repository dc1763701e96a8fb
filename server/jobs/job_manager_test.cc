// The lifecycle of jobs on a real database with a fake engine: states, exactly the missing samples after a stop or a
// failure, cancelling at any time, idempotent submission, refusals. Method: each test drives a JobManager and reads the
// database directly.
#include "server/jobs/job_manager.h"
#include "base/mutex.h"

#include <gmock/gmock.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "db/sqlite/database.h"
#include "db/sqlite/instruction_count.h"
#include "tests/fakes/job_manager_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

TEST_F(JobManagerTest, RunsAJobToItsEnd) {
  const int64_t job_id = Submit(SmallSpec());
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.planned_count, 32);
  EXPECT_EQ(view.row.answered_count, 32);
  EXPECT_EQ(view.row.failed_count, 0);
  EXPECT_EQ(view.variants, (std::vector<std::string>{"a", "a@t=0.5"}));
  ASSERT_EQ(view.cells.size(), 4u);
  for (const db::CellRow& cell : view.cells) EXPECT_EQ(cell.answered_count, 8);
  EXPECT_TRUE(view.row.start_us.has_value());
  EXPECT_TRUE(view.row.end_us.has_value());
  EXPECT_EQ(control_->started_count(), 32);
}

TEST_F(JobManagerTest, StopAndStartAskExactlyTheMissingSamples) {
  const int64_t job_id = SubmitHeldAfter(5);
  manager_->Stop();
  ASSIGN_OR_FAIL(const auto stopped, manager_->Get(job_id, false));
  EXPECT_EQ(stopped.row.state, db::JobState::kQueued);
  const int64_t answered = stopped.row.answered_count;
  EXPECT_EQ(answered, 5);

  manager_.reset();
  const int started_before = control_->started_count();
  control_->Release();
  Open();
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.answered_count, 32);
  EXPECT_EQ(control_->started_count() - started_before, 32 - answered);
}

TEST_F(JobManagerTest, EpochsAreResumedByAnswer) {
  JobSpec spec = SmallSpec();
  spec.suite.epochs = 3;
  spec.decode.sampling_temperature = 0.7;
  const int64_t job_id = SubmitHeldAfter(7, spec);
  manager_->Stop();
  manager_.reset();
  const int started_before = control_->started_count();
  control_->Release();
  Open();
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.answered_count, 3 * 32);
  EXPECT_EQ(control_->started_count() - started_before, 3 * 32 - 7);
}

// A permanent device failure fails the job and none of its samples: after the restart exactly those without an answer
// run. Jobs of other models continue.
TEST_F(JobManagerTest, ALostDeviceLeavesItsSamplesToBeAskedAgain) {
  ASSERT_TRUE(host_.Load("b", "fake-b").ok());
  const int64_t job_id = SubmitHeldAfter(5);
  control_->SetFault("a", absl::UnavailableError("the device failed while adding: CUDA error 700"));
  control_->Release();
  const JobView lost = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_EQ(lost.row.answered_count, 5);
  EXPECT_EQ(lost.row.failed_count, 0) << "a sample on a lost device is missing, not failed";
  EXPECT_EQ(
      lost.row.error,
      absl::StrCat("model \"a\" is lost until varifocald starts again: the device failed while adding: CUDA error "
                   "700; then `varifocal resume jobs/",
                   job_id, "` runs the samples without an answer"));
  EXPECT_EQ(ReasonOf(manager_->Submit(SmallSpec(), {}).status()).name, "DEVICE_FAULTED");
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, false).status()).name, "DEVICE_FAULTED");

  JobSpec other = SmallSpec();
  other.variants = {{"b", {}}};
  EXPECT_EQ(WaitForState(Submit(other), db::JobState::kSucceeded).row.answered_count, 16);

  control_->SetFault("a", absl::OkStatus());  // a new daemon
  const int started_before = control_->started_count();
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  const JobView resumed = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(resumed.row.answered_count, 32);
  EXPECT_EQ(control_->started_count() - started_before, 32 - lost.row.answered_count);
}

TEST_F(JobManagerTest, CancelStopsARunningJobAndResumeFinishesIt) {
  const int64_t job_id = SubmitHeldAfter(3);
  ASSERT_TRUE(manager_->Cancel(job_id).ok());
  const JobView cancelled = WaitForState(job_id, db::JobState::kCancelled);
  EXPECT_EQ(cancelled.row.answered_count, 3);
  EXPECT_EQ(cancelled.row.failed_count, 0) << "an abandoned sample is missing, not failed";
  EXPECT_TRUE(manager_->Cancel(job_id).ok()) << "repeating is harmless";

  control_->Release();
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
  EXPECT_EQ(ReasonOf(manager_->Cancel(job_id).status()).name, "JOB_FINISHED");
}

TEST_F(JobManagerTest, CancelWhileTheEngineHangs) {
  control_->Hold();
  const int64_t job_id = Submit(SmallSpec());
  WaitForState(job_id, db::JobState::kRunning);
  control_->WaitUntilStarted();
  ASSERT_TRUE(manager_->Cancel(job_id).ok());
  WaitForState(job_id, db::JobState::kCancelled);  // while the engine is still held
}

TEST_F(JobManagerTest, QueuedJobsWaitTheirTurnAndCanBeCancelled) {
  control_->Hold();
  const int64_t first = Submit(SmallSpec());
  const int64_t second = Submit(SmallSpec());
  const int64_t third = Submit(SmallSpec());
  WaitForState(first, db::JobState::kRunning);
  EXPECT_EQ(manager_->Get(second, false)->row.state, db::JobState::kQueued);
  ASSIGN_OR_FAIL(const auto cancelled, manager_->Cancel(second));
  EXPECT_EQ(cancelled.row.state, db::JobState::kCancelled);
  control_->Release();
  WaitForState(third, db::JobState::kSucceeded);
  EXPECT_EQ(manager_->Get(first, false)->row.state, db::JobState::kSucceeded);
  EXPECT_EQ(manager_->Get(second, false)->row.answered_count, 0);
}

TEST_F(JobManagerTest, QueuedJobsAreLimited) {
  control_->Hold();
  const int64_t running = Submit(SmallSpec());
  WaitForState(running, db::JobState::kRunning);
  const int64_t queued = Submit(SmallSpec());
  // Copies of the queued one, up to one below the limit.
  ASSIGN_OR_FAIL(auto database, sqlite::Database::Open(directory_.File("results.db"), {}));
  const absl::Status copied = database->Execute(
      absl::StrCat("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ", kQueuedJobsMax - 1,
                   ") INSERT INTO jobs (suite, spec_json, spec_sha256, data_seed, state, create_us) SELECT suite, "
                   "spec_json, spec_sha256, data_seed, state, create_us FROM jobs, n WHERE job_id = ",
                   queued));
  ASSERT_TRUE(copied.ok()) << copied;
  const int64_t last = Submit(SmallSpec());
  const absl::Status refused = manager_->Submit(SmallSpec(), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(refused, RefusedFor("QUEUE_FULL", Message("10000")));
  ASSERT_TRUE(manager_->Cancel(last).ok());
  Submit(SmallSpec());
  manager_->Stop();  // before it takes up a copy, which has no cells
}

TEST_F(JobManagerTest, FailedSamplesAreRowsAndResumeRetriesThem) {
  control_->FailNext(3, WithReason(absl::DataLossError("a logit is not finite"), ErrorReason::kNumericError));
  const int64_t job_id = Submit(SmallSpec());
  JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.failed_count, 3);
  EXPECT_EQ(view.row.answered_count, 29);
  ASSIGN_OR_FAIL(auto reader, db::Reader::Open(directory_.File("results.db")));
  db::SampleQuery query;
  query.job_id = job_id;
  query.only_failed = true;
  ASSIGN_OR_FAIL(const auto failed, reader->Samples(query));
  ASSERT_EQ(failed.size(), 3u);
  EXPECT_EQ(failed[0].generation.error_code, "NUMERIC_ERROR");
  EXPECT_TRUE(failed[0].scores.empty());

  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  view = WaitUntil(job_id,
                   [](const JobView& v) { return v.row.state == db::JobState::kSucceeded && v.row.failed_count == 0; });
  EXPECT_EQ(view.row.answered_count, 32);
}

TEST_F(JobManagerTest, ARowCountsTheRequestsOfItsSample) {
  control_->FailNext(3, absl::UnavailableError("the device is busy"));
  const int64_t job_id = Submit(SmallSpec());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
  ASSIGN_OR_FAIL(auto reader, db::Reader::Open(directory_.File("results.db")));
  int64_t attempt_count = 0;
  ASSIGN_OR_FAIL(const auto samples, reader->Samples({.job_id = job_id}));
  for (const db::SampleDetail& sample : samples) attempt_count += sample.attempt_count;
  EXPECT_EQ(attempt_count, 32 + 3);
}

TEST_F(JobManagerTest, RequestIdMakesSubmitSafeToRepeat) {
  ASSIGN_OR_FAIL(const auto first, manager_->Submit(SmallSpec(), {.request_id = "id-1"}));
  ASSIGN_OR_FAIL(const auto again, manager_->Submit(SmallSpec(), {.request_id = "id-1"}));
  EXPECT_EQ(again.row.job_id, first.row.job_id);
  JobSpec other = SmallSpec();
  other.suite.seed = 99;
  EXPECT_EQ(ReasonOf(manager_->Submit(other, {.request_id = "id-1"}).status()).name, "REQUEST_ID_REUSED");
  EXPECT_EQ(ReasonOf(manager_->Submit(other, {.request_id = std::string(65, 'x')}).status()).name, "BAD_REQUEST_ID");
}

// The same request finds its job again only while it would ask the same questions of the same models. Method: rows, then the
// model are replaced under their names; each is refused with both values, and a job of its own is found again afterwards.
TEST_F(JobManagerTest, AnEqualRequestIsAskedAgainWhenWhatItAsksHasChanged) {
  const std::string rows = directory_.File("rows.jsonl");
  WriteFile(rows, R"({"q": "Where?", "a": "Rome"})"
                  "\n");
  JobSpec spec = SmallSpec();
  spec.suite.tasks = {{.kind = "jsonl", .parameters = {{"path", rows}, {"prompt", "{q}"}, {"gold", "a"}}}};
  const SubmitOptions same = {.body_sha256 = std::string(64, 'b'), .reuse_equal_job = true};
  ASSIGN_OR_FAIL(const auto first, manager_->Submit(spec, same));
  const int64_t first_id = first.row.job_id;
  WaitForState(first_id, db::JobState::kSucceeded);
  ASSIGN_OR_FAIL(const auto again, manager_->Submit(spec, same));
  EXPECT_TRUE(again.is_repeated);
  EXPECT_EQ(again.row.job_id, first_id);

  WriteFile(rows, R"({"q": "Where?", "a": "Paris"})"
                  "\n");
  EXPECT_THAT(manager_->Submit(spec, same).status(), RefusedFor("REQUEST_CHANGED", Message("SHA-256")));
  SubmitOptions is_new = same;
  is_new.request_id = "of its own";
  ASSIGN_OR_FAIL(const auto second, manager_->Submit(spec, is_new));
  EXPECT_NE(second.row.job_id, first_id);
  WaitForState(second.row.job_id, db::JobState::kSucceeded);
  EXPECT_EQ(manager_->Submit(spec, same)->row.job_id, second.row.job_id) << "the newest that is unchanged";
  WriteFile(rows, R"({"q": "Where?", "a": "Rome"})"
                  "\n");
  EXPECT_EQ(manager_->Submit(spec, same)->row.job_id, first_id);
  WriteFile(rows, R"({"q": "Where?", "a": "Paris"})"
                  "\n");

  for (const char* directory : {"fake-b", "fake-stretched"}) {
    ASSERT_TRUE(host_.Unload("a").ok());
    ASSERT_TRUE(host_.Load("a", directory).ok());
    const absl::Status other = manager_->Submit(spec, same).status();
    EXPECT_EQ(ReasonOf(other).name, "REQUEST_CHANGED") << directory;
    EXPECT_THAT(std::string(other.message()),
                testing::HasSubstr(std::string(directory) == "fake-b" ? "another weights" : "another configuration"));
    // A retry after a lost response gets its job whatever has changed.
    EXPECT_EQ(manager_->Submit(spec, is_new)->row.job_id, second.row.job_id);
  }
}

TEST_F(JobManagerTest, ConcurrentSubmitsWithOneIdMakeOneJob) {
  std::vector<std::thread> threads;
  struct {
    Mutex mutex;
    std::set<int64_t> ids VF_GUARDED_BY(mutex);
  } submitted;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto view = manager_->Submit(SmallSpec(), {.request_id = "same"});
      MutexLock lock(submitted.mutex);
      submitted.ids.insert(view.ok() ? view->row.job_id : -1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  MutexLock lock(submitted.mutex);
  EXPECT_EQ(submitted.ids.size(), 1u);
  EXPECT_EQ(submitted.ids.count(-1), 0u);
}

TEST_F(JobManagerTest, AJobWhoseModelIsGoneFailsAndSaysSo) {
  const int64_t job_id = SubmitHeldAfter(1);
  manager_.reset();
  ASSERT_TRUE(host_.Unload("a").ok());
  Open();
  JobView view = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_THAT(view.row.error, Message("\"a\""));
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  control_->Release();
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
}

TEST_F(JobManagerTest, OtherWeightsUnderTheSameNameAreRefusedEvenMixed) {
  const int64_t job_id = SubmitHeldAfter(1);
  ASSERT_TRUE(manager_->Cancel(job_id).ok());
  WaitForState(job_id, db::JobState::kCancelled);
  ASSERT_TRUE(host_.Unload("a").ok());
  ASSERT_TRUE(host_.Load("a", "other-weights").ok());
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, false).status()).name, "MODEL_CHANGED");
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, true).status()).name, "MODEL_CHANGED");
}

TEST_F(JobManagerTest, AnotherInstructionSetIsMixedOnlyWhenAllowed) {
  const int64_t job_id = SubmitHeldAfter(1);
  manager_.reset();
  ASSERT_TRUE(host_.Unload("a").ok());
  control_->SetInstructionSet("other");
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  Open();  // the next daemon, on another processor, must not continue automatically
  const JobView failed = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_THAT(failed.row.error, HasSubstr("other"));
  EXPECT_FALSE(failed.row.is_mixed);
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, false).status()).name, "MIXED_EXECUTION");
  control_->HoldAfter(1);
  ASSERT_TRUE(manager_->Resume(job_id, true).ok());
  const int64_t answered = failed.row.answered_count;
  WaitUntil(job_id, [&](const JobView& view) { return view.row.answered_count > answered; });
  manager_.reset();
  control_->Release();
  Open();  // the permission holds for the next daemon too
  const JobView mixed = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(mixed.row.answered_count, 32);
  EXPECT_TRUE(mixed.row.is_mixed);
}

TEST_F(JobManagerTest, ModelsOfCallsComeBackUntilTheyAreUnloaded) {
  options_.own_models = {"a", "learned", "bare"};
  const auto restart = [this] {
    manager_.reset();
    for (const auto& model : host_.List()) {
      if (options_.own_models.count(model->name) > 0) continue;
      ASSERT_TRUE(host_.Unload(model->name).ok());
    }
    Open();
  };
  restart();
  ASSERT_TRUE(manager_->LoadModel("a", "fake").ok()) << "the one that is there";
  ASSERT_TRUE(manager_->LoadModel("called", "fake-b").ok());
  ASSERT_TRUE(manager_->LoadModel("gone", "fake-c").ok());
  EXPECT_FALSE(manager_->LoadModel("refused", "missing").ok());
  ASSERT_TRUE(manager_->UnloadModel("gone").ok());
  restart();
  ASSIGN_OR_FAIL(const auto called, host_.Find("called"));
  EXPECT_EQ(called->directory, std::filesystem::current_path().string() + "/fake-b") << "whatever the next one's is";
  for (const char* name : {"gone", "refused"}) EXPECT_TRUE(absl::IsNotFound(host_.Find(name).status())) << name;
  ASSERT_TRUE(manager_->UnloadModel("called").ok());
  restart();
  EXPECT_TRUE(absl::IsNotFound(host_.Find("called").status()));
  EXPECT_EQ(host_.List().size(), 3u) << "its own models are not remembered";
}

TEST_F(JobManagerTest, ModelsInUseAreKnown) {
  control_->Hold();
  const int64_t job_id = Submit(SmallSpec());
  EXPECT_EQ(ReasonOf(manager_->CheckUnused("a")).name, "MODEL_IN_USE");
  EXPECT_TRUE(manager_->CheckUnused("learned").ok());
  control_->Release();
  WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_TRUE(manager_->CheckUnused("a").ok());
}

// In the database of a daemon that has run for months nearly all jobs have ended. Cost: instructions of SQLite.
TEST_F(JobManagerTest, CallsDoNotReadTheJobsThatHaveEnded) {
  manager_.reset();
  sqlite::StartInstructionCounts();
  Open();
  control_->Hold();
  const int64_t running = Submit(SmallSpec());  // the thread of the jobs leaves the queue alone meanwhile
  WaitForState(running, db::JobState::kRunning);
  const auto cost_of = [](const std::function<void()>& call) {
    const int64_t before = sqlite::InstructionCount();
    call();
    return sqlite::InstructionCount() - before;
  };
  const std::vector<std::pair<const char*, std::function<void()>>> calls = {
      {"Submit", [&] { ASSERT_TRUE(manager_->Cancel(Submit(SmallSpec())).ok()); }},
      {"List", [&] { EXPECT_TRUE(manager_->List(0, 2).ok()); }},
      {"no such job", [&] { EXPECT_TRUE(absl::IsNotFound(manager_->Cancel(1'000'000).status())); }},
      {"CheckUnused", [&] { EXPECT_TRUE(manager_->CheckUnused("bare").ok()); }},
      {"CheckUnused of a model in use", [&] { EXPECT_FALSE(manager_->CheckUnused("a").ok()); }},
  };
  const auto end_jobs = [&](int count) {
    for (int i = 0; i < count; ++i) ASSERT_TRUE(manager_->Cancel(Submit(SmallSpec())).ok());
  };
  end_jobs(20);
  std::vector<int64_t> costs;
  for (const auto& [name, call] : calls) costs.push_back(cost_of(call));
  end_jobs(100);
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_GT(costs[i], 0) << calls[i].first;
    EXPECT_LE(cost_of(calls[i].second), costs[i] + 20) << calls[i].first;
  }
}

TEST_F(JobManagerTest, ASecondManagerIsRefused) {
  JobManagerOptions options;
  options.database_path = directory_.File("results.db");
  const auto second = JobManager::Create(&host_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(getpid())));
}

TEST_F(JobManagerTest, ConcurrentCancelAndFinishLeaveOneSettledState) {
  for (int round = 0; round < 20; ++round) {
    JobSpec spec = SmallSpec();
    spec.suite.samples = 1;
    spec.suite.seed = round;
    const int64_t job_id = Submit(spec);
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    const auto cancelled = manager_->Cancel(job_id);
    const JobView view = WaitUntil(job_id, [](const JobView& v) { return db::IsSettled(v.row.state); });
    EXPECT_EQ(view.row.state, cancelled.ok() ? db::JobState::kCancelled : db::JobState::kSucceeded) << round;
  }
}

TEST_F(JobManagerTest, BytesOfASpecification) {
  for (const size_t bytes : {kSpecBytesMax - 1, kSpecBytesMax, kSpecBytesMax + 1}) {
    const absl::Status status = CheckSpecBytes(std::string(bytes, ' '));
    EXPECT_EQ(status.ok(), bytes <= kSpecBytesMax) << bytes;
    EXPECT_EQ(HasReason(status, ErrorReason::kBadJobSpec), bytes > kSpecBytesMax) << bytes;
  }
}

}  // namespace
}  // namespace varifocal
