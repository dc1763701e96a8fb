// Operations of layers with inputs or norms of their own, on CPUs: a row is an item's work alone, so its bits depend
// neither on threads nor on other rows.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

// But for the next norm; false when cancelled, as the next one.
bool RunNormResidual(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                     const NormResidualArgs& args);
bool RunLayerInputs(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace, const LayerInputsArgs& args);

}  // namespace varifocal::kernels::cpu
