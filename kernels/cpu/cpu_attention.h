// Work items of attention: (KV head, block of queries) in prefill, (KV head, row, split of keys) in decode, the
// heaviest first; every output row is computed by one thread, decode splits are merged in key order.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// False when cancelled.
bool RunAttention(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const AttendArgs& args);

// False when cancelled. A KV head is a work item; scores are those of the decode kernels, also of a prefill's row.
bool RunInspection(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                   const InspectAttentionArgs& args);

}  // namespace varifocal::kernels::cpu
