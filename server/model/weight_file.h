// A file of weights at fixed addresses: the whole file has a range of memory, and a part has its bytes after Load.
//
// Parts are read, not mapped: a file that becomes shorter while it is loaded is DATA_LOSS, where a mapping would fault.
// Memory is taken by loaded parts only.
//
// Errors:  those of InputFile; RESOURCE_EXHAUSTED when no address range is left.
// Threads: one at a time. Hazard: bytes that are not loaded fault on access.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/files.h"

namespace varifocal {

class WeightFile {
 public:
  static absl::StatusOr<std::unique_ptr<WeightFile>> Open(const std::string& path);
  ~WeightFile();
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  const InputFile& input() const { return *input_; }
  const std::string& path() const { return input_->path(); }
  // Where the file's bytes are once they are loaded.
  absl::string_view bytes() const { return absl::string_view(address_, size_); }
  bool Holds(absl::string_view part) const {
    return part.data() >= address_ && part.data() + part.size() <= address_ + size_;
  }
  // Reads `part` of bytes().
  absl::Status Load(absl::string_view part) const;
  // Gives the memory of the pages inside `part` back.
  void Release(absl::string_view part) const;

 private:
  explicit WeightFile(std::unique_ptr<InputFile> input) : input_(std::move(input)) {}

  const std::unique_ptr<InputFile> input_;
  char* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace varifocal
