// A launch through the CUDA runtime, apart from the kernels, so that it can be tested without a device.
//
// Errors:  the runtime's code of this launch; 0 for a grid without blocks, which is not launched, and for a launch that
//          is kept.
// Threads: any; the current device is the caller's.
#pragma once

#include "kernels/cuda/kernel_table.h"

namespace varifocal::kernels::cuda {

int LaunchOnDevice(const KeptLaunch& launch, LaunchStream stream);

}  // namespace varifocal::kernels::cuda
