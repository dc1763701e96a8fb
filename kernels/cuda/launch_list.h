// Where a launch goes: the calling thread's stream, or a list whose launches are queued later as one graph
// (step_graphs.h).
//
// Threads: a list serves one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace varifocal::kernels::cuda {

struct LaunchShape {
  int grid[3] = {1, 1, 1};
  int thread_count = 32;
  int shared_bytes = 0;  // dynamic

  bool empty() const { return grid[0] == 0 || grid[1] == 0 || grid[2] == 0; }
  bool operator==(const LaunchShape&) const = default;
};

// Calls a kernel of the emulator for one thread.
using EmulatedCall = void (*)(const void* kernel, const void* params);

struct KeptLaunch {
  const void* kernel = nullptr;
  LaunchShape shape;
  const void* params = nullptr;  // one struct
  size_t params_bytes = 0;
  EmulatedCall call = nullptr;  // null for the device's kernels

  bool operator==(const KeptLaunch& other) const {
    return kernel == other.kernel && shape == other.shape && params_bytes == other.params_bytes &&
           std::memcmp(params, other.params, params_bytes) == 0;
  }
};

// Launches in order, with their parameters by value.
class LaunchList {
 public:
  void Add(const KeptLaunch& launch) {
    launches_.push_back(launch);
    offsets_.push_back(params_.size());
    const auto* bytes = static_cast<const unsigned char*>(launch.params);
    params_.insert(params_.end(), bytes, bytes + launch.params_bytes);
    params_.resize((params_.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  // In place of one of the same kernel.
  void Replace(size_t index, const KeptLaunch& launch) {
    launches_[index].shape = launch.shape;
    std::memcpy(params_.data() + offsets_[index], launch.params, launch.params_bytes);
  }
  void Clear() {
    launches_.clear();
    offsets_.clear();
    params_.clear();
  }

  size_t size() const { return launches_.size(); }
  // Its parameters are valid until the list changes.
  KeptLaunch operator[](size_t index) const {
    KeptLaunch launch = launches_[index];
    launch.params = params_.data() + offsets_[index];
    return launch;
  }
  bool HasKernelsOf(const LaunchList& other) const {
    if (size() != other.size()) return false;
    for (size_t i = 0; i < size(); ++i) {
      if (launches_[i].kernel != other.launches_[i].kernel) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kAlignment = alignof(std::max_align_t);
  std::vector<KeptLaunch> launches_;  // without the address of their parameters
  std::vector<size_t> offsets_;
  std::vector<unsigned char> params_;
};

struct LaunchStream {
  void* queue = nullptr;       // a cudaStream_t; of the emulator the limits of the device
  LaunchList* list = nullptr;  // not null: launches are kept there instead
};

}  // namespace varifocal::kernels::cuda
