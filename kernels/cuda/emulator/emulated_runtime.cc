#include "kernels/cuda/emulator/emulated_runtime.h"

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "base/check.h"
#include "kernels/cuda/emulator/hopper.h"

namespace varifocal::kernels::cuda {

namespace emulated {
const KernelTable& Table();  // kernel_table.cu, compiled for the host
}

int EmulatedMachine::Answer(const std::string& call) {
  if (before != nullptr) before(call);
  MutexLock lock(mutex);
  ++calls[call];
  const auto it = failures.find(call);
  if (it == failures.end()) return 0;
  if (it->second.after > 0) {
    --it->second.after;
    return 0;
  }
  if (it->second.times <= 0) return 0;
  --it->second.times;
  return it->second.code;
}

bool EmulatedMachine::CountPrefetch(const void* from, size_t bytes) {
  MutexLock lock(mutex);
  const auto* at = static_cast<const unsigned char*>(from);
  auto next = allocations.upper_bound(at);
  if (next == allocations.begin() || at + bytes > (--next)->first + next->second) return false;
  prefetches.push_back({emulator::LaunchCount(), at, bytes});
  return true;
}

namespace {

class EmulatedGraph final : public LaunchGraph {
 public:
  EmulatedGraph(std::shared_ptr<EmulatedMachine> machine, const LaunchList& launches)
      : machine_(std::move(machine)), launches_(launches) {}
  int Replace(size_t index, const KeptLaunch& launch) override {
    launches_.Replace(index, launch);
    return machine_->Answer("ReplaceLaunch");
  }
  int Queue(LaunchStream) override {
    if (const int code = machine_->Answer("QueueGraph"); code != 0) return code;
    for (size_t i = 0; i < launches_.size(); ++i) {
      if (const int code = emulator::Start(&machine_->limits, launches_[i]); code != 0) return code;
    }
    return 0;
  }

 private:
  std::shared_ptr<EmulatedMachine> machine_;
  LaunchList launches_;
};

class EmulatedRuntime final : public Runtime {
 public:
  explicit EmulatedRuntime(std::shared_ptr<EmulatedMachine> machine) : machine_(std::move(machine)) {
    EmulatedMachine* device = machine_.get();
    machine_->limits.prefetch = [device](const void* from, size_t bytes) { return device->CountPrefetch(from, bytes); };
  }
  ~EmulatedRuntime() override { VF_CHECK(sizes_.empty(), "device memory outlived its runtime"); }

  int DeviceCount(int* count) override {
    if (machine_->device_count_code == 0) *count = machine_->device_count;
    return machine_->device_count_code;
  }
  int Open(int, DeviceProperties* properties) override {
    properties->name = machine_->name;
    properties->major = machine_->capability / 10;
    properties->minor = machine_->capability % 10;
    properties->multiprocessor_count = machine_->multiprocessor_count;
    properties->l2_bytes = machine_->l2_bytes;
    properties->shared_bytes_max = machine_->limits.shared_bytes_max;
    properties->flops_per_second = machine_->flops_per_second;
    return machine_->Answer("Open");
  }
  int Memory(size_t* free_bytes, size_t* total_bytes) override {
    {
      MutexLock lock(machine_->mutex);
      *total_bytes = machine_->total_bytes;
      *free_bytes = machine_->total_bytes - machine_->used_bytes;
    }
    return machine_->Answer("Memory");
  }
  int Allocate(void** memory, size_t bytes) override {
    if (const int code = machine_->Answer("Allocate"); code != 0) return code;
    MutexLock lock(machine_->mutex);
    if (machine_->used_bytes + bytes > machine_->total_bytes) return 2;
    // Device memory is aligned to 256 bytes and uninitialised: filled with NaNs here.
    const size_t granted = (bytes + 255) / 256 * 256;
    *memory = std::aligned_alloc(256, granted);
    std::memset(*memory, 0xFF, granted);
    sizes_[*memory] = bytes;
    machine_->allocations[static_cast<unsigned char*>(*memory)] = bytes;
    machine_->used_bytes += bytes;
    return 0;
  }
  void Free(void* memory) override {
    MutexLock lock(machine_->mutex);
    machine_->used_bytes -= sizes_.at(memory);
    sizes_.erase(memory);
    machine_->allocations.erase(static_cast<unsigned char*>(memory));
    std::free(memory);
  }
  int AllocatePinned(void** memory, size_t bytes) override {
    if (!machine_->pinned) return 2;
    *memory = std::malloc(bytes);
    return 0;
  }
  void FreePinned(void* memory) override { std::free(memory); }
  int CopyToDevice(void* to, const void* from, size_t bytes) override {
    if (const int code = machine_->Answer("CopyToDevice"); code != 0) return code;
    std::memcpy(to, from, bytes);
    return 0;
  }
  int CopyToHost(void* to, const void* from, size_t bytes) override {
    if (const int code = machine_->Answer("CopyToHost"); code != 0) return code;
    std::memcpy(to, from, bytes);
    return 0;
  }
  int CopyOnDevice(void* to, const void* from, size_t stride_bytes, size_t bytes, int count) override {
    if (const int code = machine_->Answer("CopyOnDevice"); code != 0) return code;
    for (int i = 0; i < count; ++i) {
      std::memcpy(static_cast<char*>(to) + i * stride_bytes, static_cast<const char*>(from) + i * stride_bytes, bytes);
    }
    return 0;
  }
  int Fill(void* memory, int byte, size_t bytes) override {
    std::memset(memory, byte, bytes);
    return machine_->Answer("Fill");
  }
  int Mark(int) override { return machine_->Answer("Mark"); }
  int WaitMark(int) override { return machine_->Answer("WaitMark"); }
  int FollowMark(int) override { return machine_->Answer("FollowMark"); }
  int UseStream(int index) override { return machine_->Answer(index == kOwnStream ? "UseOwnStream" : "UseStream"); }
  int Synchronize() override { return machine_->Answer("Synchronize"); }
  int Stamp(int which) override {
    stamps_[which] = std::chrono::steady_clock::now();
    return 0;
  }
  int SecondsBetweenStamps(double* seconds) override {
    *seconds = std::chrono::duration<double>(stamps_[1] - stamps_[0]).count();
    return 0;
  }
  std::string ErrorText(int code) override { return "emulated error " + std::to_string(code); }
  LaunchStream stream() override { return {.queue = &machine_->limits}; }
  int Launch(const KeptLaunch& launch) override { return emulator::Start(&machine_->limits, launch); }
  int MakeGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph) override {
    if (const int code = machine_->Answer("MakeGraph"); code != 0) return code;
    *graph = std::make_unique<EmulatedGraph>(machine_, launches);
    return 0;
  }
  int EncodeTensorMap(const TensorMapSpec& spec, TensorMap* map) override {
    if (const int code = machine_->Answer("EncodeTensorMap"); code != 0) return code;
    return emulator::EncodeTensorMap(spec, map) ? 0 : 1;
  }
  const KernelTable& kernels() override { return emulated::Table(); }
  ProductLibrary* products() override { return machine_->products; }

 private:
  std::shared_ptr<EmulatedMachine> machine_;
  std::map<void*, size_t> sizes_;
  std::chrono::steady_clock::time_point stamps_[2];
};

}  // namespace

std::unique_ptr<Runtime> MakeEmulatedRuntime(std::shared_ptr<EmulatedMachine> machine) {
  return std::make_unique<EmulatedRuntime>(std::move(machine));
}

}  // namespace varifocal::kernels::cuda
