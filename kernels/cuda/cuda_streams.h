// Residual streams, and gates that are cut, on the device (stream_kernels.cu).
//
// Shapes, threads: kernels/residual_streams.h.
// Errors:  of a launch.
#pragma once

#include "kernels/cuda/cuda_workspace.h"
#include "kernels/residual_streams.h"

namespace varifocal::kernels::cuda {

Error RunMatchStreams(Device& device, CudaWorkspace& workspace, const MatchStreamsArgs& args);
Error RunPredictStreams(Device& device, CudaWorkspace& workspace, const PredictStreamsArgs& args);  // without next_norm
Error RunCorrectStreams(Device& device, CudaWorkspace& workspace, const CorrectStreamsArgs& args);
Error RunAddToStreams(Device& device, CudaWorkspace& workspace, const AddToStreamsArgs& args);
Error RunCutGated(Device& device, CudaWorkspace& workspace, const CutGatedArgs& args);

}  // namespace varifocal::kernels::cuda
