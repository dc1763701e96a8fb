// Which database is this, and how does it become one of ours: version check and migrations.
//
// A file carries `version`, what it is, and `compatible_version`, the oldest program version that may still use it. So
// a newer schema that only adds columns stays readable: version 3, compatible_version 2 is opened by a program of
// version 2 and refused by one of version 1.
//
// Errors:  see db/writer.h; messages start with the path.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "db/sqlite/database.h"

namespace varifocal::db {

inline constexpr int kSchemaVersion = 7;
inline constexpr int64_t kApplicationId = 0x56464f43;  // "VFOC", in the SQLite header

// Looks at the file without SQLite: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (a folder, no SQLite file),
// FAILED_PRECONDITION (empty). With may_create a missing or empty file is fine. A file that a writer of this process has
// open is not opened again (see HeldFile).
absl::Status CheckFile(const std::string& path, bool may_create);

absl::Status CheckSchema(sqlite::Database& database);    // for readers
absl::Status MigrateSchema(sqlite::Database& database);  // for the writer: makes, migrates after a backup, or refuses

}  // namespace varifocal::db
