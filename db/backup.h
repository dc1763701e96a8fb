// Copies a database to a file beside it before a migration changes it.
//
// Errors:  RESOURCE_EXHAUSTED (disk full), PERMISSION_DENIED etc., with the copy's path; a partial copy is removed.
// Threads: as the connection, outside a transaction.
// Cost:    reads the whole database and writes it once.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// Writes PATH.version-N.backup (PATH.version-N.2.backup, .. if that exists), mode 0600, and returns its path.
absl::StatusOr<std::string> BackUp(sqlite::Database& database, int64_t version);

}  // namespace varifocal::db
