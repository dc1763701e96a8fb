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
  ASSIGN_OR_RETURN(const std::string counts, CellCounts(database));
  const auto convert = [](const sqlite::Statement& row) {
    return FailureGroup{row.Text(0), row.Int(1), row.Int(2), row.Text(3)};
  };
  return AllRows(database, absl::StrReplaceAll(kSelectFailures, {{"$counts", counts}}), convert, job_id);
}

}  // namespace varifocal::db
