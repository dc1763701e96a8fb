// The LM head on selected rows: logits per slice of the vocabulary, reduced in place.
//
// A work item computes the logits of a few rows over 1,024 tokens in its own scratch, and keeps only their statistics,
// the target's logit and, for rows to be sampled, a copy. Slices are merged in order in float64.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/packed_weight.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// False when cancelled.
bool RunLmHead(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const LmHeadArgs& args);

}  // namespace varifocal::kernels::cpu
