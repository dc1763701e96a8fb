// Starts a kernel: VF_LAUNCH(kernel, grid x, y, z, threads, shared bytes, stream, params). Yields the runtime's code.
#pragma once

#include "kernels/cuda/kernel_table.h"

#if defined(__CUDACC__)
#include <cuda_runtime.h>

#define VF_TABLE_NAMESPACE device

namespace varifocal::kernels::cuda {
template <typename Kernel, typename Params>
int StartKernel(Kernel kernel, int x, int y, int z, int threads, int shared_bytes, LaunchStream stream,
                const Params& params) {
  if (x == 0 || y == 0 || z == 0) return 0;
  // More than 48 KB, static included, must be asked for.
  if (shared_bytes > (32 << 10)) {
    const cudaError_t error = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                   cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes);
    if (error != cudaSuccess) return static_cast<int>(error);
  }
  kernel<<<dim3(x, y, z), threads, shared_bytes, static_cast<cudaStream_t>(stream)>>>(params);
  return static_cast<int>(cudaGetLastError());
}
}  // namespace varifocal::kernels::cuda

#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  StartKernel(kernel, x, y, z, threads, shared, stream, params)

#else

#define VF_TABLE_NAMESPACE emulated
#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  (static_cast<void>(stream), emulator::Run({{(x), (y), (z)}, (threads), (shared)}, [&] { kernel(params); }), 0)

#endif
