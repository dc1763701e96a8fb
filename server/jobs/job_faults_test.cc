// Jobs while the database cannot be written, is deleted, or their models change; abandoned calls. Method: a real
// database locked by a second connection, a file size limit in place of a full disk, renamed files; retries wait for a
// manual clock.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "db/sqlite/database.h"
#include "tests/fakes/job_manager_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

constexpr int64_t kLongPauseUs = 60'000'000;

class JobFaultsTest : public JobManagerTest {
 protected:
  void SetUp() override {
    signal(SIGXFSZ, SIG_IGN);  // as the daemon does
    options_.busy_timeout_ms = 1;
    options_.clock = &clock_;
    JobManagerTest::SetUp();
  }
  void TearDown() override {
    lock_.reset();
    control_->Release();
    manager_.reset();  // before its clock
  }

  // Starts a manager with the database as it is on the disk when the process is killed while the job runs.
  void DieWhileRunning(int64_t job_id) {
    WaitForState(job_id, db::JobState::kRunning);
    const std::string copy = path_ + ".killed";
    {
      const auto database = *sqlite::Database::Open(path_, {});
      ASSERT_TRUE(database->Execute("VACUUM INTO '" + copy + "'").ok());
    }
    manager_.reset();
    for (const char* end : {"", "-wal", "-shm"}) std::remove((path_ + end).c_str());
    ASSERT_EQ(std::rename(copy.c_str(), path_.c_str()), 0);
    Open();
  }

  // Eight samples.
  static JobSpec SmallSpec() {
    JobSpec spec = JobManagerTest::SmallSpec();
    spec.suite.lengths = {256};
    spec.variants = {{"a", {}}};
    return spec;
  }

  // Time passes meanwhile: the job's thread may begin another pause at any moment.
  JobView WaitForStateAfterPauses(int64_t job_id, db::JobState state) {
    return WaitUntil(job_id, [&](const JobView& view) {
      clock_.Advance(kLongPauseUs);
      return view.row.state == state;
    });
  }
  JobView WaitForPause(int64_t job_id) {
    return WaitUntil(job_id, [](const JobView& view) { return !view.paused_reason.empty(); });
  }
  int64_t Submit() { return JobManagerTest::Submit(SmallSpec()); }
  // A job whose answers are delayed, so that the next write is the first sample's.
  int64_t SubmitHeld() {
    control_->Hold();
    const int64_t job_id = Submit();
    control_->WaitUntilStarted();
    return job_id;
  }

  // Another process in the middle of a write.
  void Lock() {
    other_ = *sqlite::Database::Open(path_, {});
    lock_.emplace(*sqlite::Transaction::Begin(*other_, sqlite::Transaction::Kind::kWrite));
  }
  void Unlock() {
    lock_.reset();
    other_.reset();
  }

  const std::string path_ = directory_.File("results.db");
  FakeClock clock_;
  std::unique_ptr<sqlite::Database> other_;
  std::optional<sqlite::Transaction> lock_;
};

TEST_F(JobFaultsTest, ALockPausesTheJobAndItGoesOnByItself) {
  const int64_t job_id = SubmitHeld();
  Lock();
  control_->Release();
  const JobView paused = WaitForPause(job_id);
  EXPECT_EQ(paused.row.state, db::JobState::kRunning);
  EXPECT_THAT(paused.paused_reason, HasSubstr("locked"));
  Unlock();
  const JobView view = WaitForStateAfterPauses(job_id, db::JobState::kSucceeded);
  EXPECT_EQ(view.row.answered_count, 8);
  EXPECT_EQ(view.paused_reason, "");
  EXPECT_EQ(control_->started_count(), 8) << "no answer was asked for twice";
}

TEST_F(JobFaultsTest, ResumeMakesAPausedJobTryAtOnce) {
  const int64_t job_id = SubmitHeld();
  Lock();
  control_->Release();
  WaitForPause(job_id);
  Unlock();
  // The clock does not advance.
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  WaitForState(job_id, db::JobState::kSucceeded);
}

TEST_F(JobFaultsTest, APausedJobCanBeCancelled) {
  const int64_t job_id = SubmitHeld();
  Lock();
  control_->Release();
  WaitForPause(job_id);
  ASSIGN_OR_FAIL(const auto cancelled, manager_->Cancel(job_id));
  EXPECT_EQ(cancelled.row.state, db::JobState::kCancelling);
  EXPECT_THAT(cancelled.paused_reason, HasSubstr("locked"));
  Unlock();
  EXPECT_EQ(WaitForStateAfterPauses(job_id, db::JobState::kCancelled).row.answered_count, 0);
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 8);
}

TEST_F(JobFaultsTest, TheEndOfAJobIsWrittenWhenItCanBe) {
  const int64_t job_id = SubmitHeld();
  Lock();
  // The request stays in memory, and writing the end of the job is blocked by the lock too.
  ASSIGN_OR_FAIL(const auto cancelled, manager_->Cancel(job_id));
  EXPECT_EQ(cancelled.row.state, db::JobState::kCancelling);
  WaitForPause(job_id);
  Unlock();
  WaitForStateAfterPauses(job_id, db::JobState::kCancelled);
  control_->Release();
  WaitForState(Submit(), db::JobState::kSucceeded);
}

TEST_F(JobFaultsTest, AFullDiskPausesTheJobAndItGoesOnByItself) {
  const int64_t job_id = SubmitHeld();
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit full = before;
  full.rlim_cur = 1;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  control_->Release();
  const JobView paused = WaitForPause(job_id);
  const auto submitted = manager_->Submit(SmallSpec(), {});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(paused.row.state, db::JobState::kRunning);
  EXPECT_NE(paused.paused_reason, "");
  EXPECT_TRUE(absl::IsResourceExhausted(submitted.status())) << submitted.status();
  EXPECT_EQ(WaitForStateAfterPauses(job_id, db::JobState::kSucceeded).row.answered_count, 8);
  EXPECT_EQ(control_->started_count(), 8);
}

TEST_F(JobFaultsTest, AManagerThatStopsWhileAJobIsPausedLeavesItToTheNext) {
  const int64_t job_id = SubmitHeld();
  Lock();
  control_->Release();
  WaitForPause(job_id);
  manager_->Stop();
  manager_.reset();
  Unlock();
  Open();
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 8);
}

TEST_F(JobFaultsTest, ADeletedDatabaseFailsTheJobAndRefusesOthers) {
  const int64_t job_id = SubmitHeld();
  EXPECT_TRUE(manager_->CheckDatabase().ok());
  const std::string aside = directory_.File("aside.db");
  ASSERT_EQ(std::rename(path_.c_str(), aside.c_str()), 0);
  control_->Release();
  const JobView lost = WaitForState(job_id, db::JobState::kFailed);
  EXPECT_THAT(lost.row.error, HasSubstr(absl::StrCat(path_, ": the file was deleted or moved away")));
  EXPECT_TRUE(absl::IsDataLoss(manager_->Submit(SmallSpec(), {}).status()));
  EXPECT_TRUE(absl::IsDataLoss(manager_->CheckDatabase()));
  // Once the file is restored the state is written, and the job can continue.
  ASSERT_EQ(std::rename(aside.c_str(), path_.c_str()), 0);
  for (int i = 0; i < 6000 && manager_->HasActiveJob(); ++i) {
    clock_.Advance(kLongPauseUs);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(manager_->Get(job_id, false)->row.state, db::JobState::kFailed);
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  EXPECT_EQ(WaitForState(job_id, db::JobState::kSucceeded).row.answered_count, 8);
}

TEST_F(JobFaultsTest, ACopyOfTheFileOfASettledJobIsComplete) {
  const int64_t job_id = Submit();
  WaitForState(job_id, db::JobState::kSucceeded);
  const std::string wal = path_ + "-wal";
  for (int i = 0; i < 6000 && !ReadFile(wal).empty(); ++i) {
    clock_.Advance(kLongPauseUs);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  const std::string copy = directory_.File("copy.db");
  WriteFile(copy, ReadFile(path_));
  ASSIGN_OR_FAIL(auto reader, db::Reader::Open(copy));
  EXPECT_EQ(reader->Job(job_id)->answered_count, 8);
  EXPECT_EQ(reader->Job(job_id)->state, db::JobState::kSucceeded);
}

TEST_F(JobFaultsTest, AJobThreadThatWaitsForAnswersIsNotSilent) {
  SubmitHeld();
  // The clock advances in steps, since the job thread may begin to wait only after the first ones. Heard more than once:
  // the first heartbeat may be from before it waited.
  int heard_count = 0;
  for (int i = 0; i < 6000 && heard_count < 3; ++i) {
    clock_.Advance(kLongPauseUs);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (manager_->SilentMicros() == 0) ++heard_count;
  }
  EXPECT_EQ(heard_count, 3);
}

TEST_F(JobFaultsTest, AnAbandonedCallEndsAndStoresNothing) {
  JobSpec spec = SmallSpec();
  spec.suite.lengths.clear();
  for (int i = 0; i < 40; ++i) spec.suite.lengths.push_back(200 + i);
  int asked = 0;
  const auto is_abandoned = [&asked] { return ++asked > 2; };
  EXPECT_TRUE(absl::IsCancelled(manager_->Submit(spec, {.is_abandoned = is_abandoned}).status()));
  EXPECT_EQ(asked, 3);
  asked = 0;
  EXPECT_TRUE(absl::IsCancelled(manager_->Estimate(spec, is_abandoned).status()));
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(manager_->List(0, 10)->empty());
}

TEST_F(JobFaultsTest, NoJobIsAcceptedForAModelThatIsUnloadedMeanwhile) {
  const auto unload = [this] {
    EXPECT_TRUE(manager_->UnloadModel("a").ok());
    return false;
  };
  const auto refused = manager_->Submit(SmallSpec(), {.is_abandoned = unload});
  EXPECT_EQ(ReasonOf(refused.status()).name, "MODEL_NOT_FOUND") << refused.status();
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  const auto reload = [this] {
    EXPECT_TRUE(host_.Unload("a").ok());
    EXPECT_TRUE(host_.Load("a", "other-weights").ok());
    return false;
  };
  EXPECT_EQ(ReasonOf(manager_->Submit(SmallSpec(), {.is_abandoned = reload}).status()).name, "MODEL_CHANGED");
  EXPECT_TRUE(manager_->List(0, 10)->empty());
  SubmitHeld();
  EXPECT_EQ(ReasonOf(manager_->UnloadModel("a")).name, "MODEL_IN_USE");
}

TEST_F(JobFaultsTest, ARequestSentAgainIsItsJobWhateverHappenedSince) {
  const SubmitOptions options = {.request_id = "id", .body_sha256 = "of the request"};
  ASSIGN_OR_FAIL(const auto first, manager_->Submit(SmallSpec(), options));
  WaitForState(first.row.job_id, db::JobState::kSucceeded);
  ASSERT_TRUE(manager_->UnloadModel("a").ok());
  ASSIGN_OR_FAIL(const auto again, manager_->Submit(SmallSpec(), options));
  EXPECT_EQ(again.row.job_id, first.row.job_id);
  ASSERT_TRUE(host_.Load("a", "fake").ok());
  JobSpec other = SmallSpec();
  other.suite.seed = 99;
  EXPECT_EQ(ReasonOf(manager_->Submit(other, {.request_id = "id", .body_sha256 = "another"}).status()).name,
            "REQUEST_ID_REUSED");
}

// Two daemons that died before an answer: the third one shows why the job waits, runs others first, and starts it by itself.
TEST_F(JobFaultsTest, AJobWaitsAfterEndsOfTheDaemonAndOthersGoFirst) {
  control_->Hold();
  const int64_t job_id = Submit();
  DieWhileRunning(job_id);
  DieWhileRunning(job_id);
  const JobView waiting = WaitForPause(job_id);
  EXPECT_EQ(waiting.row.state, db::JobState::kQueued);
  EXPECT_THAT(waiting.paused_reason, Message("2", "10", "jobs/1"));
  const int64_t other = Submit();
  control_->Release();
  WaitForState(other, db::JobState::kSucceeded);
  EXPECT_EQ(manager_->Get(job_id, false)->row.state, db::JobState::kQueued);
  // Time passes meanwhile: the job's thread may begin to wait for its next look at the queue only now.
  EXPECT_EQ(WaitForStateAfterPauses(job_id, db::JobState::kSucceeded).paused_reason, "");
}

TEST_F(JobFaultsTest, AResumeEndsTheWait) {
  control_->Hold();
  const int64_t job_id = Submit();
  DieWhileRunning(job_id);
  DieWhileRunning(job_id);
  WaitForPause(job_id);
  control_->Release();
  ASSERT_TRUE(manager_->Resume(job_id, false).ok());
  WaitForState(job_id, db::JobState::kSucceeded);
}

}  // namespace
}  // namespace varifocal
