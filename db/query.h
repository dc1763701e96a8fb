// One SELECT of a user over a results database, row by row.
//
// Errors:  those of opening a reader (db/reader.h); INVALID_ARGUMENT for a query that is not right, is several or would
//          do more than read; and whatever `use` returns, which ends the query.
// Threads: any; each call has its own connection.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"

namespace varifocal::db {

// Column names are different from each other: where the query repeats one, later ones are "name:1", "name:2", ... Values
// are null, integers, doubles and texts; bytes become the text of their SQL literal, X'00FF'.
struct QueryRows {
  std::function<absl::Status(const std::vector<std::string>& columns)> start;  // once, also without any row
  std::function<absl::Status(std::vector<Json> values)> add;
};

absl::Status RunQuery(const std::string& path, const std::string& sql, const QueryRows& use);

}  // namespace varifocal::db
