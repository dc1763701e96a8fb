// Snapshots of a database, such as the copy beside it before a migration changes it.
//
// A copy is one snapshot, written to PATH.part, synced, and renamed: PATH is complete or not there.
//
// Errors:  RESOURCE_EXHAUSTED (disk full), PERMISSION_DENIED etc., with the copy's path; a partial copy is removed.
// Threads: as the connection, outside a transaction.
// Cost:    reads the whole database and writes it once.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

// Writes PATH.version-N.backup (PATH.version-N.2.backup, .. if that exists), mode 0600, and returns its path.
absl::StatusOr<std::string> BackUp(sqlite::Database& database, int64_t version);

// The database as the new file `path`.
absl::Status WriteSnapshot(sqlite::Database& database, const std::string& path);

}  // namespace varifocal::db
