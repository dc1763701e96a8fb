// Converts the CUDA runtime's error codes to kernel errors.
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

// Why there is no device to open, or nullopt: no driver, one older than the toolkit, no device, index out of range.
Error CheckDevice(Runtime& runtime, int device);

}  // namespace varifocal::kernels::cuda
