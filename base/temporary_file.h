// A file that is made under a temporary name and removed unless it is renamed, also when the process is killed: the next one of the
// same name removes what no process holds.
//
// The holder has a lock (flock) on the file, which distinguishes what a killed process left from what another one is writing, in any
// namespace of processes.
//
// Threads: one.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

class TemporaryFile {
 public:
  // Makes PREFIX + the process's number, with more digits where that name is held, empty and with mode 0600, after it has removed
  // files that others of the prefix have left, with what SQLite puts beside them.
  static absl::StatusOr<TemporaryFile> Make(const std::string& prefix);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  TemporaryFile(std::string path, int fd);

  std::string path_;  // empty: moved from
  int fd_;
};

}  // namespace varifocal
