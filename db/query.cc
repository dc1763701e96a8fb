#include "db/query.h"

#include <memory>
#include <set>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "db/rows.h"
#include "db/schema.h"
#include "db/sqlite/database.h"

namespace varifocal::db {
namespace {

using sqlite::Database;
using sqlite::Statement;

std::vector<std::string> DistinctNames(const Statement& statement) {
  std::vector<std::string> names;
  std::set<std::string> taken;
  for (int i = 0; i < statement.ColumnCount(); ++i) {
    const std::string name = statement.ColumnName(i);
    std::string distinct = name;
    for (int n = 1; !taken.insert(distinct).second; ++n) distinct = absl::StrCat(name, ":", n);
    names.push_back(std::move(distinct));
  }
  return names;
}

Json ValueOf(const Statement& row, int column) {
  switch (row.TypeOf(column)) {
    case Statement::Type::kInteger:
      return row.Int(column);
    case Statement::Type::kReal:
      return row.Real(column);
    case Statement::Type::kText:
      return row.Text(column);
    case Statement::Type::kBytes:
      return absl::StrCat("X'", absl::AsciiStrToUpper(absl::BytesToHexString(row.Text(column))), "'");
    case Statement::Type::kNull:
      break;
  }
  return Json();
}

// What a query could have meant by a name that is not there: SQLite's error is "no such column: x".
std::string Suggestion(Database& database, absl::string_view error, const std::string& sql) {
  const auto name_after = [error](absl::string_view start) -> absl::string_view {
    const size_t at = error.find(start);
    return at == error.npos ? "" : error.substr(at + start.size());
  };
  const absl::StatusOr<std::vector<std::string>> views =
      AllRows(database, "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name", FirstText);
  if (!views.ok()) return "";
  if (const absl::string_view name = name_after("no such table: "); !name.empty()) return DidYouMean(name, *views);
  std::vector<std::string> columns;
  const absl::string_view name = name_after("no such column: ");
  for (const std::string& view : *views) {
    if (name.empty() || !absl::StrContains(sql, view)) continue;
    const auto there = AllRows(database, absl::StrCat("SELECT name FROM pragma_table_info('", view, "')"), FirstText);
    if (there.ok()) columns.insert(columns.end(), there->begin(), there->end());
  }
  if (columns.empty()) return "";
  const absl::string_view column = name.substr(name.rfind('.') + 1);
  const bool may_be_text = column == name && Nearest(column, columns).empty();
  return absl::StrCat(may_be_text ? absl::StrCat("; a text is written '", name, "'") : "", DidYouMean(column, columns));
}

}  // namespace

absl::Status RunQuery(const std::string& path, const std::string& sql, const QueryRows& use) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  ASSIGN_OR_RETURN(const std::unique_ptr<Database> database, Database::Open(path, {.read_only = true}));
  RETURN_IF_ERROR(CheckSchema(*database));
  absl::StatusOr<Statement> prepared = database->PrepareQuery(sql);
  if (absl::IsInvalidArgument(prepared.status())) {
    const absl::string_view error = prepared.status().message();
    // That connection may run a user's query and nothing else.
    ASSIGN_OR_RETURN(const std::unique_ptr<Database> look, Database::Open(path, {.read_only = true}));
    return InvalidArgument(error, Suggestion(*look, error, sql));
  }
  ASSIGN_OR_RETURN(Statement statement, std::move(prepared));
  RETURN_IF_ERROR(use.start(DistinctNames(statement)));
  while (true) {
    const absl::StatusOr<bool> is_there = statement.Step();
    // Errors that occur only while stepping: an overflow, text that is not JSON.
    if (absl::IsInternal(is_there.status()) && !database->LastErrorIsOfTheDisk()) {
      return absl::InvalidArgumentError(is_there.status().message());
    }
    RETURN_IF_ERROR(is_there.status());
    if (!*is_there) return absl::OkStatus();
    std::vector<Json> values;
    for (int i = 0; i < statement.ColumnCount(); ++i) values.push_back(ValueOf(statement, i));
    RETURN_IF_ERROR(use.add(std::move(values)));
  }
}

}  // namespace varifocal::db
