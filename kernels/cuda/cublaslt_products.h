// Products by cuBLASLt, loaded at run time and optional.
//
// One algorithm serves a weight and output format for any number of rows: the recorded one (product_plans.h), or the
// library's first suggestion for a step of 4,096 rows. Algorithms that split K, take scratch memory or do not support
// some number of rows are rejected: a row's bits must not depend on its neighbours. Without an algorithm the backend's own
// kernel is used.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

// Null where libcublasLt cannot be loaded. VARIFOCAL_CUBLASLT names a file, or is "off".
std::unique_ptr<ProductLibrary> OpenCublasLt(LaunchStream stream, int capability);

}  // namespace varifocal::kernels::cuda
