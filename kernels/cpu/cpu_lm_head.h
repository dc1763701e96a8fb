// The LM head on the rows that need it: logits slice by slice of the vocabulary, reduced where they are made.
//
// A work item makes the logits of a few rows over 1,024 tokens in its own scratch, and keeps only their statistics, the
// target's logit and, for rows to be sampled, a copy. Slices are merged in order in float64.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// False when cancelled.
bool RunLmHead(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const LmHeadArgs& args);

}  // namespace varifocal::kernels::cpu
