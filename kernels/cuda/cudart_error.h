// The CUDA runtime's last-error slot: every failed call leaves its code in the thread's slot until it is read.
#pragma once

#include <cuda_runtime_api.h>

namespace varifocal::kernels::cuda {

// The code of a call, with the slot emptied, so that no later reader takes the failure for its own. A fault of the
// device is not cleared by this: every later call fails with it again.
inline int Cleared(cudaError_t error) {
  if (error != cudaSuccess) cudaGetLastError();
  return error;
}

}  // namespace varifocal::kernels::cuda
