// Lock of the one writer process of a database: an open-file-description lock on `<path>.lock`.
//
// The kernel releases it when its holder ends in any way. The file contains the holder's pid, for the error message of
// a refused process. A clean end removes the file; a left-over file has no effect.
//
// Errors:  FAILED_PRECONDITION held, with the holder's pid; NOT_FOUND / PERMISSION_DENIED the directory.
// Threads: any.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace varifocal::db {

class WriterLock {
 public:
  // Symbolic links are resolved first, so that two names of one database share a lock.
  static absl::StatusOr<WriterLock> Take(const std::string& database_path);
  WriterLock(WriterLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  ~WriterLock();

  absl::Status Check() const;  // DATA_LOSS when the lock file is no longer the one that is held

 private:
  WriterLock(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  int fd_;
  std::string path_;
};

}  // namespace varifocal::db
