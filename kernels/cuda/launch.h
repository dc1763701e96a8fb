// Starts a kernel, or keeps its launch: VF_LAUNCH(kernel, grid x, y, z, threads, shared bytes, stream, params). Yields
// the runtime's code of this launch alone: an earlier failure is not reported again here.
#pragma once

#include <type_traits>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {
// Launches are compared by the bytes of their parameters. A compiler without the builtin replaces some needlessly.
template <typename Params>
Params WithoutPadding(const Params& params) {
  static_assert(std::is_trivially_copyable_v<Params>);
  Params copy = params;
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
  __builtin_clear_padding(&copy);
#endif
#endif
  return copy;
}
}  // namespace varifocal::kernels::cuda

#if defined(__CUDACC__)
#include "kernels/cuda/device_launch.h"

#define VF_TABLE_NAMESPACE device

namespace varifocal::kernels::cuda {
template <typename Kernel, typename Params>
int StartKernel(Kernel kernel, const LaunchShape& shape, LaunchStream stream, const Params& params) {
  const auto start = [&](const Params& with) {
    return LaunchOnDevice({reinterpret_cast<const void*>(kernel), shape, &with, sizeof with}, stream);
  };
  return stream.list == nullptr ? start(params) : start(WithoutPadding(params));
}
}  // namespace varifocal::kernels::cuda

#else
#include "kernels/cuda/emulator/fibers.h"

#define VF_TABLE_NAMESPACE emulated

namespace varifocal::kernels::cuda {
template <typename Kernel, typename Params>
int StartKernel(Kernel kernel, const LaunchShape& shape, LaunchStream stream, const Params& params) {
  const auto launch_with = [&](const Params& with) {
    return KeptLaunch{reinterpret_cast<const void*>(kernel), shape, &with, sizeof with,
                      [](const void* of, const void* p) {
                        reinterpret_cast<Kernel>(const_cast<void*>(of))(*static_cast<const Params*>(p));
                      }};
  };
  if (stream.list == nullptr) {
    return emulator::Start(static_cast<const emulator::Limits*>(stream.queue), launch_with(params));
  }
  const Params kept = WithoutPadding(params);
  if (!shape.empty()) stream.list->Add(launch_with(kept));
  return 0;
}
}  // namespace varifocal::kernels::cuda

#endif

#define VF_LAUNCH(kernel, x, y, z, threads, shared, stream, params) \
  StartKernel(kernel, LaunchShape{{(x), (y), (z)}, (threads), (shared)}, stream, params)
