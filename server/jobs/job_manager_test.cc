// The lifecycle of jobs on a real database with a fake engine: states, exactly the missing samples after a stop or a
// failure, cancelling at any time, idempotent submission, refusals. Method: each test drives a JobManager and reads the
// database directly.
#include "server/jobs/job_manager.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "db/sqlite/database.h"
#include "eval_tasks/helmet/rows.h"
#include "tests/fakes/fake_engine.h"
#include "tests/fakes/wait_for_job.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

class JobManagerTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    ASSERT_TRUE(host_.Load("a", "fake").ok());
    ASSERT_TRUE(host_.Load("learned", "fake-learned").ok());
    ASSERT_TRUE(host_.Load("bare", "fake-bare").ok());
    Open();
  }

  void Open() {
    options_.database_path = directory_.File("results.db");
    options_.in_flight = 4;
    auto manager = JobManager::Create(&host_, options_);
    ASSERT_TRUE(manager.ok()) << manager.status();
    manager_ = *std::move(manager);
    manager_->LoadCalledModels();
    manager_->Start();
  }

  // 2 variants x 1 task x 2 lengths x 8 samples = 32 samples.
  static JobSpec SmallSpec() {
    JobSpec spec;
    spec.suite.name = "small";
    spec.suite.lengths = {256, 512};
    spec.suite.samples = 8;
    spec.suite.tasks = {{.kind = "recall_kv"}};
    spec.variants = {{"a", {}}, {"a", {0.5}}};
    spec.in_flight = 0;
    return spec;
  }

  JobView WaitUntil(int64_t job_id, const std::function<bool(const JobView&)>& condition) {
    return WaitForJob(*manager_, job_id, condition);
  }
  JobView WaitForState(int64_t job_id, db::JobState state) {
    return WaitUntil(job_id, [&](const JobView& view) { return view.row.state == state; });
  }
  int64_t Submit(const JobSpec& spec) {
    auto view = manager_->Submit(spec, {});
    EXPECT_TRUE(view.ok()) << view.status();
    return view.ok() ? view->row.job_id : 0;
  }

  testing_support::TemporaryDirectory directory_;
  std::shared_ptr<FakeEngineControl> control_ = std::make_shared<FakeEngineControl>();
  ModelHost host_{MakeFakeModelFactory(control_)};
  JobManagerOptions options_;
  std::unique_ptr<JobManager> manager_;
};

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
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 5; });
  manager_->Stop();
  const auto stopped = manager_->Get(job_id, false);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->row.state, db::JobState::kQueued);
  const int64_t answered = stopped->row.answered_count;
  ASSERT_LT(answered, 32);

  manager_.reset();
  const int started_before = control_->started_count();
  Open();
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.answered_count, 32);
  EXPECT_EQ(control_->started_count() - started_before, 32 - answered);
}

// A permanent device failure fails the job and none of its samples: after the restart exactly those without an answer
// run. Jobs of other models continue.
TEST_F(JobManagerTest, ALostDeviceLeavesItsSamplesToBeAskedAgain) {
  ASSERT_TRUE(host_.Load("b", "fake-b").ok());
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 5; });
  control_->SetFault("a", absl::UnavailableError("the device failed while adding: CUDA error 700"));
  const JobView lost = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_LT(lost.row.answered_count, 32);
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
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 3; });
  ASSERT_TRUE(manager_->Cancel(job_id).ok());
  const JobView cancelled = WaitForState(job_id, db::JobState::kCancelled);
  EXPECT_LT(cancelled.row.answered_count, 32);
  EXPECT_EQ(cancelled.row.failed_count, 0) << "an abandoned sample is missing, not failed";
  EXPECT_TRUE(manager_->Cancel(job_id).ok()) << "repeating is harmless";

  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
  EXPECT_EQ(ReasonOf(manager_->Cancel(job_id).status()).name, "JOB_FINISHED");
}

TEST_F(JobManagerTest, CancelWhileTheEngineHangs) {
  control_->Hold();
  const int64_t job_id = Submit(SmallSpec());
  WaitForState(job_id, db::JobState::kRunning);
  while (control_->started_count() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
  const auto cancelled = manager_->Cancel(second);
  ASSERT_TRUE(cancelled.ok());
  EXPECT_EQ(cancelled->row.state, db::JobState::kCancelled);
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
  auto database = sqlite::Database::Open(directory_.File("results.db"), {});
  ASSERT_TRUE(database.ok()) << database.status();
  const absl::Status copied = (*database)->Execute(
      absl::StrCat("WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ", kQueuedJobsMax - 1,
                   ") INSERT INTO jobs (suite, spec_json, spec_sha256, data_seed, state, create_us) SELECT suite, "
                   "spec_json, spec_sha256, data_seed, state, create_us FROM jobs, n WHERE job_id = ",
                   queued));
  ASSERT_TRUE(copied.ok()) << copied;
  const int64_t last = Submit(SmallSpec());
  const absl::Status refused = manager_->Submit(SmallSpec(), {}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(refused).name, "QUEUE_FULL");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("10000 jobs are queued, the limit is 10000"));
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
  auto reader = db::Reader::Open(directory_.File("results.db"));
  ASSERT_TRUE(reader.ok());
  db::SampleQuery query;
  query.job_id = job_id;
  query.only_failed = true;
  const auto failed = (*reader)->Samples(query);
  ASSERT_TRUE(failed.ok()) << failed.status();
  ASSERT_EQ(failed->size(), 3u);
  EXPECT_EQ((*failed)[0].generation.error_code, "NUMERIC_ERROR");
  EXPECT_TRUE((*failed)[0].scores.empty());

  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  view = WaitUntil(job_id,
                   [](const JobView& v) { return v.row.state == db::JobState::kSucceeded && v.row.failed_count == 0; });
  EXPECT_EQ(view.row.answered_count, 32);
}

TEST_F(JobManagerTest, ARowCountsTheRequestsOfItsSample) {
  control_->FailNext(3, absl::UnavailableError("the device is busy"));
  const int64_t job_id = Submit(SmallSpec());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
  auto reader = db::Reader::Open(directory_.File("results.db"));
  ASSERT_TRUE(reader.ok());
  int64_t attempt_count = 0;
  const auto samples = (*reader)->Samples({.job_id = job_id});
  ASSERT_TRUE(samples.ok()) << samples.status();
  for (const db::SampleDetail& sample : *samples) attempt_count += sample.attempt_count;
  EXPECT_EQ(attempt_count, 32 + 3);
}

TEST_F(JobManagerTest, RequestIdMakesSubmitSafeToRepeat) {
  const auto first = manager_->Submit(SmallSpec(), {.request_id = "id-1"});
  ASSERT_TRUE(first.ok());
  const auto again = manager_->Submit(SmallSpec(), {.request_id = "id-1"});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->row.job_id, first->row.job_id);
  JobSpec other = SmallSpec();
  other.suite.seed = 99;
  EXPECT_EQ(ReasonOf(manager_->Submit(other, {.request_id = "id-1"}).status()).name, "REQUEST_ID_REUSED");
  EXPECT_EQ(ReasonOf(manager_->Submit(other, {.request_id = std::string(65, 'x')}).status()).name, "BAD_REQUEST_ID");
}

TEST_F(JobManagerTest, ConcurrentSubmitsWithOneIdMakeOneJob) {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::set<int64_t> ids;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto view = manager_->Submit(SmallSpec(), {.request_id = "same"});
      std::lock_guard<std::mutex> lock(mutex);
      ids.insert(view.ok() ? view->row.job_id : -1);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ids.size(), 1u);
  EXPECT_EQ(ids.count(-1), 0u);
}

TEST_F(JobManagerTest, AJobWhoseModelIsGoneFailsAndSaysSo) {
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 1; });
  manager_.reset();
  ASSERT_TRUE(host_.Unload("a").ok());
  Open();
  JobView view = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_THAT(view.row.error, HasSubstr("no model \"a\""));
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 32);
}

TEST_F(JobManagerTest, OtherWeightsUnderTheSameNameAreRefusedEvenMixed) {
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 1; });
  ASSERT_TRUE(manager_->Cancel(job_id).ok());
  WaitForState(job_id, db::JobState::kCancelled);
  ASSERT_TRUE(host_.Unload("a").ok());
  ASSERT_TRUE(host_.Load("a", "other-weights").ok());
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, false).status()).name, "MODEL_CHANGED");
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, true).status()).name, "MODEL_CHANGED");
}

TEST_F(JobManagerTest, AnotherInstructionSetIsMixedOnlyWhenAllowed) {
  control_->SetDelayMs(10);
  const int64_t job_id = Submit(SmallSpec());
  WaitUntil(job_id, [](const JobView& view) { return view.row.answered_count >= 1; });
  manager_.reset();
  ASSERT_TRUE(host_.Unload("a").ok());
  control_->SetInstructionSet("other");
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  Open();  // the next daemon, on another processor, must not continue automatically
  const JobView failed = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_THAT(failed.row.error, HasSubstr("other"));
  EXPECT_FALSE(failed.row.is_mixed);
  EXPECT_EQ(ReasonOf(manager_->Resume(job_id, false).status()).name, "MIXED_EXECUTION");
  ASSERT_TRUE(manager_->Resume(job_id, true).ok());
  const int64_t answered = failed.row.answered_count;
  WaitUntil(job_id, [&](const JobView& view) { return view.row.answered_count > answered; });
  manager_.reset();
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
  const auto called = host_.Find("called");
  ASSERT_TRUE(called.ok()) << called.status();
  EXPECT_EQ((*called)->directory, std::filesystem::current_path().string() + "/fake-b") << "whatever the next one's is";
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

TEST_F(JobManagerTest, EstimateCountsWithoutStoring) {
  const auto estimate = manager_->Estimate(SmallSpec());
  ASSERT_TRUE(estimate.ok()) << estimate.status();
  EXPECT_EQ(estimate->cell_count, 4);
  EXPECT_EQ(estimate->sample_count, 32);
  EXPECT_LE(estimate->prompt_token_count, 16 * 256 + 16 * 512);
  EXPECT_GT(estimate->prompt_token_count, 16 * 200 + 16 * 450);
  EXPECT_LT(estimate->computed_prompt_token_count, estimate->prompt_token_count);
  EXPECT_EQ(estimate->weights_bytes, 1000) << "both variants share one model";
  EXPECT_GT(estimate->memory_bytes_max, estimate->weights_bytes) << "and the cache of one model";
  EXPECT_GT(estimate->duration_seconds, 0);
  EXPECT_TRUE(manager_->List(0, 10)->empty());
}

TEST_F(JobManagerTest, RefusesBadSpecsAndStoresNothing) {
  struct Case {
    const char* name;
    std::function<void(JobSpec&)> spoil;
    const char* reason;
  };
  const Case cases[] = {
      {"unknown model",
       [](JobSpec& s) {
         s.variants = {{"nobody", {}}};
       },
       "MODEL_NOT_FOUND"},
      {"model without tokenizer",
       [](JobSpec& s) {
         s.variants = {{"bare", {}}};
       },
       "MODEL_WITHOUT_TOKENIZER"},
      {"temperature on learned",
       [](JobSpec& s) {
         s.variants = {{"learned", {0.5}}};
       },
       "BAD_FOCAL_TEMPERATURE"},
      {"three temperatures for two layers",
       [](JobSpec& s) {
         s.variants = {{"a", {0.5, 0.6, 0.7}}};
       },
       "BAD_FOCAL_TEMPERATURE"},
      {"unknown task", [](JobSpec& s) { s.suite.tasks[0].kind = "recal_kv"; }, "BAD_JOB_SPEC"},
      {"longer than the model", [](JobSpec& s) { s.suite.lengths = {8192}; }, "CONTEXT_TOO_LONG"},
      {"no variant", [](JobSpec& s) { s.variants.clear(); }, "BAD_JOB_SPEC"},
      {"negative limit", [](JobSpec& s) { s.limit = -1; }, "BAD_JOB_SPEC"},
  };
  for (const Case& c : cases) {
    JobSpec spec = SmallSpec();
    c.spoil(spec);
    const auto view = manager_->Submit(spec, {});
    ASSERT_FALSE(view.ok()) << c.name;
    EXPECT_EQ(ReasonOf(view.status()).name, c.reason) << c.name << ": " << view.status();
    EXPECT_EQ(ReasonOf(manager_->Estimate(spec).status()).name, c.reason) << c.name;
  }
  EXPECT_TRUE(manager_->List(0, 10)->empty());
  EXPECT_EQ(ReasonOf(manager_->Get(77, false).status()).name, "JOB_NOT_FOUND");
}

TEST_F(JobManagerTest, ALengthThatCanNeverFitTheCacheIsRefused) {
  control_->SetPageCount(3);  // 384 tokens
  const auto view = manager_->Submit(SmallSpec(), {});
  EXPECT_EQ(ReasonOf(view.status()).name, "KV_CACHE_TOO_SMALL");
  EXPECT_TRUE(absl::IsResourceExhausted(view.status()));
  control_->SetPageCount(4);  // exactly 512
  EXPECT_TRUE(manager_->Submit(SmallSpec(), {}).ok());
}

TEST_F(JobManagerTest, ASecondManagerIsRefused) {
  JobManagerOptions options;
  options.database_path = directory_.File("results.db");
  const auto second = JobManager::Create(&host_, options);
  ASSERT_FALSE(second.ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(second.status()));
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat(getpid())));
}

TEST_F(JobManagerTest, ChatTasksNeedAFormatAndRecordItsTemplate) {
  JobSpec spec = SmallSpec();
  spec.suite.tasks.push_back({.name = "plain", .kind = "recall_kv"});
  spec.suite.tasks[0].chat = true;
  EXPECT_EQ(ReasonOf(manager_->Submit(spec, {}).status()).name, "MODEL_WITHOUT_CHAT_FORMAT");
  ASSERT_TRUE(host_.Load("chat", "fake-chat").ok());
  ASSERT_TRUE(host_.Load("twin", "more/fake-chat").ok());
  ASSERT_TRUE(host_.Load("other", "fake-other-chat").ok());
  spec.variants = {{"chat", {}}, {"other", {}}};
  const auto differ = manager_->Submit(spec, {});
  EXPECT_EQ(ReasonOf(differ.status()).name, "CHAT_FORMATS_DIFFER") << "they would share samples";
  spec.variants = {{"chat", {}}, {"twin", {}}};
  const int64_t job_id = Submit(spec);
  const JobView view = WaitForState(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.failed_count, 0);
  const auto stored = FromCanonicalJson(view.row.spec_json);
  ASSERT_TRUE(stored.ok()) << stored.status();
  EXPECT_TRUE(stored->suite.tasks[0].chat);
  EXPECT_FALSE(stored->suite.tasks[1].chat);
  EXPECT_EQ(stored->chat_templates.at("chat"), Sha256Hex("fake-chat"));
  EXPECT_EQ(stored->chat_templates.at("twin"), Sha256Hex("more/fake-chat"));
  // The wrapped prompt is counted: the same question has other ids than in the plain task.
  EXPECT_EQ(view.row.spec_json.find("\"chat\":false"), std::string::npos) << "written only when true";
}

TEST_F(JobManagerTest, ASystemMessageNeedsOneFormatWithItForATokenizer) {
  helmet::ImportedRow row;
  row.id = row.question = row.cluster = row.context = "0";
  row.gold = {"0"};
  row.reference = row.gold;
  const std::string rows = helmet::ToJson(row).dump() + "\n";
  testing_support::WriteFile(directory_.File("rows"), rows);
  helmet::TaskIndex index;
  index.kind = "default";
  index.user_template = "{context}";
  index.settings = {{"seed", 42}};
  index.lengths[256] = {"rows", Sha256Hex(rows), 1, 8, "d", "t", "d", ""};
  testing_support::WriteFile(directory_.File("plain"), helmet::DumpTaskIndex(index));
  index.system_message = "Be brief.";
  testing_support::WriteFile(directory_.File("with_system"), helmet::DumpTaskIndex(index));
  JobSpec spec = SmallSpec();
  spec.suite.lengths = {256};
  spec.suite.samples = 1;
  spec.variants = {{"chat", {}}, {"other", {}}};
  ASSERT_TRUE(host_.Load("chat", "fake-chat").ok());
  ASSERT_TRUE(host_.Load("other", "fake-other-system-chat").ok());
  const auto ask = [&](const std::string& file, bool chat) {
    spec.suite.tasks = {{.name = "t", .kind = "helmet", .parameters = {{"path", directory_.File(file)}}, .chat = chat}};
    return manager_->Submit(spec, {});
  };
  EXPECT_EQ(ReasonOf(ask("with_system", true).status()).name, "CHAT_FORMATS_DIFFER") << "they would share samples";
  for (const auto& [file, chat] : {std::pair{"plain", true}, std::pair{"with_system", false}}) {
    const auto job = ask(file, chat);
    ASSERT_TRUE(job.ok()) << file << ": " << job.status();
  }
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

}  // namespace
}  // namespace varifocal
