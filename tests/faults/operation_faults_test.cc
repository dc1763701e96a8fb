// Fault injection into single operations on a database: of Reader, of Writer, and of the functions that open files by themselves.
// Method: one operation with its N-th allocation (or file operation) failing, N = 1, 2, 3, .. until it ends before the N-th.
// After each: a clean error, or the same count as without a fault; and the next call without a fault succeeds.
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "db/activity.h"
#include "db/copy_database.h"
#include "db/delete_job.h"
#include "db/diff.h"
#include "db/fakes/fake_results.h"
#include "db/merge.h"
#include "db/pairing.h"
#include "db/query.h"
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

using db::Reader;
using db::Writer;
using sqlite::FaultKind;

constexpr int64_t kAskedCount = 4;

using Count = absl::StatusOr<int64_t>;

// 0, where the operation succeeds.
Count Done(const absl::Status& status) {
  RETURN_IF_ERROR(status);
  return 0;
}
template <typename T, typename Get>
Count Of(const absl::StatusOr<T>& got, const Get& get) {
  if (!got.ok()) return got.status();
  return std::invoke(get, *got);
}
constexpr auto has_value = [](const auto& found) { return found.has_value(); };
template <typename Rows>
Count SizeOf(const absl::StatusOr<Rows>& rows) {
  if (!rows.ok()) return rows.status();
  return std::ssize(*rows);
}

// Two jobs of the same questions; the second one has other variants. The last sample of each cell failed.
void WriteJobs(const std::string& path, const std::string& shard = "") {
  auto writer = *Writer::Open(path);
  const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
  const std::vector<std::vector<std::string>> variants_of_jobs = {{"baseline", "focal"}, {"baseline", "later"}};
  for (const std::vector<std::string>& variants : variants_of_jobs) {
    db::NewJob job = db::FakeJob({.variants = variants, .planned_count = kAskedCount});
    if (!shard.empty()) job.spec_json = shard;
    const int64_t job_id = writer->AddJob(job)->job_id;
    ASSERT_TRUE(writer->SetJobState(job_id, db::JobState::kRunning).ok());
    const std::vector<db::CellRow> cells = *writer->Cells(job_id);
    for (const db::CellRow& cell : cells) {
      for (int64_t i = 0; i < kAskedCount; ++i) {
        const bool fails = i == kAskedCount - 1;
        if (!shard.empty() && (i % 2 == 0) == absl::StrContains(shard, "\"index\":2")) continue;
        db::Outcome outcome = (fails ? db::FakeFailure : db::FakeOutcome)(cell, job, execution_id, i);
        if (!fails) {
          outcome.generation.pairs_visible_share = 0.5;
          outcome.attention = {{.layer = 0, .head = 1, .evidence_mass = 0.25}};
        }
        const auto recorded = writer->RecordSample(outcome);
        ASSERT_TRUE(recorded.ok()) << recorded.status();
      }
    }
    ASSERT_TRUE(writer->SetJobState(job_id, db::JobState::kSucceeded).ok());
    if (!shard.empty()) return;
  }
}

class OperationFaults : public ::testing::Test {
 protected:
  void SetUp() override {
    InstallFaultInjectionOnce();
    WriteJobs(path_);
  }

  void EveryOperationMayFail(
      const std::string& name, FaultKind kind, int64_t stride, const std::function<Count()>& operation,
      const std::function<void()>& restore = [] {}) {
    SCOPED_TRACE(name);
    restore();
    const Count expected = operation();
    ASSERT_TRUE(expected.ok()) << expected.status();
    for (int64_t at = 1;; at += IsFullSize() ? 1 : stride) {
      restore();
      sqlite::ArmFault(kind, at, /*sticky=*/false);
      const Count count = operation();
      sqlite::DisarmFaults();
      ASSERT_TRUE(IsExpected(kind, count.status())) << "operation " << at << ": " << count.status();
      ASSERT_EQ(count.value_or(*expected), *expected) << "operation " << at;
      if (!sqlite::FaultHappened()) {
        ASSERT_TRUE(count.ok()) << count.status();
        break;
      }
      trials_.Count();
    }
    restore();
    const Count again = operation();
    ASSERT_TRUE(again.ok()) << again.status();
  }

  TemporaryDirectory directory_;
  const std::string path_ = directory_.File("results.db");
  Trials trials_{"operations that fail", {}};
};

TEST_F(OperationFaults, OfAReader) {
  const std::unique_ptr<Reader> reader = *Reader::Open(path_);
  int64_t row_count = 0;
  const auto count_rows = [&](const auto&) {
    ++row_count;
    return absl::OkStatus();
  };
  const auto counted = [&](const absl::Status& status) -> Count {
    const int64_t count = std::exchange(row_count, 0);
    if (!status.ok()) return status;
    return count;
  };
  const std::vector<std::pair<std::string, std::function<Count()>>> operations = {
      {"Jobs", [&] { return SizeOf(reader->Jobs()); }},
      {"Job", [&] { return Of(reader->Job(1), &db::JobRow::answered_count); }},
      {"no such job",
       [&]() -> Count {
         const auto job = reader->Job(9);
         if (absl::IsNotFound(job.status())) return 0;
         return job.status();
       }},
      {"Failures", [&] { return SizeOf(reader->Failures(1)); }},
      {"CountJobs", [&] { return SizeOf(reader->CountJobs()); }},
      {"CountQueued", [&] { return reader->CountQueued(5); }},
      {"UnfinishedJobOf", [&] { return Of(reader->UnfinishedJobOf("baseline"), has_value); }},
      {"LatestJob", [&] { return Of(reader->LatestJob({"focal"}), &db::JobRow::job_id); }},
      {"Variants", [&] { return SizeOf(reader->Variants(1)); }},
      {"Metrics", [&] { return SizeOf(reader->Metrics(1)); }},
      {"Cells", [&] { return SizeOf(reader->Cells(1)); }},
      {"Executions", [&] { return SizeOf(reader->Executions(1)); }},
      {"ScoreImports", [&] { return SizeOf(reader->ScoreImports(1)); }},
      {"CountAnswers", [&] { return SizeOf(reader->CountAnswers(1)); }},
      {"GroupShares", [&] { return SizeOf(reader->GroupShares(1)); }},
      {"AttentionMeans", [&] { return SizeOf(reader->AttentionMeans(1)); }},
      {"AttentionHeads", [&] { return SizeOf(reader->AttentionHeads(1)); }},
      {"EachSampleRow", [&] { return counted(reader->EachSampleRow(1, "focal", count_rows)); }},
      {"EachPair", [&] { return counted(reader->EachPair(1, "baseline", "focal", count_rows)); }},
      {"EachAnswer", [&] { return counted(reader->EachAnswer(1, "focal", count_rows)); }},
      {"Samples", [&] { return SizeOf(reader->Samples({.job_id = 1})); }},
      {"TokenizersDiffer", [&] { return Of(reader->TokenizersDiffer(1, "baseline", "focal"), std::identity()); }},
      {"FindJobVariants",
       [&] {
         return SizeOf(db::FindJobVariants(*reader, std::nullopt, {{0, "focal"}, {0, "later"}}));
       }},
      {"PairAcrossJobs",
       [&] {
         return Of(db::PairAcrossJobs(*reader, {1, "focal"}, {2, "later"}),
                   [](const auto& all) { return std::ssize(all.pairs); });
       }},
      {"EstimateScores", [&] { return SizeOf(stats::EstimateScores(*reader, 1)); }},
      {"CompareVariants",
       [&] {
         return Of(stats::CompareVariants(*reader, 1, "baseline", "focal"),
                   [](const auto& all) { return std::ssize(all.comparisons); });
       }},
  };
  for (const auto& [name, operation] : operations) EveryOperationMayFail(name, FaultKind::kMemory, 3, operation);
}

// Each operation can be repeated: a second one changes nothing, or adds a row as the first did.
TEST_F(OperationFaults, OfAWriter) {
  const std::unique_ptr<Writer> writer = *Writer::Open(path_);
  const db::NewJob job = db::FakeJob({.planned_count = kAskedCount});
  const std::vector<db::CellRow> cells = *writer->Cells(1);
  const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
  const int64_t running = writer->AddJob(job)->job_id;
  ASSERT_TRUE(writer->SetJobState(running, db::JobState::kRunning).ok());
  const std::vector<db::CellRow> running_cells = *writer->Cells(running);
  int64_t sample_index = 0;
  const std::vector<std::pair<std::string, std::function<Count()>>> operations = {
      {"AddExecution", [&] { return Done(writer->AddExecution(db::FakeExecution()).status()); }},
      {"AddJob", [&] { return Done(writer->AddJob(job).status()); }},
      {"AddJob of a request",
       [&]() -> Count {
         db::NewJob requested = job;
         requested.request_id = "r";
         requested.body_sha256 = "b";
         RETURN_IF_ERROR(writer->AddJob(requested).status());
         return 1;
       }},
      {"FindRequest", [&] { return Of(writer->FindRequest("r", "b"), has_value); }},
      {"the life of a job",
       [&]() -> Count {
         ASSIGN_OR_RETURN(const db::AddedJob added, writer->AddJob(job));
         RETURN_IF_ERROR(writer->SetJobState(added.job_id, db::JobState::kRunning));
         RETURN_IF_ERROR(writer->SetJobState(added.job_id, db::JobState::kFailed, "lost"));
         RETURN_IF_ERROR(writer->ResumeJob(added.job_id, true));
         RETURN_IF_ERROR(writer->SetJobState(added.job_id, db::JobState::kCancelled));
         RETURN_IF_ERROR(writer->DeleteJob(added.job_id).status());
         return 0;
       }},
      {"IsMixingAllowed", [&] { return Of(writer->IsMixingAllowed(1), std::identity()); }},
      {"RememberModel",
       [&] {
         return Done(writer->RememberModel({"m", "/models/m"}));
       }},
      {"CalledModels", [&] { return SizeOf(writer->CalledModels()); }},
      {"ForgetModel", [&] { return Done(writer->ForgetModel("m")); }},
      {"NextQueuedJob", [&] { return Of(writer->NextQueuedJob(), has_value); }},
      {"CheckResume", [&] { return Done(writer->CheckResume(1, execution_id, job.variants, false)); }},
      {"Cells", [&] { return SizeOf(writer->Cells(1)); }},
      {"ReadPendingSamples", [&] { return SizeOf(writer->ReadPendingSamples(cells[0].cell_id)); }},
      {"RecordSample",
       [&]() -> Count {
         // A failure that an answer replaces, in turn over the samples of a cell.
         const int64_t i = sample_index++ % kAskedCount;
         db::Outcome outcome = db::FakeOutcome(running_cells[0], job, execution_id, i);
         outcome.attention = {{.layer = 0, .head = 1}};
         RETURN_IF_ERROR(writer->RecordSample(db::FakeFailure(running_cells[0], job, execution_id, i)).status());
         RETURN_IF_ERROR(writer->RecordSample(outcome).status());
         return 0;
       }},
      {"ImportScores",
       [&]() -> Count {
         db::ScoreImport import{"focal", "imported/judge", "a file", Sha256Hex("a file"), {{5, 0.5}, {6, 1.0}}};
         RETURN_IF_ERROR(writer->ImportScores(1, {import}));
         return 0;
       }},
      {"Checkpoint", [&] { return Done(writer->Checkpoint()); }},
      {"RecoverInterruptedJobs", [&] { return Done(writer->RecoverInterruptedJobs().status()); }},
  };
  for (const auto& [name, operation] : operations) {
    for (const FaultKind kind : {FaultKind::kMemory, FaultKind::kInputOutput})
      EveryOperationMayFail(name, kind, 1, operation);
  }
  const absl::Status clean = (*sqlite::Database::Open(path_, {.read_only = true}))->FullCheck();
  EXPECT_TRUE(clean.ok()) << clean;
}

// Opening a file takes a thousand allocations, so the quick size leaves some out.
TEST_F(OperationFaults, OfWhatOpensAFile) {
  const std::string other = directory_.File("other.db"), out = directory_.File("out.db");
  const std::string shards[] = {directory_.File("1.db"), directory_.File("2.db")};
  WriteJobs(other);
  WriteJobs(shards[0], R"({"shard":{"count":2,"index":1}})");
  WriteJobs(shards[1], R"({"shard":{"count":2,"index":2}})");
  const std::string bytes = ReadFile(path_);
  const auto remove_out = [&] { RemoveDatabase(out); };
  struct Operation {
    std::string name;
    int64_t stride;
    std::function<Count()> run;
    std::function<void()> restore = [] {};
  };
  const std::vector<Operation> operations = {
      {"ReadActivity", 13,
       [&] { return Of(db::ReadActivity(path_, 1), [](const auto& all) { return std::ssize(all.recent); }); }},
      {"RunQuery", 13,
       [&]() -> Count {
         int64_t row_count = 0;
         RETURN_IF_ERROR(db::RunQuery(path_, "SELECT job_id, suite FROM jobs ORDER BY suite",
                                      {.start = [](const auto&) { return absl::OkStatus(); },
                                       .add =
                                           [&](const auto&) {
                                             ++row_count;
                                             return absl::OkStatus();
                                           }}));
         return row_count;
       }},
      {"DiffDatabases", 41,
       [&]() -> Count {
         ASSIGN_OR_RETURN(const db::ContentDiff diff, db::DiffDatabases(path_, other));
         return diff.row_count_a + diff.row_count_b;
       }},
      {"CopyDatabase", 23, [&] { return Done(db::CopyDatabase(path_, out)); }, remove_out},
      {"DeleteJob", 53, [&] { return Of(db::DeleteJob(out, 1), &db::DeletedJob::generation_count); },
       [&] {
         remove_out();
         WriteFile(out, bytes);
       }},
      {"MergeShards", 211,
       [&] {
         return Of(db::MergeShards({shards[0], shards[1]}, out), &db::MergedJob::generation_count);
       },
       remove_out},
  };
  for (const Operation& operation : operations) {
    EveryOperationMayFail(operation.name, FaultKind::kMemory, operation.stride, operation.run, operation.restore);
    EveryOperationMayFail(operation.name, FaultKind::kInputOutput, 7, operation.run, operation.restore);
  }
}

}  // namespace
}  // namespace varifocal
