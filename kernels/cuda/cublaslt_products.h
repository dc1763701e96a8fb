// Products by cuBLASLt, loaded at run time and optional.
//
// One algorithm is chosen per weight and output format for a step of 4,096 rows and kept for every other number of
// rows. Algorithms that split K or do not support some number of rows are rejected: a row's bits must not depend on its
// neighbours.
#pragma once

#include <memory>

#include "kernels/cuda/runtime.h"

namespace varifocal::kernels::cuda {

// Null where libcublasLt cannot be loaded. VARIFOCAL_CUBLASLT names a file, or is "off".
std::unique_ptr<ProductLibrary> OpenCublasLt(LaunchStream stream);

}  // namespace varifocal::kernels::cuda
