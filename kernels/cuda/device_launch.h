// A launch through the CUDA runtime, apart from the kernels, so that it can be tested without a device.
//
// Errors:  the runtime's code of this launch; 0 for a grid without blocks, which is not launched.
// Threads: any; the current device is the caller's.
#pragma once

#include <atomic>
#include <cstdint>

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

struct LaunchShape {
  int grid[3] = {1, 1, 1};
  int thread_count = 32;
  int shared_bytes = 0;  // dynamic
};

// `kernel` takes one struct by value, `params`. Bit d of `allowed_devices`: the shared memory was requested on device d.
int LaunchOnDevice(const void* kernel, const LaunchShape& shape, LaunchStream stream, const void* params,
                   std::atomic<uint64_t>* allowed_devices);

}  // namespace varifocal::kernels::cuda
