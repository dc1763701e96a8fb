// Fault injection into memory and file operations. Method: a scenario runs with a fault at operation N = 1, 2, 3, .. until
// it ends before the N-th operation, once with a single fault and once with all later operations failing. After each: a
// clean error or success; without faults the file opens, passes the integrity check, and contains all acknowledged data.
// In the quick size only every 211th allocation fails.
//
//   Record  open, add a job, record six samples, one of them twice
//   Resume  open the database of a killed process, recover its job, record what is missing, end it, checkpoint
//   Read    open a finished database, read everything a report needs: an error, or exactly what is stored
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "base/status_macros.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/sqlite/fault_injection.h"
#include "db/stats/compare.h"
#include "db/stats/estimates.h"
#include "db/writer.h"
#include "gtest/gtest.h"
#include "tests/faults/fault_scenario.h"
#include "tests/support/process.h"
#include "tests/support/trials.h"

namespace varifocal {
namespace {

using db::Writer;
using sqlite::FaultKind;

constexpr int64_t kSampleCount = 6;

struct Progress {
  absl::Status status;
  std::set<int64_t> acknowledged;
};

db::NewJob TheJob() { return db::FakeJob({.planned_count = kSampleCount}); }

absl::Status Record(const std::string& path, std::set<int64_t>& acknowledged) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Writer> writer, Writer::Open(path));
  const db::NewJob job = TheJob();
  ASSIGN_OR_RETURN(const int64_t execution_id, writer->AddExecution(db::FakeExecution()));
  ASSIGN_OR_RETURN(const db::AddedJob added, writer->AddJob(job));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, writer->Cells(added.job_id));
  RETURN_IF_ERROR(writer->RecordSample(db::FakeFailure(cells[0], job, execution_id, 3)).status());
  for (int64_t i = 0; i < kSampleCount; ++i) {
    RETURN_IF_ERROR(writer->RecordSample(db::FakeOutcome(cells[0], job, execution_id, i)).status());
    acknowledged.insert(i);
  }
  return absl::OkStatus();
}

absl::Status Resume(const std::string& path, std::set<int64_t>& acknowledged) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Writer> writer, Writer::Open(path));
  RETURN_IF_ERROR(writer->RecoverInterruptedJobs().status());
  ASSIGN_OR_RETURN(const std::optional<int64_t> job_id, writer->NextQueuedJob());
  if (!job_id.has_value()) return absl::UnknownError("the job of the killed process is not queued");
  const db::NewJob job = TheJob();
  ASSIGN_OR_RETURN(const int64_t execution_id, writer->AddExecution(db::FakeExecution()));
  RETURN_IF_ERROR(writer->CheckResume(*job_id, execution_id, job.variants, false));
  RETURN_IF_ERROR(writer->SetJobState(*job_id, db::JobState::kRunning));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, writer->Cells(*job_id));
  for (const db::CellRow& cell : cells) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> missing, writer->ReadPendingSamples(cell.cell_id));
    for (const int64_t i : missing) {
      RETURN_IF_ERROR(writer->RecordSample(db::FakeOutcome(cell, job, execution_id, i)).status());
      if (cell.cell_id == cells[0].cell_id) acknowledged.insert(i);
    }
  }
  RETURN_IF_ERROR(writer->SetJobState(*job_id, db::JobState::kSucceeded));
  return writer->Checkpoint();
}

// What a report reads, as text.
absl::StatusOr<std::string> ReadAll(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(path));
  ASSIGN_OR_RETURN(const db::JobRow job, reader->LatestJob());
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader->Cells(job.job_id));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader->Variants(job.job_id));
  ASSIGN_OR_RETURN(const std::vector<db::SampleDetail> samples, reader->Samples({.job_id = job.job_id}));
  RETURN_IF_ERROR(stats::CompareVariants(*reader, job.job_id, "baseline", "focal").status());
  RETURN_IF_ERROR(stats::EstimateScores(*reader, job.job_id).status());
  std::string text = absl::StrCat(job.spec_json, job.answered_count, " ", cells.size(), " ", variants.size());
  for (const db::SampleDetail& sample : samples)
    absl::StrAppend(&text, "\n", sample.sample.sample_index, " ", sample.generation.answer.value_or("(none)"));
  return text;
}

std::set<int64_t> StoredSamples(const std::string& path) {
  std::set<int64_t> there;
  auto reader = db::Reader::Open(path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  if (!reader.ok()) return there;
  auto rows = (*reader)->Samples({.job_id = 1});
  EXPECT_TRUE(rows.ok()) << rows.status();
  if (!rows.ok()) return there;
  for (const db::SampleDetail& row : *rows) {
    if (row.generation.error_code.empty()) there.insert(row.sample.sample_index);
  }
  return there;
}

void CheckAfterwards(const std::string& path, const Progress& progress) {
  if (!progress.acknowledged.empty()) {
    const std::set<int64_t> there = StoredSamples(path);
    EXPECT_TRUE(std::includes(there.begin(), there.end(), progress.acknowledged.begin(), progress.acknowledged.end()));
  }
  // A writer without faults must be able to continue.
  auto writer = Writer::Open(path);
  ASSERT_TRUE(writer.ok()) << writer.status();
  auto database = sqlite::Database::Open(path, {.read_only = true});
  ASSERT_TRUE(database.ok()) << database.status();
  absl::Status clean = (*database)->FullCheck();
  EXPECT_TRUE(clean.ok()) << clean;
}

enum class Scenario { kRecord, kResume, kRead };

class FaultLoop : public ::testing::TestWithParam<std::tuple<Scenario, FaultKind, bool>> {
 protected:
  void SetUp() override {
    InstallFaultInjectionOnce();
    const Scenario scenario = std::get<0>(GetParam());
    if (scenario == Scenario::kRecord) return;
    auto writer = *Writer::Open(path_);
    const db::NewJob job = TheJob();
    const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
    const int64_t job_id = writer->AddJob(job)->job_id;
    ASSERT_TRUE(writer->SetJobState(job_id, db::JobState::kRunning).ok());
    const int64_t recorded_count = scenario == Scenario::kResume ? kSampleCount / 2 : kSampleCount;
    const std::vector<db::CellRow> cells = *writer->Cells(job_id);
    for (const db::CellRow& cell : cells) {
      for (int64_t i = 0; i < recorded_count; ++i)
        ASSERT_TRUE(writer->RecordSample(db::FakeOutcome(cell, job, execution_id, i)).ok());
    }
    // As a killed process leaves them: the log is not in the database.
    for (const char* suffix : {"", "-wal"}) files_[suffix] = ReadFile(path_ + suffix);
    ASSERT_NE(files_["-wal"], "");
    writer.reset();
    if (scenario == Scenario::kRead) expected_ = *ReadAll(path_);
  }

  Progress Run() {
    Progress progress;
    switch (std::get<0>(GetParam())) {
      case Scenario::kRecord:
        progress.status = Record(path_, progress.acknowledged);
        break;
      case Scenario::kResume:
        progress.status = Resume(path_, progress.acknowledged);
        break;
      case Scenario::kRead: {
        const absl::StatusOr<std::string> text = ReadAll(path_);
        progress.status = text.status();
        if (text.ok()) {
          EXPECT_EQ(*text, expected_);
        }
      }
    }
    return progress;
  }

  void RestoreFiles() {
    RemoveDatabase(path_);
    for (const auto& [suffix, bytes] : files_) WriteFile(path_ + suffix, bytes);
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
  std::map<std::string, std::string> files_;  // by suffix, before the scenario
  std::string expected_;
};

TEST_P(FaultLoop, EveryOperationMayFail) {
  const auto [scenario, kind, sticky] = GetParam();
  int64_t failed_count = 0;
  // About 250 file and 11,600 memory operations; a prime step avoids resonance with loops.
  const int64_t stride = kind == FaultKind::kMemory && !IsFullSize() ? 211 : 1;
  Trials trials("operations that fail", {});
  for (int64_t at = 1;; at += stride) {
    RestoreFiles();
    sqlite::ArmFault(kind, at, sticky);
    const Progress progress = Run();
    sqlite::DisarmFaults();
    EXPECT_TRUE(IsExpected(kind, progress.status)) << "operation " << at << ": " << progress.status;
    failed_count += !progress.status.ok();
    CheckAfterwards(path_, progress);
    if (!sqlite::FaultHappened()) {
      EXPECT_TRUE(progress.status.ok()) << progress.status;
      break;
    }
    trials.Count();
    if (HasFatalFailure()) break;
  }
  EXPECT_GT(failed_count, 0) << "faults caused errors";
}

std::string ParameterName(const ::testing::TestParamInfo<std::tuple<Scenario, FaultKind, bool>>& info) {
  const char* scenarios[] = {"Record", "Resume", "Read"};
  const char* kinds[] = {"Memory", "InputOutput", "DiskFull"};
  return absl::StrCat(scenarios[static_cast<int>(std::get<0>(info.param))],
                      kinds[static_cast<int>(std::get<1>(info.param))], std::get<2>(info.param) ? "Sticky" : "Once");
}

INSTANTIATE_TEST_SUITE_P(Writing, FaultLoop,
                         ::testing::Combine(::testing::Values(Scenario::kRecord, Scenario::kResume),
                                            ::testing::Values(FaultKind::kMemory, FaultKind::kInputOutput,
                                                              FaultKind::kDiskFull),
                                            ::testing::Bool()),
                         ParameterName);
INSTANTIATE_TEST_SUITE_P(Reading, FaultLoop,
                         ::testing::Combine(::testing::Values(Scenario::kRead),
                                            ::testing::Values(FaultKind::kMemory, FaultKind::kInputOutput),
                                            ::testing::Bool()),
                         ParameterName);

}  // namespace
}  // namespace varifocal
