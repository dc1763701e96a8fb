// Queries shared by the writer and the reader, and the names of job states.
//
// Threads: as the connection.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "db/records.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

absl::StatusOr<JobState> ParseJobState(const std::string& name);  // DATA_LOSS for an unknown one

absl::StatusOr<std::vector<VariantRecord>> ReadVariants(sqlite::Database& database, int64_t job_id);
absl::StatusOr<std::vector<CellRow>> ReadCells(sqlite::Database& database, int64_t job_id);

// The table cell_counts as a FROM item: (cell_id, execution_id, answered_count, failed_count). In a file from before
// version 10, which readers do not migrate, a query that counts the answers themselves.
absl::StatusOr<std::string> CellCounts(sqlite::Database& database);

// All rows of a statement, each converted.
template <typename Row, typename Convert>
absl::StatusOr<std::vector<Row>> ReadAll(sqlite::Statement& statement, const Convert& convert) {
  std::vector<Row> rows;
  while (true) {
    ASSIGN_OR_RETURN(bool is_there, statement.Step());
    if (!is_there) return rows;
    rows.push_back(convert(statement));
  }
}

}  // namespace varifocal::db
