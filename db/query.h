// Runs one user-supplied SELECT on a results database, row by row.
//
// Errors:  those of opening a reader (db/reader.h); INVALID_ARGUMENT for an invalid query, several statements or
//          anything but a read; an error returned by `use` ends the query and is returned.
// Threads: any; each call has its own connection.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/json.h"

namespace varifocal::db {

// Column names are unique: where the query repeats one, later ones are "name:1", "name:2", ... Values are null,
// integers, doubles and text; a BLOB becomes the text of its SQL literal, X'00FF'.
struct QueryRows {
  std::function<absl::Status(const std::vector<std::string>& columns)> start;  // called once, even if there are no rows
  std::function<absl::Status(std::vector<Json> values)> add;
};

absl::Status RunQuery(const std::string& path, const std::string& sql, const QueryRows& use);

}  // namespace varifocal::db
