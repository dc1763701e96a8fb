// crash_writer DATABASE [POINT N]: writes a fake job's missing samples, one by one, and prints a line after each
// acknowledged one. To be killed at any time and restarted; exit 0 when no sample is missing. With POINT it kills itself
// when it passes that point for the N-th time (db/sqlite/fault_injection.h); N = 0: never, and the passes of every point
// are printed on standard error at the end.
#include <cstdio>
#include <cstdlib>

#include "base/status_macros.h"
#include "db/fakes/fake_results.h"
#include "db/sqlite/fault_injection.h"
#include "db/writer.h"

using namespace varifocal::db;
using varifocal::Annotate;

namespace {

absl::Status Run(const char* path) {
  ASSIGN_OR_RETURN(const auto writer, Annotate(Writer::Open(path), "open"));
  NewJob job = FakeJob({.tasks = {"icl", "recall"}, .lengths = {1024, 2048}, .planned_count = 40});
  job.request_id = "the one job";
  job.body_sha256 = "its body";
  RETURN_IF_ERROR(Annotate(writer->RecoverInterruptedJobs().status(), "recover"));
  ASSIGN_OR_RETURN(const auto execution_id, Annotate(writer->AddExecution(FakeExecution()), "execution"));
  ASSIGN_OR_RETURN(const auto added, Annotate(writer->AddJob(job), "job"));
  ASSIGN_OR_RETURN(const auto next, Annotate(writer->NextQueuedJob(), "queue"));
  if (!next.has_value()) return absl::OkStatus();
  RETURN_IF_ERROR(Annotate(writer->CheckResume(added.job_id, execution_id, job.variants, false), "resume"));
  RETURN_IF_ERROR(Annotate(writer->SetJobState(added.job_id, JobState::kRunning), "run"));
  ASSIGN_OR_RETURN(const auto cells, Annotate(writer->Cells(added.job_id), "cells"));
  for (const CellRow& cell : cells) {
    ASSIGN_OR_RETURN(const auto missing, Annotate(writer->ReadPendingSamples(cell.cell_id), "missing"));
    for (int64_t index : missing) {
      // Every ninth sample fails on its first attempt, so that answers replace failures across kills too.
      if (index % 9 == 0) {
        RETURN_IF_ERROR(
            Annotate(writer->RecordSample(FakeFailure(cell, job, execution_id, index)).status(), "failure"));
      }
      RETURN_IF_ERROR(Annotate(writer->RecordSample(FakeOutcome(cell, job, execution_id, index)).status(), "record"));
      varifocal::sqlite::PassKillPoint("before_acknowledgement");
      std::printf("%s %s %d %d\n", cell.cell.variant.c_str(), cell.cell.task.c_str(),
                  static_cast<int>(cell.cell.context_length), static_cast<int>(index));
      std::fflush(stdout);
      varifocal::sqlite::PassKillPoint("after_acknowledgement");
      if (index % 16 != 15) continue;
      RETURN_IF_ERROR(Annotate(writer->Checkpoint(), "checkpoint"));
      varifocal::sqlite::PassKillPoint("after_checkpoint");
    }
  }
  return Annotate(writer->SetJobState(added.job_id, JobState::kSucceeded), "done");
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
  if (const absl::Status status = Run(argv[1]); !status.ok()) {
    std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
    return 1;
  }
  if (argc == 4) {
    for (const auto& [point, count] : varifocal::sqlite::KillPointCounts())
      std::fprintf(stderr, "%s %lld\n", point.c_str(), static_cast<long long>(count));
  }
  return 0;
}
