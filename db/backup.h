// A copy of a database as it is, beside it, before a migration changes it.
//
// Errors:  RESOURCE_EXHAUSTED (no room), PERMISSION_DENIED and the like, with the copy's path; no half of a copy is left.
// Threads: as the connection, outside of a transaction.
// Cost:    reads the database and writes as much.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// Writes PATH.version-N.backup (or, where that is taken, PATH.version-N.2.backup, ..), mode 0600, and tells its path.
absl::StatusOr<std::string> BackUp(sqlite::Database& database, int64_t version);

}  // namespace varifocal::db
