// LaunchGraph on the CUDA runtime: kernel nodes in a chain. On a stream they are in order, and a graph of them is too.
//
// Errors:  the runtime's code of the call that failed.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

int MakeCudartGraph(const LaunchList& launches, std::unique_ptr<LaunchGraph>* graph);

}  // namespace varifocal::kernels::cuda
