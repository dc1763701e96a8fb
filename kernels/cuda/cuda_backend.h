// The backend for NVIDIA GPUs from compute capability 8.0: bf16 weights and pages, f32 sums.
//
// Operations are queued on the calling thread's stream in call order, or those of a decode step as one graph. Products
// use the library's algorithm selected per weight (prefill) or own kernels (decode, odd shapes, no library). The host
// code is ordinary C++: the device is accessed through Runtime, which tests replace.
//
// Errors:  see device_error.h; f32 is refused.
// Threads: as in Backend.
#pragma once

#include <memory>

#include "kernels/backend.h"
#include "kernels/cuda/runtime.h"

namespace varifocal::kernels {

namespace cuda {
// `index` of the device; opens the runtime.
Result<std::unique_ptr<Backend>> CreateBackendOn(std::unique_ptr<Runtime> runtime, int index,
                                                 const BackendOptions& options);
// On the CUDA runtime; defined in cudart_runtime.cc.
std::unique_ptr<Runtime> MakeDeviceRuntime();
}  // namespace cuda

// options.device is "cuda" or "cuda:N". These are defined in cuda_device.cc.
Result<std::unique_ptr<Backend>> CreateCudaBackend(const BackendOptions& options);
// Why device cuda:0 cannot be used, or nullopt.
Error CudaDeviceMissing();

}  // namespace varifocal::kernels
