// Residual streams and gates that are cut, in the reference's float64.
#pragma once

#include "kernels/host_memory.h"
#include "kernels/reference/reference_math.h"

namespace varifocal::kernels {

void ReferenceMatchStreams(const FlatBatch& flat, const StepShape& shape, const MatchStreamsArgs& args);
// But for the next norm.
void ReferencePredictStreams(const FlatBatch& flat, const StepShape& shape, const PredictStreamsArgs& args);
void ReferenceCorrectStreams(const FlatBatch& flat, const StepShape& shape, const CorrectStreamsArgs& args);
void ReferenceAddToStreams(const FlatBatch& flat, const StepShape& shape, const AddToStreamsArgs& args);
void ReferenceCutGated(const FlatBatch& flat, const CutGatedArgs& args);

}  // namespace varifocal::kernels
