// An empty file in the system's directory for temporary files, removed by the destructor.
#pragma once

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace varifocal::client {

class TemporaryFile {
 public:
  // RESOURCE_EXHAUSTED when it cannot be made.
  static absl::StatusOr<TemporaryFile> Make(const std::string& name);
  ~TemporaryFile();
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  TemporaryFile& operator=(TemporaryFile&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace varifocal::client
