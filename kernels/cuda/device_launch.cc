#include "kernels/cuda/device_launch.h"

#include <map>
#include <utility>

#include "base/mutex.h"
#include "kernels/cuda/cudart_error.h"

namespace varifocal::kernels::cuda {
namespace {

// More dynamic shared memory than this is requested; with at most 16 KB of static memory that covers all above 48 KB.
constexpr size_t kSharedWithoutRequest = 32 << 10;

// What was found out about a kernel on a device, or requested for it: once, since a request costs as much as a launch.
struct KernelState {
  bool is_known = false, overlaps = false;
  size_t shared_bytes = 0;
};

int Prepare(const void* kernel, size_t shared_bytes, bool* overlaps) {
  int device = 0;
  if (const int code = Cleared(cudaGetDevice(&device)); code != 0) return code;
  static Mutex mutex;
  static std::map<std::pair<const void*, int>, KernelState> states VF_GUARDED_BY(mutex);
  MutexLock lock(mutex);
  KernelState& state = states[{kernel, device}];
  if (!state.is_known) {
    cudaFuncAttributes attributes;
    if (const int code = Cleared(cudaFuncGetAttributes(&attributes, kernel)); code != 0) return code;
    state.overlaps = attributes.ptxVersion >= 90;
    state.is_known = true;
  }
  if (shared_bytes > kSharedWithoutRequest && shared_bytes > state.shared_bytes) {
    const int code = Cleared(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    if (code != 0) return code;
    state.shared_bytes = shared_bytes;
  }
  *overlaps = state.overlaps;
  return 0;
}

}  // namespace

int MayOverlap(const void* kernel, bool* overlaps) { return Prepare(kernel, 0, overlaps); }

int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream) {
  const LaunchShape& shape = launch.shape;
  if (shape.empty()) return 0;
  bool overlaps = false;
  if (const int code = Prepare(launch.kernel, shape.shared_bytes, &overlaps); code != 0) return code;
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
  if (overlaps) {
    config.attrs = &overlap;
    config.numAttrs = 1;
  }
  void* arguments[] = {const_cast<void*>(launch.params)};
  return Cleared(cudaLaunchKernelExC(&config, launch.kernel, arguments));
}

}  // namespace varifocal::kernels::cuda
