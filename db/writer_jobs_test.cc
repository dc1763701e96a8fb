// Jobs of the writer: they change state only by permitted transitions; their times; recovery after a killed process; models loaded
// by calls. Method: as in writer_test.cc.
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/fakes/writer_fixture.h"
#include "tests/support/messages.h"

namespace varifocal::db {
namespace {

using ::testing::HasSubstr;

TEST_F(WriterTest, JobsMoveAlongTheirStates) {
  const int64_t job_id = Add(FakeJob());
  using S = JobState;
  // Every pair of states: reach `from` on a fresh job, then try `to`.
  const std::vector<std::vector<S>> roads = {
      {},                             // queued
      {S::kRunning},                  // running
      {S::kRunning, S::kCancelling},  // cancelling
      {S::kRunning, S::kSucceeded},
      {S::kRunning, S::kFailed},
      {S::kCancelled},
  };
  const char* allowed[] = {"queued>running",   "queued>cancelled",   "running>queued",    "running>succeeded",
                           "running>failed",   "running>cancelling", "running>cancelled", "cancelling>cancelled",
                           "succeeded>queued", "failed>queued",      "cancelled>queued"};
  for (size_t from = 0; from < roads.size(); ++from) {
    for (S to : {S::kQueued, S::kRunning, S::kCancelling, S::kSucceeded, S::kFailed, S::kCancelled}) {
      const int64_t id = Add(FakeJob());
      for (S step : roads[from]) ASSERT_TRUE(writer_->SetJobState(id, step, "broken").ok());
      const std::string edge = absl::StrCat(JobStateName(static_cast<S>(from)), ">", JobStateName(to));
      absl::Status status = writer_->SetJobState(id, to, "broken");
      const bool expected = std::find(std::begin(allowed), std::end(allowed), edge) != std::end(allowed);
      EXPECT_EQ(status.ok(), expected) << edge << " " << status;
      if (!expected) {
        EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << edge;
      }
    }
  }
  EXPECT_EQ(writer_->SetJobState(9999, S::kRunning).code(), absl::StatusCode::kNotFound);

  clock_.Advance(5);
  ASSERT_TRUE(writer_->SetJobState(job_id, S::kRunning).ok());
  ASSERT_TRUE(writer_->SetJobState(job_id, S::kFailed, "no more memory").ok());
  JobRow row = *Read()->Job(job_id);
  EXPECT_EQ(row.state, S::kFailed);
  EXPECT_EQ(row.error, "no more memory");
  EXPECT_EQ(*row.start_us, row.create_us + 5);
}

// The clock is set backward and forward while a job runs, and before it is resumed.
TEST_F(WriterTest, TimesOfAJobNeverGoBack) {
  constexpr int64_t kDay = 86'400'000'000;
  for (const int64_t jump : {-kDay, 3 * kDay}) {
    const int64_t job_id = Add(FakeJob());
    clock_.JumpWall(-kDay);
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
    JobRow row = *Read()->Job(job_id);
    EXPECT_EQ(*row.start_us, row.create_us) << "not before it was submitted";
    clock_.JumpWall(jump);
    clock_.Advance(7);
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kFailed, "broken").ok());
    row = *Read()->Job(job_id);
    EXPECT_EQ(*row.end_us - *row.start_us, 7) << "the length of the run, by the clock that is never set";
    clock_.JumpWall(-10 * kDay);
    ASSERT_TRUE(writer_->ResumeJob(job_id, false).ok());
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kCancelled).ok());
    row = *Read()->Job(job_id);
    EXPECT_EQ(*row.end_us, *row.start_us) << "settled without running, after the clock went back";
    ASSERT_TRUE(writer_->ResumeJob(job_id, false).ok());
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kCancelling).ok());
    clock_.JumpWall(-kDay);
    ASSERT_TRUE(writer_->RecoverInterruptedJobs().ok());
    row = *Read()->Job(job_id);
    EXPECT_EQ(row.state, JobState::kCancelled);
    EXPECT_GE(*row.end_us, *row.start_us);
  }
}

TEST_F(WriterTest, AModelOfACallIsRememberedUntilItIsForgotten) {
  ASSERT_TRUE(writer_->RememberModel({"b", "/models/b"}).ok());
  ASSERT_TRUE(writer_->RememberModel({"a", "/models/a"}).ok());
  ASSERT_TRUE(writer_->RememberModel({"b", "/models/other"}).ok());
  ASSERT_TRUE(writer_->ForgetModel("never there").ok());
  const auto names = [this] {
    std::string all;
    const std::vector<CalledModel> models = *writer_->CalledModels();
    for (const CalledModel& model : models) absl::StrAppend(&all, model.name, "=", model.directory, " ");
    return all;
  };
  EXPECT_EQ(names(), "a=/models/a b=/models/other ");
  writer_.reset();
  writer_ = *Writer::Open(path_, clock_);
  EXPECT_EQ(names(), "a=/models/a b=/models/other ");
  ASSERT_TRUE(writer_->ForgetModel("a").ok());
  EXPECT_EQ(names(), "b=/models/other ");
}

TEST_F(WriterTest, TheLastResumeSaysWhetherAnswersMayBeMixed) {
  const int64_t job_id = Add(FakeJob());
  EXPECT_FALSE(*writer_->IsMixingAllowed(job_id));
  EXPECT_FALSE(writer_->ResumeJob(job_id, true).ok()) << "it is queued already";
  EXPECT_FALSE(*writer_->IsMixingAllowed(job_id)) << "a refused resume changes nothing";
  for (const bool allowed : {true, false, true}) {
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kCancelled).ok());
    ASSERT_TRUE(writer_->ResumeJob(job_id, allowed).ok());
    writer_.reset();
    writer_ = *Writer::Open(path_, clock_);
    EXPECT_EQ(*writer_->IsMixingAllowed(job_id), allowed);
  }
}

TEST_F(WriterTest, RecoveryRequeuesWhatAKilledProcessLeft) {
  const int64_t first = Add(FakeJob());
  const int64_t second = Add(FakeJob());
  const int64_t third = Add(FakeJob());
  ASSERT_TRUE(writer_->SetJobState(first, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->SetJobState(second, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->SetJobState(second, JobState::kCancelling).ok());
  EXPECT_EQ(**writer_->NextQueuedJob(), third);
  ASSERT_TRUE(writer_->RecoverInterruptedJobs().ok());
  EXPECT_EQ(Read()->Job(first)->state, JobState::kQueued);
  EXPECT_EQ(Read()->Job(second)->state, JobState::kCancelled);
  EXPECT_EQ(**writer_->NextQueuedJob(), first);
}

// What the database keeps of a start whose process died. Method: the clock is advanced, and the writer is opened again, as by
// the next process.
class StartsTest : public WriterTest {
 protected:
  // A process runs for `idle_us`, takes the job, lives with it for `lived_us`, and is killed. False when the job may not start.
  bool StartAndDie(int64_t idle_us, int64_t lived_us) {
    Restart();
    clock_.Advance(idle_us);
    if (*writer_->NextQueuedJob() != job_id_) return false;
    EXPECT_TRUE(writer_->SetJobState(job_id_, JobState::kRunning).ok());
    for (int64_t second = 0; second < lived_us / 1'000'000; ++second) {
      clock_.Advance(1'000'000);
      EXPECT_TRUE(writer_->NoteRunning(job_id_).ok());
    }
    clock_.Advance(lived_us % 1'000'000);
    return true;
  }
  void Restart() {
    writer_.reset();
    writer_ = *Writer::Open(path_, clock_);
    waiting_ = *writer_->RecoverInterruptedJobs();
  }
  JobState State() { return Read()->Job(job_id_)->state; }

  const NewJob job_ = FakeJob({.planned_count = 3});
  int64_t job_id_ = 0;
  std::vector<Writer::WaitingJob> waiting_;
  static constexpr int64_t kSecond = 1'000'000;
};

TEST_F(StartsTest, KillsOneAfterAnotherOnlyMakeItWait) {
  job_id_ = Add(job_);
  EXPECT_TRUE(StartAndDie(0, 0)) << "at once";
  EXPECT_TRUE(StartAndDie(0, 0)) << "once more: one death is no sign of anything";
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(StartAndDie(9 * kSecond, 0)) << "killed every nine seconds, and never with this job";
    ASSERT_EQ(waiting_.size(), 1u);
    EXPECT_EQ(waiting_[0].unended_count, 2);
    EXPECT_EQ(waiting_[0].due_us, 10 * kSecond);
  }
  Restart();
  EXPECT_EQ(State(), JobState::kQueued);
  clock_.Advance(10 * kSecond);
  EXPECT_EQ(*writer_->NextQueuedJob(), job_id_);
}

// A process that is killed every so often, while the first answer takes longer: the process was not well for longer without
// the job than with it, or it is by chance once or twice.
TEST_F(StartsTest, EvictionsOfALongJobAreNotChargedToIt) {
  job_id_ = Add(job_);
  StartAndDie(0, 45 * kSecond);
  StartAndDie(0, 45 * kSecond);
  for (int i = 0; i < 3; ++i) StartAndDie((10 << i) * kSecond, 45 * kSecond);
  for (int i = 0; i < 3; ++i) StartAndDie(80 * kSecond, 45 * kSecond);
  Restart();
  EXPECT_EQ(State(), JobState::kQueued);
  EXPECT_EQ(waiting_[0].lived_us, 32 * kSecond) << "written down after 1, 2, 4, .. seconds";
}

TEST_F(StartsTest, AJobThatEndsItsProcessFailsAfterFourChargedStarts) {
  job_id_ = Add(job_);
  const int64_t other = Add(FakeJob());
  EXPECT_TRUE(StartAndDie(0, kSecond / 2));
  EXPECT_TRUE(StartAndDie(0, kSecond / 2));
  for (const int64_t wait : {10, 20, 40}) {
    EXPECT_FALSE(StartAndDie(wait * kSecond - 1, 0)) << "before its time";
    EXPECT_EQ(*writer_->NextQueuedJob(), other) << "others go first";
    EXPECT_TRUE(StartAndDie(wait * kSecond, kSecond / 2));
  }
  Restart();
  EXPECT_EQ(State(), JobState::kQueued);
  EXPECT_TRUE(StartAndDie(80 * kSecond, kSecond / 2));
  Restart();
  const JobRow row = *Read()->Job(job_id_);
  EXPECT_EQ(row.state, JobState::kFailed);
  EXPECT_THAT(row.error, Message("4"));
  EXPECT_THAT(row.error, HasSubstr(absl::StrCat("varifocal resume jobs/", job_id_)));
  ASSERT_TRUE(writer_->ResumeJob(job_id_, false).ok());
  EXPECT_TRUE(StartAndDie(0, 0)) << "resumed: from the beginning";
}

TEST_F(StartsTest, AnAnswerAnEndAndAResumeForgetThem) {
  job_id_ = Add(job_);
  const auto twice = [&] {
    ASSERT_TRUE(StartAndDie(0, 0));
    ASSERT_TRUE(StartAndDie(0, 0));
    ASSERT_FALSE(StartAndDie(0, 0));
  };
  twice();
  ASSERT_TRUE(writer_->ForgetStarts(job_id_).ok());
  EXPECT_EQ(*writer_->NextQueuedJob(), job_id_);
  twice();
  ASSERT_TRUE(StartAndDie(10 * kSecond, 0));
  Restart();
  clock_.Advance(20 * kSecond);
  ASSERT_TRUE(writer_->SetJobState(job_id_, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome((*writer_->Cells(job_id_))[0], job_, execution_id_, 0)).ok());
  EXPECT_TRUE(writer_->NoteRunning(job_id_).ok());
  Restart();
  EXPECT_TRUE(waiting_.empty());
  twice();
  Restart();
  clock_.Advance(10 * kSecond);
  ASSERT_TRUE(writer_->SetJobState(job_id_, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->SetJobState(job_id_, JobState::kQueued).ok());  // SIGTERM
  Restart();
  EXPECT_TRUE(waiting_.empty());
}

}  // namespace
}  // namespace varifocal::db
