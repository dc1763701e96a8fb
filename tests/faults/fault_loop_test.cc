// Fault injection into memory and file operations. Method: a scenario (open, add a job, record six samples, one of them
// twice) runs with a fault at operation N = 1, 2, 3, .. until it ends before the N-th operation, once with a single fault
// and once with all later operations failing. After each: a clean error or success; without faults the file opens, passes
// the integrity check, and contains all acknowledged data.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/sqlite/database.h"
#include "db/sqlite/fault_injection.h"
#include "db/writer.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using db::Writer;
using sqlite::FaultKind;

struct Progress {
  absl::Status status;
  std::set<int64_t> acknowledged;
};

Progress RunScenario(const std::string& path) {
  Progress progress;
  auto step = [&](const absl::Status& status) {
    if (progress.status.ok()) progress.status = status;
    return status.ok();
  };
  absl::StatusOr<std::unique_ptr<Writer>> writer = Writer::Open(path);
  if (!step(writer.status())) return progress;
  const db::NewJob job = db::FakeJob({.planned_count = 6});
  absl::StatusOr<int64_t> execution_id = (*writer)->AddExecution(db::FakeExecution());
  if (!step(execution_id.status())) return progress;
  absl::StatusOr<db::AddedJob> added = (*writer)->AddJob(job);
  if (!step(added.status())) return progress;
  absl::StatusOr<std::vector<db::CellRow>> cells = (*writer)->Cells(added->job_id);
  if (!step(cells.status())) return progress;
  const db::CellRow& cell = cells->front();
  if (!step((*writer)->RecordSample(db::FakeFailure(cell, job, *execution_id, 3)).status())) return progress;
  for (int64_t i = 0; i < 6; ++i) {
    if (!step((*writer)->RecordSample(db::FakeOutcome(cell, job, *execution_id, i)).status())) return progress;
    progress.acknowledged.insert(i);
  }
  return progress;
}

void CheckAfterwards(const std::string& path, const Progress& progress) {
  if (!progress.acknowledged.empty()) {
    auto reader = db::Reader::Open(path);
    ASSERT_TRUE(reader.ok()) << reader.status();
    auto rows = (*reader)->Samples({.job_id = 1});
    ASSERT_TRUE(rows.ok()) << rows.status();
    std::set<int64_t> there;
    for (const db::SampleDetail& row : *rows) {
      if (row.generation.error_code.empty()) there.insert(row.sample.sample_index);
    }
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

// The codes a caller may see; anything else is not a clean error.
bool IsExpected(FaultKind kind, const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
      return true;
    case absl::StatusCode::kFailedPrecondition:  // SQLite 3.40's json_valid returns 0 when out of memory
      return kind == FaultKind::kMemory && absl::StrContains(status.message(), "json_valid");
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kPermissionDenied:  // SQLITE_CANTOPEN
    case absl::StatusCode::kUnavailable:       // a lock that could not be acquired
      return kind == FaultKind::kInputOutput;
    default:
      return false;
  }
}

class FaultLoop : public ::testing::TestWithParam<std::tuple<FaultKind, bool>> {
 protected:
  static void SetUpTestSuite() {
    static bool installed = false;
    if (!installed) sqlite::InstallFaultInjection();
    installed = true;
  }
};

TEST_P(FaultLoop, EveryOperationMayFail) {
  const auto [kind, sticky] = GetParam();
  testing_support::TemporaryDirectory directory;
  const std::string path = directory.File("results.db");
  int64_t failed_count = 0;
  const char* wanted = std::getenv("VARIFOCAL_FAULT_STRIDE");
  // 250 file and 11,600 memory operations; a prime step avoids resonance with loops.
  const int64_t stride = wanted != nullptr ? std::atoi(wanted) : kind == FaultKind::kMemory ? 211 : 1;
  ASSERT_GT(stride, 0);
  int64_t scenario_count = 0;
  for (int64_t at = 1;; at += stride) {
    ++scenario_count;
    for (const char* suffix : {"", "-journal", "-wal", "-shm", ".lock"}) unlink((path + suffix).c_str());
    sqlite::ArmFault(kind, at, sticky);
    const Progress progress = RunScenario(path);
    sqlite::DisarmFaults();
    EXPECT_TRUE(IsExpected(kind, progress.status)) << "operation " << at << ": " << progress.status;
    failed_count += !progress.status.ok();
    CheckAfterwards(path, progress);
    if (HasFatalFailure() || !sqlite::FaultHappened()) {
      std::printf("%ld operations, %ld scenarios, %ld ended with an error\n", static_cast<long>(at - 1),
                  static_cast<long>(scenario_count), static_cast<long>(failed_count));
      break;
    }
  }
  EXPECT_GT(failed_count, 0) << "faults caused errors";
}

std::string ParameterName(const ::testing::TestParamInfo<std::tuple<FaultKind, bool>>& info) {
  const char* kinds[] = {"Memory", "InputOutput", "DiskFull"};
  return std::string(kinds[static_cast<int>(std::get<0>(info.param))]) + (std::get<1>(info.param) ? "Sticky" : "Once");
}

INSTANTIATE_TEST_SUITE_P(All, FaultLoop,
                         ::testing::Combine(::testing::Values(FaultKind::kMemory, FaultKind::kInputOutput,
                                                              FaultKind::kDiskFull),
                                            ::testing::Bool()),
                         ParameterName);

}  // namespace
}  // namespace varifocal
