#include "server/model/address_range.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

#include "base/check.h"

namespace varifocal {
namespace {

uintptr_t PageBytes() { return sysconf(_SC_PAGESIZE); }
uintptr_t RoundedUp(uintptr_t address) { return (address + PageBytes() - 1) / PageBytes() * PageBytes(); }
uintptr_t RoundedDown(uintptr_t address) { return address / PageBytes() * PageBytes(); }

void* Reserve(void* place, size_t size) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  return mmap(place, size, PROT_NONE, place == nullptr ? kFlags : kFlags | MAP_FIXED, -1, 0);
}

}  // namespace

AddressRange::AddressRange(size_t size) {
  if (size == 0) return;
  void* address = Reserve(nullptr, size);
  if (address == MAP_FAILED) return;
  address_ = static_cast<char*>(address);
  size_ = size;
}

AddressRange::~AddressRange() {
  if (address_ != nullptr) munmap(address_, size_);
}

char* AddressRange::Commit(absl::string_view part) const {
  VF_CHECK(!part.empty() && Holds(part), "memory is committed inside of its range");
  char* to = address_ + (part.data() - address_);
  const uintptr_t begin = RoundedDown(reinterpret_cast<uintptr_t>(to));
  const uintptr_t end = RoundedUp(reinterpret_cast<uintptr_t>(to) + part.size());
  return mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_READ | PROT_WRITE) == 0 ? to : nullptr;
}

void AddressRange::Release(absl::string_view part) const {
  if (part.empty()) return;
  const uintptr_t range_end = reinterpret_cast<uintptr_t>(address_) + size_;
  const uintptr_t begin = RoundedUp(reinterpret_cast<uintptr_t>(part.data()));
  uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // Pages shared with an adjacent part are kept; the range's last page has none.
  end = end == range_end ? RoundedUp(end) : RoundedDown(end);
  // On failure the memory stays committed until the range ends.
  if (begin < end) (void)Reserve(reinterpret_cast<void*>(begin), end - begin);
}

}  // namespace varifocal
