// Checks that the files of an open database are still the ones at its path.
//
// SQLite keeps writing into a file that was deleted, moved or replaced, and reports success, although the data can no
// longer be opened. So the writer compares device and inode of the open files with those at the path.
//
// Errors:  DATA_LOSS naming the file and what happened to it.
// Threads: any; Check reads nothing that changes. Cost: two stat calls.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace varifocal::db {

// While an instance exists, IsHeld returns true: this process has the file open for writing. It must then not be opened
// and closed outside SQLite: closing any descriptor of a file drops all POSIX locks of the process on it, including
// SQLite's, and the next connection of another process that closes believes to be the last and deletes the write-ahead
// log.
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
