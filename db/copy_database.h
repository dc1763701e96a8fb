// A copy of a database that a daemon may be writing.
//
// Errors:  those of db/backup.h and db/schema.h; ALREADY_EXISTS when the copy's path exists.
// Cost:    reads the whole database, writes it once, and reads the copy.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace varifocal::db {

// Copies the database `path` to the new file `copy`, mode 0600, and checks the copy. Another process may write the database
// meanwhile; its write-ahead log is not emptied as long as this takes.
absl::Status CopyDatabase(const std::string& path, const std::string& copy);

}  // namespace varifocal::db
