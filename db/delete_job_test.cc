// Deleting one of two equal jobs leaves the other as it was, and nothing of the first; its number is not used again.
#include "db/delete_job.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "base/reason.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class DeleteJobTest : public ::testing::Test {
 protected:
  // A job of 8 answers and a failure in every cell.
  int64_t AddJob(JobState state) {
    auto writer = *Writer::Open(path_);
    const int64_t execution_id = *writer->AddExecution(FakeExecution());
    const NewJob job = FakeJob({.planned_count = 9});
    const int64_t job_id = writer->AddJob(job)->job_id;
    EXPECT_TRUE(state == JobState::kQueued || writer->SetJobState(job_id, JobState::kRunning).ok());
    const std::vector<CellRow> cells = *writer->Cells(job_id);
    for (const CellRow& cell : cells) {
      for (int64_t i = 0; i < 9; ++i) {
        EXPECT_TRUE(writer->RecordSample((i < 8 ? FakeOutcome : FakeFailure)(cell, job, execution_id, i)).ok());
      }
    }
    EXPECT_TRUE(state == JobState::kQueued || state == JobState::kRunning ||
                writer->SetJobState(job_id, state, state == JobState::kFailed ? "gone" : "").ok());
    return job_id;
  }

  std::vector<std::string> Tables() const {
    auto database = *sqlite::Database::Open(path_, {.read_only = true});
    auto statement =
        *database->Prepare("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'");
    std::vector<std::string> names;
    while (*statement.Step()) names.push_back(statement.Text(0));
    return names;
  }

  std::string Rows(const std::string& table) const {
    auto database = *sqlite::Database::Open(path_, {.read_only = true});
    auto statement = *database->Prepare(absl::StrCat("SELECT ", "* FROM ", table));
    std::string all;
    while (*statement.Step()) {
      for (int i = 0; i < statement.ColumnCount(); ++i) absl::StrAppend(&all, statement.Text(i), "|");
      all += "\n";
    }
    return all;
  }

  testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("r.db");
};

TEST_F(DeleteJobTest, TheOtherJobStaysAsItWas) {
  const int64_t kept = AddJob(JobState::kSucceeded);
  std::map<std::string, std::string> before;
  for (const std::string& table : TablesOfJobs()) before[table] = Rows(table);
  const int64_t job_id = AddJob(JobState::kFailed);
  EXPECT_NE(Rows("scores"), before["scores"]);
  const auto deleted = DeleteJob(path_, job_id);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->suite, "fake");
  EXPECT_EQ(deleted->generation_count, 18);
  for (const std::string& table : TablesOfJobs()) EXPECT_EQ(Rows(table), before[table]) << table;
  EXPECT_EQ((*Reader::Open(path_))->Jobs()->size(), 1);
  EXPECT_EQ((*sqlite::Database::Open(path_, {}))->FullCheck(), absl::OkStatus());
  EXPECT_EQ(DeleteJob(path_, job_id).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(DeleteJob(path_, kept).ok());
  for (const std::string& table : TablesOfJobs()) EXPECT_EQ(Rows(table), "") << table;
}

TEST_F(DeleteJobTest, ANumberIsNotUsedAgain) {
  EXPECT_EQ(AddJob(JobState::kSucceeded), 1);
  EXPECT_EQ(AddJob(JobState::kSucceeded), 2);
  ASSERT_TRUE(DeleteJob(path_, 2).ok());
  EXPECT_EQ(AddJob(JobState::kSucceeded), 3);
  ASSERT_TRUE(DeleteJob(path_, 3).ok());
  ASSERT_TRUE(DeleteJob(path_, 1).ok());
  EXPECT_EQ(AddJob(JobState::kSucceeded), 4);
}

TEST_F(DeleteJobTest, WhatMayRunIsKept) {
  const int64_t queued = AddJob(JobState::kQueued);
  const int64_t running = AddJob(JobState::kRunning);
  for (const int64_t job_id : {queued, running}) {
    ASSIGN_OR_FAIL(const auto writer, Writer::Open(path_));
    const absl::Status status = writer->DeleteJob(job_id).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(HasReason(status, ErrorReason::kJobNotEnded)) << status;
    EXPECT_THAT(status.message(), Message());
  }
  EXPECT_EQ((*Reader::Open(path_))->Jobs()->size(), 2);
  for (const int64_t job_id : {queued, running})
    EXPECT_TRUE(DeleteJob(path_, job_id).ok()) << "no process has the file";
}

TEST_F(DeleteJobTest, AProcessThatWritesKeepsIt) {
  const int64_t job_id = AddJob(JobState::kSucceeded);
  {
    const auto daemon = *Writer::Open(path_);
    EXPECT_EQ(DeleteJob(path_, job_id).status().code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(DeleteJob(path_, job_id).ok());
  EXPECT_EQ(DeleteJob(directory_.File("none.db"), 1).status().code(), absl::StatusCode::kNotFound);
}

// A table added later that belongs to jobs must be listed.
TEST_F(DeleteJobTest, EveryTableThatRefersToAJobsRowsIsListed) {
  AddJob(JobState::kSucceeded);
  const std::vector<std::string> listed = TablesOfJobs();
  const std::set<std::string> of_jobs(listed.begin(), listed.end());
  auto database = *sqlite::Database::Open(path_, {.read_only = true});
  int reference_count = 0;
  for (const std::string& table : Tables()) {
    auto statement = *database->Prepare(absl::StrCat("SELECT \"table\" FROM pragma_foreign_key_list('", table, "')"));
    while (*statement.Step()) {
      if (!of_jobs.contains(statement.Text(0))) continue;
      EXPECT_THAT(listed, Contains(table)) << table << " refers to " << statement.Text(0);
      ++reference_count;
    }
  }
  EXPECT_GE(reference_count, 9);
}

}  // namespace
}  // namespace varifocal::db
