#include "db/backup.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/files.h"

namespace varifocal::db {
namespace {

absl::Status Sync(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return FileError(path, "open", errno);
  const bool synced = fsync(fd) == 0;
  const int error = errno;
  close(fd);
  return synced ? absl::OkStatus() : FileError(path, "write", error);
}

// An empty file that was not there, which SQLite fills.
absl::Status MakeEmpty(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return FileError(path, "make", errno);
  close(fd);
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteSnapshot(sqlite::Database& database, const std::string& path) {
  const std::string part = path + ".part";
  std::remove(part.c_str());  // of a process that was killed
  absl::Status status = MakeEmpty(part);
  if (status.ok()) status = database.Run("VACUUM INTO ?", part);
  if (status.ok()) status = Sync(part);
  if (status.ok() && std::rename(part.c_str(), path.c_str()) != 0) status = FileError(path, "make", errno);
  if (status.ok()) {
    const size_t slash = path.rfind('/');
    return Sync(slash == path.npos ? "." : path.substr(0, slash + 1));
  }
  std::remove(part.c_str());
  return status;
}

absl::StatusOr<std::string> BackUp(sqlite::Database& database, int64_t version) {
  const std::string stem = absl::StrCat(database.path(), ".version-", version);
  std::string path = absl::StrCat(stem, ".backup");
  for (int number = 2; access(path.c_str(), F_OK) == 0; ++number) path = absl::StrCat(stem, ".", number, ".backup");
  const absl::Status written = WriteSnapshot(database, path);  // the writer's lock keeps others away
  if (written.ok()) return path;
  return Annotate(written, absl::StrCat("no copy could be made before the migration (", path, ")"));
}

}  // namespace varifocal::db
