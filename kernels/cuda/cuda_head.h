// The LM head on the device: the norm of the asked-for rows, their logits a few slices of the vocabulary at a time, the
// statistics of each row, and draws.
//
// Threads: one step at a time; waits for the device.
#pragma once

#include "kernels/cuda/cuda_products.h"

namespace varifocal::kernels::cuda {

// kInvalidArgument for more rows or draws than the workspace was planned for.
Error RunHead(Device& device, CudaProducts& products, CudaWorkspace& own, const LmHeadArgs& args);

}  // namespace varifocal::kernels::cuda
