// Operations of layers with inputs or norms of their own, in the reference's float64.
#pragma once

#include "kernels/host_memory.h"
#include "kernels/reference/reference_math.h"

namespace varifocal::kernels {

// But for the next norm.
void ReferenceNormResidual(const FlatBatch& flat, const StepShape& shape, const NormResidualArgs& args);
void ReferenceLayerInputs(const FlatBatch& flat, const LayerInputsArgs& args);

}  // namespace varifocal::kernels
