// A file of weights at fixed addresses: an address range is reserved for the whole file, and Load reads a part into it.
//
// Parts are read, not mapped: truncation during loading is DATA_LOSS, where a mapping would fault.
// Only loaded parts use memory.
//
// Errors:  those of InputFile; RESOURCE_EXHAUSTED when no address range is left.
// Threads: one at a time. Hazard: access to bytes that are not loaded faults.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/files.h"
#include "server/model/address_range.h"

namespace varifocal {

class WeightFile {
 public:
  static absl::StatusOr<std::unique_ptr<WeightFile>> Open(const std::string& path);

  const InputFile& input() const { return *input_; }
  const std::string& path() const { return input_->path(); }
  // The address range of the file's bytes.
  absl::string_view bytes() const { return range_.bytes(); }
  bool Holds(absl::string_view part) const { return range_.Holds(part); }
  // Reads `part` of bytes().
  absl::Status Load(absl::string_view part) const;
  // Releases the memory of the pages inside `part`.
  void Release(absl::string_view part) const { range_.Release(part); }

 private:
  explicit WeightFile(std::unique_ptr<InputFile> input) : input_(std::move(input)), range_(input_->size()) {}

  const std::unique_ptr<InputFile> input_;
  const AddressRange range_;
};

}  // namespace varifocal
