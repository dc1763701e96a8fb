// Layers with a recurrent state on CPUs (recurrence.h).
//
// Rows pass the convolution in parallel. Then an item takes all rows of a sequence, in their order, through
// kDeltaColumns columns of the S of one head, which stay in the first-level cache. Each number is a chain of operations
// of its own, so its bits depend neither on threads nor on how rows are cut into steps.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// False when it was cancelled.
bool RunRecurrence(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const RecurArgs& args);

}  // namespace varifocal::kernels::cpu
