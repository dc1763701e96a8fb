#include "kernels/cuda/device_launch.h"

#include "kernels/cuda/cudart_error.h"

namespace varifocal::kernels::cuda {

int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream, std::atomic<uint64_t>* allowed_devices) {
  const LaunchShape& shape = launch.shape;
  if (shape.empty()) return 0;
  // More than 48 KB, static included, must be requested: once per device, since the request costs as much as a launch.
  if (shape.shared_bytes > (32 << 10)) {
    int device = 0;
    if (const int code = Cleared(cudaGetDevice(&device)); code != 0) return code;
    const uint64_t bit = uint64_t{1} << device % 64;
    if (device >= 64 || (allowed_devices->load(std::memory_order_relaxed) & bit) == 0) {
      const int code =
          Cleared(cudaFuncSetAttribute(launch.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shape.shared_bytes));
      if (code != 0) return code;
      allowed_devices->fetch_or(bit, std::memory_order_relaxed);
    }
  }
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
  void* arguments[] = {const_cast<void*>(launch.params)};
  return Cleared(cudaLaunchKernelExC(&config, launch.kernel, arguments));
}

}  // namespace varifocal::kernels::cuda
