// Identifies a database, checks its version and migrates it.
//
// A file stores `version`, its schema version, and `compatible_version`, the oldest program version that may still use
// it. So a newer schema that only adds columns remains readable: version 3 with compatible_version 2 is opened by a
// program of version 2 and refused by one of version 1.
//
// Errors:  see db/writer.h; messages start with the path.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

inline constexpr int kSchemaVersion = 17;
inline constexpr int64_t kApplicationId = 0x56464f43;  // "VFOC", in the SQLite header

// Checks the file without SQLite: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (a directory, not an SQLite file),
// FAILED_PRECONDITION (empty). With may_create, for a writer, a missing or empty file is accepted, and one with several
// hard links is FAILED_PRECONDITION. A file that a writer of this process has open is not opened again (see HeldFile).
absl::Status CheckFile(const std::string& path, bool may_create);

absl::Status CheckSchema(sqlite::Database& database);    // for readers
absl::Status MigrateSchema(sqlite::Database& database);  // for the writer: creates, migrates after a backup, or refuses

}  // namespace varifocal::db
