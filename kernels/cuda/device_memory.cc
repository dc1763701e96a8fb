#include "kernels/cuda/device_memory.h"

#include <algorithm>
#include <cstring>

#include "kernels/cuda/device_error.h"

namespace varifocal::kernels::cuda {
namespace {

// Large enough that a copy over PCIe takes much longer than its launch, small enough to be pinned.
constexpr size_t kPieceBytes = size_t{4} << 20;
constexpr int kRingPieces = kMarkCount / 2;

}  // namespace

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

DeviceMemory::~DeviceMemory() {
  if (data_ != nullptr) device_->runtime_->Free(data_);
}

Device::~Device() {
  if (pinned_) runtime_->FreePinned(staging_);
}

Error Device::Open(int index) {
  if (Error error = CheckDevice(*runtime_, index); !error.ok()) return error;
  if (Error error = Check(runtime_->Open(index, &properties_), "opening the device"); !error.ok()) return error;
  void* memory = nullptr;
  pinned_ = runtime_->AllocatePinned(&memory, kPieceBytes * kMarkCount) == 0;
  if (!pinned_) {
    plain_staging_.resize(kPieceBytes * kMarkCount);
    memory = plain_staging_.data();
  }
  staging_ = static_cast<char*>(memory);
  steps_.first_piece = kRingPieces;
  return {};
}

Error Device::Check(int code, const char* doing) {
  if (code == 0) return {};
  Error error = ToError(*runtime_, code, doing);
  if (IsSticky(code)) {
    std::lock_guard<std::mutex> lock(fault_mutex_);
    if (!faulted_) fault_ = error;
    faulted_ = true;
  }
  return error;
}

Error Device::Fault() {
  if (!faulted_) return {};
  std::lock_guard<std::mutex> lock(fault_mutex_);
  return fault_;
}

Result<DeviceMemory> Device::Allocate(size_t bytes, const char* doing, bool zeroed) {
  if (Error error = Fault(); !error.ok()) return error;
  DeviceMemory memory;
  // An empty buffer still has an address.
  const size_t granted = std::max<size_t>(bytes, 16);
  const std::string what = std::string(doing) + " of " + std::to_string(bytes) + " bytes";
  void* data = nullptr;
  if (Error error = Check(runtime_->Allocate(&data, granted), what.c_str()); !error.ok()) return error;
  memory.device_ = this;
  memory.data_ = data;
  memory.bytes_ = bytes;
  if (zeroed) {
    if (Error error = Check(runtime_->Fill(data, 0, granted), what.c_str()); !error.ok()) return error;
  }
  return memory;
}

Error Device::UploadThrough(Ring& ring, void* to, size_t bytes, size_t unit, const Fill& fill) {
  if (Error error = Fault(); !error.ok()) return error;
  VF_CHECK(unit <= kPieceBytes, "a unit fits a staging piece");
  const size_t most = kPieceBytes / unit * unit;
  for (size_t offset = 0; offset < bytes; offset += most) {
    const size_t count = std::min(most, bytes - offset);
    std::lock_guard<std::mutex> lock(ring.mutex);
    const int index = ring.first_piece + ring.next;
    char* piece = staging_ + index * kPieceBytes;
    if (Error error = Check(runtime_->WaitMark(index), "waiting for an upload"); !error.ok()) return error;
    fill(piece, offset, count);
    if (Error error = Check(runtime_->CopyToDevice(static_cast<char*>(to) + offset, piece, count), "uploading");
        !error.ok())
      return error;
    if (Error error = Check(runtime_->Mark(index), "uploading"); !error.ok()) return error;
    ring.next = (ring.next + 1) % kRingPieces;
  }
  return {};
}

Error Device::UploadWeight(void* to, size_t bytes, size_t unit, const Fill& fill) {
  return UploadThrough(weights_, to, bytes, unit, fill);
}

Error Device::Upload(void* to, const void* from, size_t bytes) {
  return UploadThrough(steps_, to, bytes, 1, [from](char* stage, size_t offset, size_t count) {
    std::memcpy(stage, static_cast<const char*>(from) + offset, count);
  });
}

Error Device::Download(void* to, const void* from, size_t bytes) {
  if (Error error = Fault(); !error.ok()) return error;
  if (Error error = Check(runtime_->CopyToHost(to, from, bytes), "reading from the device"); !error.ok()) return error;
  return Synchronize();
}

Error Device::Synchronize() { return Check(runtime_->Synchronize(), "waiting for the device"); }

}  // namespace varifocal::kernels::cuda
