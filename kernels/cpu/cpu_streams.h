// Residual streams and gates that are cut, on CPUs: a row is an item's work alone, so its bits depend neither on threads nor
// on other rows. False when cancelled.
#pragma once

#include "kernels/cpu/cpu_workspace.h"
#include "kernels/cpu/thread_pool.h"

namespace varifocal::kernels::cpu {

bool RunMatchStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                     const MatchStreamsArgs& args);
// But for the next norm.
bool RunPredictStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                       const PredictStreamsArgs& args);
bool RunCorrectStreams(const KernelTable& kernels, ThreadPool& pool, CpuWorkspace& workspace,
                       const CorrectStreamsArgs& args);
bool RunAddToStreams(ThreadPool& pool, CpuWorkspace& workspace, const AddToStreamsArgs& args);
bool RunCutGated(ThreadPool& pool, CpuWorkspace& workspace, const CutGatedArgs& args);

}  // namespace varifocal::kernels::cpu
