// Statistics of one row's attention weights. The device computes scores, one head at a time; masks and statistics are the
// host's: this is for a few rows.
//
// Threads: one step at a time; waits for the device.
#pragma once

#include "kernels/cuda/cuda_storage.h"
#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {

// `pool` is that of the attention that is inspected.
Error RunInspection(CudaStorage& storage, CudaWorkspace& own, const PoolView& pool, const InspectAttentionArgs& args);

}  // namespace varifocal::kernels::cuda
