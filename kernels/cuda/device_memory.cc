#include "kernels/cuda/device_memory.h"

#include <algorithm>
#include <cstring>

#include "base/mutex.h"
#include "kernels/cuda/device_error.h"

namespace varifocal::kernels::cuda {
namespace {

// Large enough that a copy over PCIe takes much longer than its launch, small enough to be pinned.
constexpr size_t kWeightPieceBytes = size_t{4} << 20;
// More than a decode step uploads; that of a long prompt takes several.
constexpr size_t kStepPieceBytes = size_t{256} << 10;
constexpr size_t kStagingBytes = kRingPieces * (kWeightPieceBytes + kStepRings * kStepPieceBytes);

// Threads in the order of their first upload.
int ThreadIndex() {
  static std::atomic<int> count{0};
  thread_local const int index = count++;
  return index;
}

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
  pinned_ = runtime_->AllocatePinned(&memory, kStagingBytes) == 0;
  if (!pinned_) {
    plain_staging_.resize(kStagingBytes);
    memory = plain_staging_.data();
  }
  staging_ = static_cast<char*>(memory);
  weights_.memory = staging_;
  weights_.piece_bytes = kWeightPieceBytes;
  for (int i = 0; i < kStepRings; ++i) {
    steps_[i].memory = staging_ + kRingPieces * (kWeightPieceBytes + i * kStepPieceBytes);
    steps_[i].piece_bytes = kStepPieceBytes;
    steps_[i].first_mark = kRingPieces * (1 + i);
  }
  return {};
}

Error Device::Check(int code, const char* doing) {
  if (code == 0) return {};
  Error error = ToError(*runtime_, code, doing);
  if (IsSticky(code)) {
    MutexLock lock(fault_mutex_);
    if (!faulted_) fault_ = error;
    faulted_ = true;
  }
  return error;
}

Error Device::Fault() {
  if (!faulted_) return {};
  MutexLock lock(fault_mutex_);
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
  VF_CHECK(unit <= ring.piece_bytes, "a unit fits a staging piece");
  const size_t most = ring.piece_bytes / unit * unit;
  for (size_t offset = 0; offset < bytes; offset += most) {
    const size_t count = std::min(most, bytes - offset);
    MutexLock lock(ring.mutex);
    const int mark = ring.first_mark + ring.next;
    char* piece = ring.memory + ring.next * ring.piece_bytes;
    if (Error error = Check(runtime_->WaitMark(mark), "waiting for an upload"); !error.ok()) return error;
    fill(piece, offset, count);
    if (Error error = Check(runtime_->CopyToDevice(static_cast<char*>(to) + offset, piece, count), "uploading");
        !error.ok())
      return error;
    if (Error error = Check(runtime_->Mark(mark), "uploading"); !error.ok()) return error;
    ring.next = (ring.next + 1) % kRingPieces;
  }
  return {};
}

Error Device::UploadWeight(void* to, size_t bytes, size_t unit, const Fill& fill) {
  return UploadThrough(weights_, to, bytes, unit, fill);
}

Error Device::Upload(void* to, const void* from, size_t bytes) {
  return UploadThrough(steps_[ThreadIndex() % kStepRings], to, bytes, 1,
                       [from](char* stage, size_t offset, size_t count) {
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
