// Attention by groups with gathered keys (attention_gathered.h), of a prefill step.
#pragma once

#include "kernels/cuda/cuda_workspace.h"

namespace varifocal::kernels::cuda {

// Rows before GroupTest::gather_from have every pair tested, the others read lists of keys. `p` is complete but for its GatherView.
Error RunAttentionByGroups(Device& device, CudaWorkspace& own, const GroupTest& groups, const AttentionWork& work,
                           AttendParams& p);

}  // namespace varifocal::kernels::cuda
