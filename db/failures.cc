#include "db/failures.h"

#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "db/rows.h"
#include "db/sqlite/database.h"

namespace varifocal::db {
namespace {

// $counts: see CellCounts. SQLite takes the bare column from the row that has the maximum.
constexpr char kSelectFailures[] =
    "SELECT generations.error_code, count(*), max(generations.record_us), generations.error_message"
    " FROM generations JOIN cells ON cells.cell_id = generations.cell_id"
    " JOIN variants ON variants.variant_id = cells.variant_id"
    " WHERE variants.job_id = ? AND generations.error_code IS NOT NULL"
    " AND cells.cell_id IN (SELECT counts.cell_id FROM $counts AS counts WHERE counts.failed_count > 0)"
    " GROUP BY generations.error_code ORDER BY count(*) DESC, generations.error_code";

}  // namespace

absl::StatusOr<std::vector<FailureGroup>> ReadFailures(sqlite::Database& database, int64_t job_id) {
  std::vector<FailureGroup> groups;
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(database));
  ASSIGN_OR_RETURN(sqlite::Statement failures,
                   database.Prepare(absl::StrReplaceAll(kSelectFailures, {{"$counts", counts}})));
  failures.Bind(job_id);
  while (true) {
    ASSIGN_OR_RETURN(const bool is_there, failures.Step());
    if (!is_there) return groups;
    groups.push_back({failures.Text(0), failures.Int(1), failures.Int(2), failures.Text(3)});
  }
}

}  // namespace varifocal::db
