// Newest answers and work that is left of a job whose times are known; speeds by hand.
#include "db/activity.h"

#include "base/clock.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

constexpr int64_t kSecondUs = 1'000'000;

class ActivityTest : public ::testing::Test {
 protected:
  ActivityTest() {
    job_ = FakeJob({.variants = {"baseline"}, .lengths = {1024, 4096}, .planned_count = 40});
    writer_ = *Writer::Open(path_, clock_);
    execution_id_ = *writer_->AddExecution(FakeExecution());
    job_id_ = writer_->AddJob(job_)->job_id;
    cells_ = *writer_->Cells(job_id_);
  }

  void Record(size_t cell, int64_t index, bool fails = false) {
    const auto make = fails ? FakeFailure : FakeOutcome;
    ASSERT_TRUE(writer_->RecordSample(make(cells_[cell], job_, execution_id_, index)).ok());
  }

  JobActivity Read() { return *ReadActivity(path_, job_id_); }

  testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
  FakeClock clock_;
  NewJob job_;
  std::unique_ptr<Writer> writer_;
  int64_t execution_id_ = 0, job_id_ = 0;
  std::vector<CellRow> cells_;
};

TEST_F(ActivityTest, AJobWithoutAnswersHasAllItsWorkLeftAndNoPace) {
  const JobActivity activity = Read();
  EXPECT_TRUE(activity.recent.empty());
  EXPECT_EQ(activity.remaining_weight, 40 * (1024 + 4096));
  EXPECT_FALSE(PaceOf(activity, clock_.WallMicros()).has_value());
  Record(0, 0);
  EXPECT_FALSE(PaceOf(Read(), clock_.WallMicros() + kSecondUs).has_value());
}

TEST_F(ActivityTest, PaceIsWorkSinceTheOldestAnswer) {
  for (int64_t i = 0; i < 5; ++i) {
    Record(0, i);
    clock_.Advance(2 * kSecondUs);
  }
  const JobActivity activity = Read();
  ASSERT_EQ(activity.recent.size(), 5);
  // A prompt of 1014 tokens and 3 new ones; four answers in 10 s.
  EXPECT_EQ(activity.recent[0].computed_token_count, 1017);
  const Pace pace = *PaceOf(activity, clock_.WallMicros());
  EXPECT_DOUBLE_EQ(pace.answers_per_minute, 24);
  EXPECT_DOUBLE_EQ(pace.computed_tokens_per_second, 4 * 1017 / 10.0);
  // Left: 35 of 1024 and 40 of 4096 tokens, at 4 x 1024 in 10 s.
  EXPECT_DOUBLE_EQ(*pace.remaining_seconds, (35 + 40 * 4) / 4.0 * 10);
  // Ten seconds without an answer double it.
  EXPECT_DOUBLE_EQ(*PaceOf(activity, clock_.WallMicros() + 10 * kSecondUs)->remaining_seconds,
                   (35 + 40 * 4) / 4.0 * 20);
}

TEST_F(ActivityTest, AnswersOfAnEarlierRunDoNotCount) {
  for (int64_t i = 0; i < 4; ++i) Record(0, i);
  clock_.Advance(3600 * kSecondUs);
  for (int64_t i = 4; i < 40; ++i) {
    Record(0, i);
    clock_.Advance(kSecondUs);
  }
  const JobActivity activity = Read();
  EXPECT_EQ(activity.recent.size(), 36);
  EXPECT_DOUBLE_EQ(PaceOf(activity, clock_.WallMicros())->answers_per_minute, 35 * 60 / 36.0);
}

TEST_F(ActivityTest, NothingIsLeftWhenEverySampleIsRecorded) {
  for (size_t cell = 0; cell < 2; ++cell) {
    for (int64_t i = 0; i < 40; ++i) Record(cell, i);
    clock_.Advance(kSecondUs);
  }
  const JobActivity activity = Read();
  EXPECT_EQ(activity.remaining_weight, 0);
  EXPECT_FALSE(PaceOf(activity, clock_.WallMicros())->remaining_seconds.has_value());
}

TEST_F(ActivityTest, AnswersOfOtherJobsDoNotCountAndTheNewestIsFirst) {
  Record(0, 0);
  clock_.JumpWall(-3 * kSecondUs);
  Record(1, 1, true);
  const NewJob other = FakeJob({.variants = {"baseline"}, .lengths = {512}, .planned_count = 3});
  const int64_t other_id = writer_->AddJob(other)->job_id;
  const CellRow cell = writer_->Cells(other_id)->front();
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, other, execution_id_, 0)).ok());
  const JobActivity activity = Read();
  ASSERT_EQ(activity.recent.size(), 2);
  EXPECT_EQ(activity.recent[0].record_us, clock_.WallMicros() + 3 * kSecondUs);
  EXPECT_EQ(activity.recent[1].record_us, clock_.WallMicros());
  EXPECT_EQ(activity.remaining_weight, 39 * (1024 + 4096));
}

TEST_F(ActivityTest, AFileThatIsMissingIsNotFound) {
  EXPECT_EQ(ReadActivity(directory_.File("none.db"), 1).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace varifocal::db
