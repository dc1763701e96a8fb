#include "kernels/cuda/device_launch.h"

#include <map>
#include <mutex>
#include <utility>

#include "kernels/cuda/cudart_error.h"

namespace varifocal::kernels::cuda {
namespace {

// More than 48 KB of shared memory, static included, must be requested for a kernel on a device: once, since the request
// costs as much as a launch.
int AllowShared(const void* kernel, size_t bytes) {
  if (bytes <= (32 << 10)) return 0;
  int device = 0;
  if (const int code = Cleared(cudaGetDevice(&device)); code != 0) return code;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, size_t> allowed;
  std::lock_guard<std::mutex> lock(mutex);
  size_t& most = allowed[{kernel, device}];
  if (bytes <= most) return 0;
  const int code = Cleared(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  if (code == 0) most = bytes;
  return code;
}

}  // namespace

int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream) {
  const LaunchShape& shape = launch.shape;
  if (shape.empty()) return 0;
  if (const int code = AllowShared(launch.kernel, shape.shared_bytes); code != 0) return code;
  if (stream.list != nullptr) {
    stream.list->Add(launch);
    return 0;
  }
  const auto [x, y, z] = shape.grid;
  cudaLaunchConfig_t config{};
  config.gridDim = {static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z)};
  config.blockDim = {static_cast<unsigned>(shape.thread_count), 1, 1};
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.queue);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  if (stream.overlaps) {
    config.attrs = &overlap;
    config.numAttrs = 1;
  }
  void* arguments[] = {const_cast<void*>(launch.params)};
  return Cleared(cudaLaunchKernelExC(&config, launch.kernel, arguments));
}

}  // namespace varifocal::kernels::cuda
