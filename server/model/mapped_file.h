// A file seen as memory, read-only, without a copy.
//
// Errors:  NOT_FOUND, PERMISSION_DENIED or INVALID_ARGUMENT (not a regular file), with the path.
// Threads: immutable. Hazard: a file truncated by somebody else while mapped faults on access; weights are not edited
// in
//          place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

class MappedFile {
 public:
  static absl::StatusOr<std::unique_ptr<MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return absl::string_view(static_cast<const char*>(address_), size_); }
  const std::string& path() const { return path_; }
  int64_t modified_ns() const { return modified_ns_; }  // since 1970-01-01
  uint64_t inode() const { return inode_; }
  // Gives the resident pages inside `part` of the file back to the system; they come again from the file when touched.
  void Release(absl::string_view part) const;

 private:
  MappedFile() = default;
  std::string path_;
  void* address_ = nullptr;
  size_t size_ = 0;
  int64_t modified_ns_ = 0;
  uint64_t inode_ = 0;
};

// The whole file as a string; the same errors, and INVALID_ARGUMENT above `bytes_max`.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t bytes_max);
bool FileExists(const std::string& path);

}  // namespace varifocal
