// The oracle: every operation as plain loops in float64.
//
// No blocking, packing or reordering, so that each function follows its formula. Weights are rounded to the requested
// number format (the oracle of a bf16 backend is float64 over bf16 weights); keys and values stay float64.
//
// Threads: one; slow by design.
#pragma once

#include "kernels/backend.h"

namespace varifocal::kernels {

Result<std::unique_ptr<Backend>> CreateReferenceBackend(const BackendOptions& options);

}  // namespace varifocal::kernels
