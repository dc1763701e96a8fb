// Copies of a database: beside it before a migration changes it, and anywhere while a daemon writes it.
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

// Copies the database `path` to the new file `copy`, mode 0600, and checks the copy. Another process may write the database
// meanwhile; its write-ahead log is not emptied as long as this takes. ALREADY_EXISTS when `copy` exists.
absl::Status CopyDatabase(const std::string& path, const std::string& copy);

}  // namespace varifocal::db
