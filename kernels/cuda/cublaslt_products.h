// Products by cuBLASLt, loaded at run time and optional.
//
// A weight and output format have the recorded algorithms (product_plans.h), whose bits are the same and of which the step's
// rows choose one, or the library's first suggestion for a step of 4,096 rows, for any number of rows. Algorithms that split K,
// take scratch memory or do not support some number of rows are rejected: a row's bits must not depend on its neighbours. Without
// an algorithm the backend's own kernel is used.
#pragma once

#include <memory>

#include "kernels/cuda/product_plans.h"

namespace varifocal::kernels::cuda {

// Null where libcublasLt cannot be loaded. VARIFOCAL_CUBLASLT names a file, or is "off".
std::unique_ptr<ProductLibrary> OpenCublasLt(LaunchStream stream, int capability,
                                             std::span<const RecordedPlan> recorded = kRecordedPlans);

}  // namespace varifocal::kernels::cuda
