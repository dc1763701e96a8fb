// Whether the files of an open database are still the ones at its path.
//
// SQLite goes on writing into a file that was deleted, moved away or replaced, and reports success: what it stores then
// is in no file that anybody can open. So the writer compares device and inode of the open files with the path.
//
// Errors:  DATA_LOSS naming the file and what happened to it.
// Threads: any; Check reads nothing that changes. Cost: two stat calls.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace varifocal::db {

// While one of these lives, IsHeld says that this process has the file open for writing. It must then not be opened and
// closed beside SQLite: closing any descriptor of a file drops all POSIX locks that the process has on it, SQLite's
// among them, and the next foreign connection that closes takes itself for the last one and deletes the write-ahead log.
class HeldFile {
 public:
  explicit HeldFile(const std::string& path);
  ~HeldFile();
  HeldFile(const HeldFile&) = delete;
  HeldFile& operator=(const HeldFile&) = delete;

  static bool IsHeld(dev_t device, ino_t inode);

 private:
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

class FileWatch {
 public:
  // Of a database that is open for writing: the file, and its write-ahead log when that exists.
  explicit FileWatch(const std::string& database_path);

  absl::Status Check() const;

 private:
  struct File {
    std::string path;
    dev_t device = 0;
    ino_t inode = 0;
  };
  std::vector<File> files_;
};

}  // namespace varifocal::db
