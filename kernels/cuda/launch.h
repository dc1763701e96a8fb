// Starts a kernel, or keeps its launch: VF_LAUNCH(kernel, grid x, y, z, threads, shared bytes, stream, params). Yields
// the runtime's code of this launch alone: an earlier failure is not reported again here.
#pragma once

#include "kernels/cuda/kernel_table.h"

#if defined(__CUDACC__)
#include "kernels/cuda/device_launch.h"

#define VF_TABLE_NAMESPACE device

namespace varifocal::kernels::cuda {
template <typename Kernel, typename Params>
int StartKernel(Kernel kernel, const LaunchShape& shape, LaunchStream stream, const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  return LaunchOnDevice({reinterpret_cast<const void*>(kernel), shape, &params, sizeof params}, stream);
}
}  // namespace varifocal::kernels::cuda

#else
#include "kernels/cuda/emulator/fibers.h"

#define VF_TABLE_NAMESPACE emulated

namespace varifocal::kernels::cuda {
template <typename Kernel, typename Params>
int StartKernel(Kernel kernel, const LaunchShape& shape, LaunchStream stream, const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  const KeptLaunch launch{reinterpret_cast<const void*>(kernel), shape, &params, sizeof params,
                          [](const void* of, const void* p) {
                            reinterpret_cast<Kernel>(const_cast<void*>(of))(*static_cast<const Params*>(p));
                          }};
  if (stream.list == nullptr) return emulator::Start(static_cast<const emulator::Limits*>(stream.queue), launch);
  if (!shape.empty()) stream.list->Add(launch);
  return 0;
}
}  // namespace varifocal::kernels::cuda

#endif

#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  StartKernel(kernel, LaunchShape{{(x), (y), (z)}, (threads), (shared)}, stream, params)
