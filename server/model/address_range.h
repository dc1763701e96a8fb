// A range of addresses whose memory is committed and released in parts.
//
// Errors:  none are named here; callers know what the memory was for.
// Threads: one at a time. Hazard: access to a part that is not committed faults.
#pragma once

#include <cstddef>

#include "absl/strings/string_view.h"

namespace varifocal {

class AddressRange {
 public:
  // Reserves addresses without memory; empty (and errno set) when none are left.
  explicit AddressRange(size_t size);
  ~AddressRange();
  AddressRange(const AddressRange&) = delete;
  AddressRange& operator=(const AddressRange&) = delete;

  bool is_empty() const { return address_ == nullptr; }
  absl::string_view bytes() const { return absl::string_view(address_, size_); }
  bool Holds(absl::string_view part) const {
    return part.data() >= address_ && part.data() + part.size() <= address_ + size_;
  }
  // Writable memory for `part` of bytes(); null (and errno set) when there is none.
  char* Commit(absl::string_view part) const;
  // Releases the memory of the pages that lie inside `part` alone.
  void Release(absl::string_view part) const;

 private:
  char* address_ = nullptr;
  size_t size_ = 0;
};

}  // namespace varifocal
