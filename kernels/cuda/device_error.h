// The CUDA runtime's error codes as the kernels' errors, in one sentence each.
#pragma once

#include "kernels/cuda/runtime.h"
#include "kernels/tensor.h"

namespace varifocal::kernels::cuda {

inline constexpr int kCudaOutOfMemory = 2;
inline constexpr int kCudaOldDriver = 35;
inline constexpr int kCudaNoDevice = 100;

// Whether every later call of this process fails too: a kernel read outside memory, hung, or the device was lost.
bool IsSticky(int code);

// `code` is not 0. `doing` completes "... failed while <doing>".
Error ToError(Runtime& runtime, int code, const std::string& doing);

// Why there is no device to open, or nothing: no driver, one older than the toolkit, no device, index out of range.
Error CheckDevice(Runtime& runtime, int device);

}  // namespace varifocal::kernels::cuda
