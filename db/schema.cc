#include "db/schema.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/embedded.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "db/backup.h"
#include "db/file_watch.h"

namespace varifocal {

EmbeddedFiles Embedded_Migrations();

namespace db {
namespace {

constexpr char kMagic[] = "SQLite format 3";  // with its terminating zero: the first 16 bytes of every SQLite file

absl::Status ErrnoStatus(const std::string& path, int error) {
  std::string message = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) {
    std::error_code none;
    const std::filesystem::path here = std::filesystem::current_path(none);
    const bool is_relative = !std::filesystem::path(path).is_absolute() && TildeHint(path).empty() && !none;
    return NotFound(message, is_relative ? absl::StrCat(" below ", here.string()) : TildeHint(path));
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    return PermissionDenied(path, ": this user may not open the file: ", std::strerror(error));
  }
  return absl::InternalError(message);
}

// A write-ahead log with more than its head.
bool HasLog(const std::string& path) {
  constexpr int64_t kLogHeadBytes = 32;
  struct stat info;
  return stat(absl::StrCat(path, "-wal").c_str(), &info) == 0 && info.st_size > kLogHeadBytes;
}

struct Versions {
  int64_t version = 0;  // 0: no schema yet
  int64_t compatible_version = 0;
};

absl::StatusOr<Versions> ReadVersions(sqlite::Database& database) {
  ASSIGN_OR_RETURN(std::optional<int64_t> table_count, database.QueryInt("SELECT count(*) FROM sqlite_schema"));
  ASSIGN_OR_RETURN(int64_t application_id, database.ApplicationId());
  if (*table_count == 0) return Versions{};
  if (application_id != kApplicationId) {
    return InvalidArgument(database.path(), ": this SQLite database belongs to another program");
  }
  ASSIGN_OR_RETURN(sqlite::Statement statement,
                   database.Prepare("SELECT version, compatible_version FROM schema_version"));
  ASSIGN_OR_RETURN(bool row, statement.Step());
  if (!row) return DataLoss(database.path(), ": the database is damaged: it has no version");
  return Versions{statement.Int(0), statement.Int(1)};
}

absl::Status RefuseNewer(const sqlite::Database& database, const Versions& found) {
  if (found.compatible_version <= kSchemaVersion) return absl::OkStatus();
  return FailedPrecondition(database.path(), ": the database has schema version ", found.version,
                            ", usable from version ", found.compatible_version,
                            " on, and this program supports version ", kSchemaVersion,
                            "; use the varifocal that wrote it, or a newer one");
}

}  // namespace

absl::Status CheckFile(const std::string& path, bool may_create) {
  if (path.empty()) return InvalidArgument("the path of the database is empty");
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT && may_create) return absl::OkStatus();
    return ErrnoStatus(path, errno);
  }
  if (S_ISDIR(info.st_mode)) {
    return InvalidArgument(path, ": is a directory, and a database is one file, such as ", path,
                           path.back() == '/' ? "" : "/", "results.db");
  }
  if (!S_ISREG(info.st_mode)) return InvalidArgument(path, ": not a file");
  if (may_create && info.st_nlink > 1) {
    // SQLite names the write-ahead log after the database: under another name it is missed, and two writers do not see
    // each other's.
    return FailedPrecondition(path, ": the file has ", info.st_nlink,
                              " hard links, and a database that is written must have one name; "
                              "remove the other names, or copy the file");
  }
  if (HeldFile::IsHeld(info.st_dev, info.st_ino)) return absl::OkStatus();  // a writer checked it
  int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(path, errno);
  char head[sizeof(kMagic)] = {};
  ssize_t count = read(fd, head, sizeof(head));
  int error = errno;
  close(fd);
  if (count < 0) return ErrnoStatus(path, error);
  if (count == 0 && HasLog(path)) {
    return FailedPrecondition(path,
                              ": the file has 0 bytes beside a write-ahead log, which SQLite "
                              "would delete; `truncate -s 4096` of a copy of both recovers what "
                              "the log has");
  }
  // A power loss during a checkpoint may tear the first page while the log has it.
  if (HasLog(path)) return absl::OkStatus();
  if (count == 0) {
    if (may_create) return absl::OkStatus();
    return FailedPrecondition(path, ": the database is empty (0 bytes)");
  }
  if (std::memcmp(head, kMagic, sizeof(kMagic)) != 0) {
    // A power loss while the file was created may tear its first page; a writer rolls that back.
    if (may_create && access((path + "-journal").c_str(), F_OK) == 0) return absl::OkStatus();
    return InvalidArgument(path, ": not an SQLite database");
  }
  return absl::OkStatus();
}

absl::Status CheckSchema(sqlite::Database& database) {
  ASSIGN_OR_RETURN(Versions found, ReadVersions(database));
  if (found.version == 0) return FailedPrecondition(database.path(), ": the database is empty (no tables)");
  return RefuseNewer(database, found);
}

absl::Status MigrateSchema(sqlite::Database& database) {
  ASSIGN_OR_RETURN(Versions found, ReadVersions(database));
  RETURN_IF_ERROR(RefuseNewer(database, found));
  if (found.version > 0 && found.version < kSchemaVersion) RETURN_IF_ERROR(BackUp(database, found.version).status());
  if (found.version >= kSchemaVersion) return absl::OkStatus();
  // All of them or none: a process that is killed leaves the file as it was.
  ASSIGN_OR_RETURN(sqlite::Transaction transaction,
                   sqlite::Transaction::Begin(database, sqlite::Transaction::Kind::kWrite));
  RETURN_IF_ERROR(database.SetApplicationId(kApplicationId));
  for (const EmbeddedFile& file : Embedded_Migrations()) {
    const int64_t number = std::atoi(file.name);  // "0001_first_schema.sql"; 0 of views.sql, the last one
    if (number == 0 || number > found.version) RETURN_IF_ERROR(Annotate(database.Execute(file.data), file.name));
  }
  return transaction.Commit();
}

}  // namespace db
}  // namespace varifocal
