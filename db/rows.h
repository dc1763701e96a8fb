// Queries shared by the writer and the reader, and the names of job states.
//
// Threads: as the connection.
#pragma once

#include <string>
#include <type_traits>
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

// Calls `use`, which returns nothing or a status, with each row of a bound statement, or of a query with its parameters.
template <typename Use>
absl::Status EachRow(sqlite::Statement& row, const Use& use) {
  while (true) {
    ASSIGN_OR_RETURN(const bool is_there, row.Step());
    if (!is_there) return absl::OkStatus();
    if constexpr (std::is_void_v<std::invoke_result_t<Use, const sqlite::Statement&>>) {
      use(row);
    } else {
      RETURN_IF_ERROR(use(row));
    }
  }
}
template <typename Use, typename... Values>
absl::Status EachRow(sqlite::Database& database, absl::string_view sql, const Use& use, const Values&... values) {
  ASSIGN_OR_RETURN(sqlite::Statement row, database.Prepare(sql));
  return EachRow(row.BindAll(values...), use);
}

// All rows of a query, each converted.
template <typename Convert, typename... Values>
auto AllRows(sqlite::Database& database, absl::string_view sql, const Convert& convert, const Values&... values)
    -> absl::StatusOr<std::vector<std::invoke_result_t<Convert, const sqlite::Statement&>>> {
  std::vector<std::invoke_result_t<Convert, const sqlite::Statement&>> rows;
  RETURN_IF_ERROR(EachRow(
      database, sql, [&](const sqlite::Statement& row) { rows.push_back(convert(row)); }, values...));
  return rows;
}

inline std::string FirstText(const sqlite::Statement& row) { return row.Text(0); }
inline int64_t FirstInt(const sqlite::Statement& row) { return row.Int(0); }

}  // namespace varifocal::db
