// crash_writer DATABASE [POINT N]: writes a fake job's missing samples, one by one, and prints a line after each
// acknowledged one. To be killed at any time and restarted; exit 0 when no sample is missing. With POINT it kills itself
// when it passes that point for the N-th time (db/sqlite/fault_injection.h); N = 0: never, and the passes of every point
// are printed on standard error at the end.
#include <cstdio>
#include <cstdlib>

#include "db/fakes/fake_results.h"
#include "db/sqlite/fault_injection.h"
#include "db/writer.h"

using namespace varifocal::db;

namespace {

int Fail(const char* what, const absl::Status& status) {
  std::fprintf(stderr, "%s: %s\n", what, std::string(status.message()).c_str());
  return 1;
}

int Run(const char* path) {
  absl::StatusOr<std::unique_ptr<Writer>> writer = Writer::Open(path);
  if (!writer.ok()) return Fail("open", writer.status());
  NewJob job = FakeJob({.tasks = {"icl", "recall"}, .lengths = {1024, 2048}, .planned_count = 40});
  job.request_id = "the one job";
  job.body_sha256 = "its body";
  absl::Status recovered = (*writer)->RecoverInterruptedJobs().status();
  if (!recovered.ok()) return Fail("recover", recovered);
  absl::StatusOr<int64_t> execution_id = (*writer)->AddExecution(FakeExecution());
  if (!execution_id.ok()) return Fail("execution", execution_id.status());
  absl::StatusOr<AddedJob> added = (*writer)->AddJob(job);
  if (!added.ok()) return Fail("job", added.status());
  absl::StatusOr<std::optional<int64_t>> next = (*writer)->NextQueuedJob();
  if (!next.ok()) return Fail("queue", next.status());
  if (!next->has_value()) return 0;
  absl::Status resumed = (*writer)->CheckResume(added->job_id, *execution_id, job.variants, false);
  if (!resumed.ok()) return Fail("resume", resumed);
  absl::Status running = (*writer)->SetJobState(added->job_id, JobState::kRunning);
  if (!running.ok()) return Fail("run", running);
  absl::StatusOr<std::vector<CellRow>> cells = (*writer)->Cells(added->job_id);
  if (!cells.ok()) return Fail("cells", cells.status());
  for (const CellRow& cell : *cells) {
    absl::StatusOr<std::vector<int64_t>> missing = (*writer)->ReadPendingSamples(cell.cell_id);
    if (!missing.ok()) return Fail("missing", missing.status());
    for (int64_t index : *missing) {
      // Every ninth sample fails on its first attempt, so that answers replace failures across kills too.
      if (index % 9 == 0) {
        absl::StatusOr<RecordResult> failed = (*writer)->RecordSample(FakeFailure(cell, job, *execution_id, index));
        if (!failed.ok()) return Fail("failure", failed.status());
      }
      absl::StatusOr<RecordResult> result = (*writer)->RecordSample(FakeOutcome(cell, job, *execution_id, index));
      if (!result.ok()) return Fail("record", result.status());
      varifocal::sqlite::PassKillPoint("before_acknowledgement");
      std::printf("%s %s %d %d\n", cell.cell.variant.c_str(), cell.cell.task.c_str(),
                  static_cast<int>(cell.cell.context_length), static_cast<int>(index));
      std::fflush(stdout);
      varifocal::sqlite::PassKillPoint("after_acknowledgement");
      if (index % 16 != 15) continue;
      absl::Status checkpoint = (*writer)->Checkpoint();
      if (!checkpoint.ok()) return Fail("checkpoint", checkpoint);
      varifocal::sqlite::PassKillPoint("after_checkpoint");
    }
  }
  absl::Status done = (*writer)->SetJobState(added->job_id, JobState::kSucceeded);
  return done.ok() ? 0 : Fail("done", done);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 4) {
    std::fprintf(stderr, "usage: crash_writer DATABASE [POINT N]\n");
    return 2;
  }
  if (argc == 4) {
    varifocal::sqlite::InstallFaultInjection();
    varifocal::sqlite::ArmKillPoint(argv[2], std::atoll(argv[3]));
  }
  const int code = Run(argv[1]);
  if (argc == 4 && code == 0) {
    for (const auto& [point, count] : varifocal::sqlite::KillPointCounts())
      std::fprintf(stderr, "%s %lld\n", point.c_str(), static_cast<long long>(count));
  }
  return code;
}
