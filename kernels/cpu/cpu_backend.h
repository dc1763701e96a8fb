// The CPU backend: packed weights, paged keys and values, one thread pool, kernels chosen by instruction set.
//
// Errors: kUnsupported for an instruction set the CPU lacks, a number format or a head dim without kernels.
#pragma once

#include "kernels/backend.h"

namespace varifocal::kernels {

Result<std::unique_ptr<Backend>> CreateCpuBackend(const BackendOptions& options);

}  // namespace varifocal::kernels
