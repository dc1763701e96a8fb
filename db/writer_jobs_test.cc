// Jobs of the writer: they change state only by permitted transitions; their times; recovery after a killed process; models loaded
// by calls. Method: as in writer_test.cc.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/fakes/writer_fixture.h"

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

TEST_F(WriterTest, AJobThatOnlyStopsItsProcessFailsAfterThreeStarts) {
  const NewJob job = FakeJob({.planned_count = 3});
  const int64_t job_id = Add(job);
  const auto start_and_die = [&] {
    ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
    ASSERT_TRUE(writer_->RecoverInterruptedJobs().ok());
  };
  start_and_die();
  start_and_die();
  EXPECT_EQ(Read()->Job(job_id)->state, JobState::kQueued);
  // A sample in between, or a regular end, resets the count.
  ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome((*writer_->Cells(job_id))[0], job, execution_id_, 0)).ok());
  ASSERT_TRUE(writer_->RecoverInterruptedJobs().ok());
  EXPECT_EQ(Read()->Job(job_id)->state, JobState::kQueued);
  start_and_die();
  start_and_die();
  ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
  ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kQueued).ok());
  start_and_die();
  start_and_die();
  EXPECT_EQ(Read()->Job(job_id)->state, JobState::kQueued);
  start_and_die();
  const JobRow row = *Read()->Job(job_id);
  EXPECT_EQ(row.state, JobState::kFailed);
  EXPECT_THAT(row.error, HasSubstr("stopped the daemon 3 times"));
  EXPECT_THAT(row.error, HasSubstr(absl::StrCat("varifocal resume jobs/", job_id)));
  EXPECT_EQ(*writer_->NextQueuedJob(), std::nullopt);
  ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kQueued).ok());  // resumed: three starts again
  start_and_die();
  start_and_die();
  EXPECT_EQ(Read()->Job(job_id)->state, JobState::kQueued);
}

}  // namespace
}  // namespace varifocal::db
