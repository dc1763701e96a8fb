// Starts a kernel: VF_LAUNCH(kernel, grid x, y, z, threads, shared bytes, stream, params). Yields the runtime's code.
#pragma once

#include "kernels/cuda/kernel_table.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#include <atomic>

#define VF_TABLE_NAMESPACE device

namespace varifocal::kernels::cuda {
// `Place` is unique to each launch, so that the attribute is set once per launch site.
template <typename Place, typename Kernel, typename Params>
int StartKernel(Place, Kernel kernel, int x, int y, int z, int threads, int shared_bytes, LaunchStream stream,
                const Params& params) {
  if (x == 0 || y == 0 || z == 0) return 0;
  // More than 48 KB, static included, must be requested: once per device, since the request costs as much as a launch.
  if (shared_bytes > (32 << 10)) {
    static std::atomic<uint64_t> asked{0};
    int device = 0;
    cudaGetDevice(&device);
    const uint64_t bit = uint64_t{1} << device % 64;
    if (device >= 64 || (asked.load(std::memory_order_relaxed) & bit) == 0) {
      const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                     cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
      if (error != cudaSuccess) return static_cast<int>(error);
      asked.fetch_or(bit, std::memory_order_relaxed);
    }
  }
  kernel<<<dim3(x, y, z), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(params);
  return static_cast<int>(cudaGetLastError());
}
}  // namespace varifocal::kernels::cuda

#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  StartKernel([] {}, kernel, x, y, z, threads, shared, stream, params)

#else

#define VF_TABLE_NAMESPACE emulated
#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  (static_cast<void>(stream), emulator::Run({{(x), (y), (z)}, (threads), (shared)}, [&] { kernel(params); }), 0)

#endif
