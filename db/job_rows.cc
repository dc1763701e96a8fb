#include "db/job_rows.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "db/rows.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

using sqlite::Database;
using sqlite::Statement;

namespace {

// $counts: see CellCounts.
constexpr char kSelectJobs[] =
    "SELECT job_id, suite, spec_json, spec_sha256, data_seed, state, error, create_us, start_us, end_us,"
    " (SELECT coalesce(sum(cells.planned_count), 0) FROM cells JOIN variants ON variants.variant_id = cells.variant_id"
    "  WHERE variants.job_id = jobs.job_id),"
    " (SELECT coalesce(sum(counts.answered_count), 0) FROM variants"
    "  JOIN cells ON cells.variant_id = variants.variant_id JOIN $counts AS counts ON counts.cell_id = cells.cell_id"
    "  WHERE variants.job_id = jobs.job_id),"
    " (SELECT coalesce(sum(counts.failed_count), 0) FROM variants"
    "  JOIN cells ON cells.variant_id = variants.variant_id JOIN $counts AS counts ON counts.cell_id = cells.cell_id"
    "  WHERE variants.job_id = jobs.job_id),"
    " (SELECT count(*) FROM (SELECT DISTINCT executions.code_version, executions.backend, executions.instruction_set"
    "  FROM variants JOIN cells ON cells.variant_id = variants.variant_id"
    "  JOIN $counts AS counts ON counts.cell_id = cells.cell_id"
    "  JOIN executions ON executions.execution_id = counts.execution_id"
    "  WHERE variants.job_id = jobs.job_id AND counts.answered_count > 0 AND executions.backend <> 'endpoint'))"
    " FROM jobs";
constexpr char kJobsBefore[] = " WHERE job_id < ? ORDER BY job_id DESC LIMIT ?";
constexpr char kJobById[] = " WHERE job_id = ?";

// From the index jobs_by_state: the rows hold whole specs. The lowest id is the oldest job.
constexpr char kCountJobs[] =
    "SELECT counts.state, counts.job_count, jobs.create_us FROM"
    " (SELECT state, count(*) AS job_count, min(job_id) AS first_id FROM jobs GROUP BY state) AS counts"
    " JOIN jobs ON jobs.job_id = counts.first_id";
constexpr char kCountQueued[] = "SELECT count(*) FROM (SELECT 1 FROM jobs WHERE state = 'queued' LIMIT ?)";
constexpr char kUnfinishedJobOf[] =
    "SELECT job_id, state FROM jobs WHERE state IN ('queued', 'running', 'cancelling') AND EXISTS"
    " (SELECT 1 FROM variants JOIN models ON models.model_id = variants.model_id"
    "  WHERE variants.job_id = jobs.job_id AND models.name = ?) LIMIT 1";

absl::StatusOr<JobRow> ToJob(const Statement& row) {
  JobRow job;
  std::string state;
  int64_t execution_kinds = 0;
  row.Read(job.job_id, job.suite, job.spec_json, job.spec_sha256, job.data_seed, state, job.error, job.create_us,
           job.start_us, job.end_us, job.planned_count, job.answered_count, job.failed_count, execution_kinds);
  ASSIGN_OR_RETURN(job.state, ParseJobState(state));
  job.is_mixed = execution_kinds > 1;
  return job;
}

absl::StatusOr<Statement> SelectJobs(Database& database, const char* condition) {
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(database));
  return database.Prepare(absl::StrReplaceAll(absl::StrCat(kSelectJobs, condition), {{"$counts", counts}}));
}

// Names the jobs that exist, the newest ones where they are many.
absl::Status NoSuchJob(Database& database, int64_t job_id) {
  constexpr int64_t kNamedMax = 10;
  ASSIGN_OR_RETURN(std::vector<int64_t> ids,
                   AllRows(database, "SELECT job_id FROM jobs ORDER BY job_id DESC LIMIT ?", FirstInt, kNamedMax + 1));
  const char* const lead = ids.empty()                   ? "; the database holds no jobs"
                           : std::ssize(ids) > kNamedMax ? "; its newest jobs are "
                                                         : "; its jobs are ";
  ids.resize(std::min(std::ssize(ids), kNamedMax));
  std::reverse(ids.begin(), ids.end());
  return NotFound(database.path(), ": no job ", job_id, lead, absl::StrJoin(ids, ", "));
}

}  // namespace

absl::StatusOr<std::vector<JobRow>> ReadJobs(Database& database, int64_t before_id, int64_t limit) {
  ASSIGN_OR_RETURN(Statement row, SelectJobs(database, kJobsBefore));
  std::vector<JobRow> jobs;
  const auto add = [&](const Statement& job) -> absl::Status {
    ASSIGN_OR_RETURN(jobs.emplace_back(), ToJob(job));
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(EachRow(row.BindAll(before_id == 0 ? INT64_MAX : before_id, limit), add));
  return jobs;
}

absl::StatusOr<JobRow> ReadJob(Database& database, int64_t job_id) {
  ASSIGN_OR_RETURN(Statement row, SelectJobs(database, kJobById));
  ASSIGN_OR_RETURN(bool is_there, row.BindAll(job_id).Step());
  if (!is_there) return NoSuchJob(database, job_id);
  return ToJob(row);
}

absl::StatusOr<std::vector<JobStateCount>> CountJobsByState(Database& database) {
  std::vector<JobStateCount> counts;
  RETURN_IF_ERROR(EachRow(database, kCountJobs, [&](const Statement& row) -> absl::Status {
    ASSIGN_OR_RETURN(const JobState state, ParseJobState(row.Text(0)));
    counts.push_back({state, row.Int(1), row.Int(2)});
    return absl::OkStatus();
  }));
  return counts;
}

absl::StatusOr<int64_t> CountQueuedJobs(Database& database, int64_t at_most) {
  ASSIGN_OR_RETURN(const std::optional<int64_t> count, database.QueryInt(kCountQueued, at_most));
  return count.value_or(0);
}

absl::StatusOr<std::optional<UnfinishedJob>> FindUnfinishedJob(Database& database, const std::string& model) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare(kUnfinishedJobOf));
  ASSIGN_OR_RETURN(const bool is_there, row.BindAll(model).Step());
  if (!is_there) return std::nullopt;
  ASSIGN_OR_RETURN(const JobState state, ParseJobState(row.Text(1)));
  return UnfinishedJob{row.Int(0), state};
}

absl::StatusOr<JobRow> FindLatestJob(Database& database, const std::vector<std::string>& variants) {
  ASSIGN_OR_RETURN(Statement row, database.Prepare("SELECT job_id FROM jobs ORDER BY job_id DESC"));
  std::vector<std::string> seen;
  while (true) {
    ASSIGN_OR_RETURN(bool is_there, row.Step());
    if (!is_there) break;
    ASSIGN_OR_RETURN(std::vector<VariantRecord> present, ReadVariants(database, row.Int(0)));
    const std::vector<std::string> names = NamesOf(present);
    bool has_all = std::all_of(variants.begin(), variants.end(), [&](const std::string& wanted) {
      return std::find(names.begin(), names.end(), wanted) != names.end();
    });
    if (has_all) return ReadJob(database, row.Int(0));
    for (const std::string& name : names) {
      if (std::find(seen.begin(), seen.end(), name) == seen.end()) seen.push_back(name);
    }
  }
  if (seen.empty()) return NotFound(database.path(), ": the database holds no jobs");
  return NotFound(database.path(), ": no job has the variants ", absl::StrJoin(variants, " and "),
                  " together; its variants are ", absl::StrJoin(seen, ", "));
}

}  // namespace varifocal::db
