#include "db/delete_job.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"
#include "db/writer_state.h"

namespace varifocal::db {
namespace {

using sqlite::Database;
using sqlite::Statement;
using sqlite::Transaction;

struct TableOfJobs {
  const char* name;
  const char* condition;  // of rows of the job bound to it
};

// Rows that refer to others come before them.
constexpr TableOfJobs kTables[] = {
    {"scores",
     "generation_id IN (SELECT generations.generation_id FROM generations"
     " JOIN cells ON cells.cell_id = generations.cell_id JOIN variants ON variants.variant_id = cells.variant_id"
     " WHERE variants.job_id = ?)"},
    {"attention_heads",
     "generation_id IN (SELECT generations.generation_id FROM generations"
     " JOIN cells ON cells.cell_id = generations.cell_id JOIN variants ON variants.variant_id = cells.variant_id"
     " WHERE variants.job_id = ?)"},
    {"generations",
     "cell_id IN (SELECT cells.cell_id FROM cells JOIN variants ON variants.variant_id = cells.variant_id"
     " WHERE variants.job_id = ?)"},
    {"cell_counts",
     "cell_id IN (SELECT cells.cell_id FROM cells JOIN variants ON variants.variant_id = cells.variant_id"
     " WHERE variants.job_id = ?)"},
    {"samples", "job_id = ?"},
    {"cells", "variant_id IN (SELECT variant_id FROM variants WHERE job_id = ?)"},
    {"variants", "job_id = ?"},
    {"task_metrics", "job_id = ?"},
    {"score_imports", "job_id = ?"},
    {"job_charges", "job_id = ?"},
    {"job_starts", "job_id = ?"},
    {"mixed_jobs", "job_id = ?"},
    {"jobs", "job_id = ?"},
};

constexpr char kInsertDeleted[] = "INSERT INTO deleted_jobs (job_id, suite, delete_us) VALUES (?, ?, ?)";

}  // namespace

std::vector<std::string> TablesOfJobs() { return NamesOf(kTables); }

absl::StatusOr<DeletedJob> Writer::DeleteJob(int64_t job_id, bool only_ended) {
  MutexLock hold(state_->mutex);
  Database& database = *state_->database;
  ASSIGN_OR_RETURN(Transaction transaction, state_->Begin());
  DeletedJob deleted;
  {
    ASSIGN_OR_RETURN(Statement find, database.Prepare("SELECT suite, state FROM jobs WHERE job_id = ?"));
    ASSIGN_OR_RETURN(const bool is_there, find.Bind(job_id).Step());
    if (!is_there) return NotFound("no job ", job_id, " in this database");
    deleted.suite = find.Text(0);
    ASSIGN_OR_RETURN(const JobState state, ParseJobState(find.Text(1)));
    if (only_ended && !IsSettled(state)) {
      return WithReason(FailedPrecondition("job ", job_id, " is ", JobStateName(state),
                                           "; only one that has ended or was cancelled can be deleted"),
                        ErrorReason::kJobNotEnded,
                        {{"job", absl::StrCat("jobs/", job_id)}, {"state", JobStateName(state)}});
    }
  }
  for (const TableOfJobs& table : kTables) {
    RETURN_IF_ERROR(database.Run(absl::StrCat("DELETE FROM ", table.name, " WHERE ", table.condition), job_id));
    if (table.name == absl::string_view("generations")) deleted.generation_count = database.ChangeCount();
  }
  RETURN_IF_ERROR(database.Run(kInsertDeleted, job_id, deleted.suite, state_->clock.WallMicros()));
  RETURN_IF_ERROR(state_->Commit(transaction));
  return deleted;
}

absl::StatusOr<DeletedJob> DeleteJob(const std::string& path, int64_t job_id, const Clock& clock) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  // Holds the lock of the one process that may write, and brings the schema up to date.
  ASSIGN_OR_RETURN(const std::unique_ptr<Writer> writer, Writer::Open(path, clock));
  // So no process runs the job, whatever its state is.
  absl::StatusOr<DeletedJob> deleted = writer->DeleteJob(job_id, /*only_ended=*/false);
  if (absl::IsNotFound(deleted.status())) return Annotate(deleted.status(), path);
  return deleted;
}

}  // namespace varifocal::db
