#include "db/copy_database.h"

#include <unistd.h>

#include <memory>

#include "base/status_macros.h"
#include "db/backup.h"
#include "db/schema.h"

namespace varifocal::db {

absl::Status CopyDatabase(const std::string& path, const std::string& copy) {
  RETURN_IF_ERROR(CheckFile(path, /*may_create=*/false));
  if (access(copy.c_str(), F_OK) == 0) return AlreadyExists(copy, " exists, and a backup replaces no file");
  const bool is_fixed = access(path.c_str(), W_OK) != 0;  // such as on a mount that is read-only
  {
    ASSIGN_OR_RETURN(const std::unique_ptr<sqlite::Database> database,
                     sqlite::Database::Open(path, is_fixed ? sqlite::OpenOptions{.read_only = true, .is_copied = true}
                                                           : sqlite::OpenOptions{.keep_as_it_is = true}));
    RETURN_IF_ERROR(CheckSchema(*database));
    RETURN_IF_ERROR(WriteSnapshot(*database, copy));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<sqlite::Database> written, sqlite::Database::Open(copy, {.read_only = true}));
  return written->QuickCheck();
}

}  // namespace varifocal::db
