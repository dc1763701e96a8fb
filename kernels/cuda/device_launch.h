// A launch through the CUDA runtime, apart from the kernels, so that it can be tested without a device.
//
// Errors:  the runtime's code of this launch; 0 for a grid without blocks, which is not launched, and for a launch that
//          is kept.
// Threads: any; the current device is the caller's.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

// Bit d of `allowed_devices`: the shared memory was requested on device d.
int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream, std::atomic<uint64_t>* allowed_devices);

}  // namespace varifocal::kernels::cuda
