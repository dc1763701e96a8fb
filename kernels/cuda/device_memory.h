// Device memory: RAII buffers, and staging memory for uploads.
//
// Uploads use rings of pinned pieces, so that a copy overlaps with the filling of the next piece and the caller can
// reuse its memory at once. Weights have a ring of their own, locked piece by piece: a step never waits until a model is
// read from disk. So have the threads that compute steps, up to kStepRings of them: a copy is queued behind its thread's
// kernels, and another thread's step does not wait for those. If pinned memory is not available, pageable memory is used.
//
// Errors:  the first sticky failure is remembered and returned by every later call.
// Threads: Device may be used from several threads; a DeviceMemory has one owner.
#pragma once

#include <atomic>
#include <functional>
#include <vector>

#include "base/mutex.h"
#include "kernels/backend.h"
#include "kernels/cuda/device_turns.h"
#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

class Device;

class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  ~DeviceMemory();

  size_t bytes() const { return bytes_; }
  template <typename T = unsigned char>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  friend class Device;
  Device* device_ = nullptr;
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Device {
 public:
  explicit Device(std::unique_ptr<Runtime> runtime) : runtime_(std::move(runtime)), turns_(*runtime_) {}
  ~Device();
  Error Open(int index);

  Runtime& runtime() { return *runtime_; }
  const KernelTable& kernels() { return runtime_->kernels(); }
  LaunchStream stream() { return runtime_->stream(); }
  const DeviceProperties& properties() const { return properties_; }
  bool pinned() const { return pinned_; }
  DeviceTurns& turns() { return turns_; }

  // kNone, or the error for `code` while `doing`; a sticky code is stored.
  Error Check(int code, const char* doing);
  // The stored sticky failure, if any.
  Error Fault();

  Result<DeviceMemory> Allocate(size_t bytes, const char* doing, bool zeroed);
  // Copies `bytes` of a weight, produced piece by piece: fill(stage, offset, count) writes bytes [offset, offset + count).
  // Pieces end at multiples of `unit`.
  Error UploadWeight(void* to, size_t bytes, size_t unit, const std::function<void(char*, size_t, size_t)>& fill);
  Error Upload(void* to, const void* from, size_t bytes);
  // Waits for everything queued before.
  Error Download(void* to, const void* from, size_t bytes);
  Error Synchronize();

 private:
  friend class DeviceMemory;
  // Pieces of staging memory in the order of their use.
  struct Ring {
    Mutex mutex;
    char* memory = nullptr;
    size_t piece_bytes = 0;
    int first_mark = 0;
    int next VF_GUARDED_BY(mutex) = 0;
  };
  using Fill = std::function<void(char*, size_t, size_t)>;
  Error UploadThrough(Ring& ring, void* to, size_t bytes, size_t unit, const Fill& fill);

  std::unique_ptr<Runtime> runtime_;
  DeviceTurns turns_;
  DeviceProperties properties_;
  char* staging_ = nullptr;
  std::vector<char> plain_staging_;
  bool pinned_ = false;
  Ring weights_, steps_[kStepRings];
  Mutex fault_mutex_;
  std::atomic<bool> faulted_{false};
  Error fault_ VF_GUARDED_BY(fault_mutex_);
};

class DeviceBuffer final : public Buffer {
 public:
  explicit DeviceBuffer(DeviceMemory memory) : memory_(std::move(memory)) {}
  size_t bytes() const override { return memory_.bytes(); }
  unsigned char* data() const { return memory_.as(); }

 private:
  DeviceMemory memory_;
};

// The first `count` elements of a slice; checks that they are inside the buffer.
template <typename T>
T* DeviceData(const Slice& slice, size_t count) {
  auto* buffer = static_cast<DeviceBuffer*>(slice.buffer);
  VF_CHECK(buffer != nullptr, "a required slice is null");
  VF_CHECK(slice.offset_bytes <= buffer->bytes() && count * sizeof(T) <= buffer->bytes() - slice.offset_bytes,
           "a slice ends outside its buffer");
  return reinterpret_cast<T*>(buffer->data() + slice.offset_bytes);
}
template <typename T>
T* OptionalDeviceData(const Slice& slice, size_t count) {
  return slice.buffer == nullptr ? nullptr : DeviceData<T>(slice, count);
}

}  // namespace varifocal::kernels::cuda
