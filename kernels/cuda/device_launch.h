// A launch through the CUDA runtime, apart from the kernels, so that it can be tested without a device.
//
// Errors:  the runtime's code of this launch; 0 for a grid without blocks, which is not launched, and for a launch that
//          is kept.
// Threads: any; the current device is the caller's.
#pragma once

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream);

// Whether the kernel may start before the previous one is complete: its code waits for it where it was compiled for
// compute capability 9 or later (simt.h), whatever the device.
int MayOverlap(const void* kernel, bool* overlaps);

}  // namespace varifocal::kernels::cuda
