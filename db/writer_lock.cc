#include "db/writer_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal::db {
namespace {

std::string Resolve(const std::string& path) {
  char* real = realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;  // not there yet
  std::string result = real;
  std::free(real);
  return result;
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
}

std::string HolderPid(int fd) {
  // The holder writes its pid right after locking; retry briefly.
  for (int attempt = 0; attempt < 20; ++attempt) {
    char text[32];
    ssize_t count = pread(fd, text, sizeof(text) - 1, 0);
    if (count > 1 && text[count - 1] == '\n') return std::string(text, count - 1);
    usleep(5000);
  }
  return "unknown";
}

}  // namespace

absl::StatusOr<WriterLock> WriterLock::Take(const std::string& database_path) {
  const std::string path = Resolve(database_path) + ".lock";
  // Retry if the previous holder removed the file between open and lock.
  while (true) {
    int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
      const int error = errno;
      const std::string directory = DirectoryOf(path);
      struct stat found;
      const bool is_no_directory = error == ENOENT && stat(directory.c_str(), &found) != 0;
      if (is_no_directory || error == ENOTDIR) {
        return NotFound(database_path, ": ",
                        error == ENOENT ? "the directory " : "a part of the path is no directory: ", directory,
                        error == ENOENT ? " does not exist" : "", TildeHint(database_path));
      }
      std::string message =
          absl::StrCat(database_path, ": cannot make the lock file ", path, ": ", std::strerror(error));
      if (error == ENOSPC || error == EMFILE) return absl::ResourceExhaustedError(message);
      absl::StrAppend(&message, "; a writer must be allowed to make files in ", directory);
      return absl::PermissionDeniedError(message);
    }
    WriterLock lock(fd, path);
    struct flock whole = {};
    whole.l_type = F_WRLCK;
    whole.l_whence = SEEK_SET;
    if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
      lock.path_.clear();  // not ours to remove
      if (errno != EAGAIN && errno != EACCES) return Internal(path, ": cannot lock: ", std::strerror(errno));
      return WithReason(FailedPrecondition(database_path, ": the database is being written by process ", HolderPid(fd)),
                        ErrorReason::kDatabaseInUse);
    }
    struct stat ours, there;
    if (fstat(fd, &ours) != 0 || stat(path.c_str(), &there) != 0 || ours.st_ino != there.st_ino ||
        ours.st_dev != there.st_dev) {
      lock.path_.clear();
      continue;
    }
    std::string text = absl::StrCat(getpid(), "\n");
    if (ftruncate(fd, 0) != 0 || pwrite(fd, text.data(), text.size(), 0) != std::ssize(text)) {
      return ResourceExhausted(path, ": cannot write: ", std::strerror(errno));
    }
    return lock;
  }
}

absl::Status WriterLock::Check() const {
  struct stat ours, there;
  if (fstat(fd_, &ours) == 0 && stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
      ours.st_dev == there.st_dev) {
    return absl::OkStatus();
  }
  return DataLoss(
      path_, ": the lock file was deleted or replaced while it was in use, so another process may write the database");
}

WriterLock::~WriterLock() {
  if (fd_ < 0) return;
  if (!path_.empty() && Check().ok()) unlink(path_.c_str());
  close(fd_);
}

}  // namespace varifocal::db
