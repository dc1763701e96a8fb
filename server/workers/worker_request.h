// Requests and results of an engine as messages of Inference, for a worker.
//
// Doubles and ids pass unchanged, so a result is the one that the worker's engine gave.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "server/engine/request.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

v1::GenerateRequest ToGenerateProto(const std::string& model, const EngineRequest& request);  // of a GenerateWork
// Of ScoreContinuationsWork, ScoreTextWork, or what a GenerateWork scores beside it.
v1::ComputeLogLikelihoodsRequest ToScoreProto(const std::string& model, const EngineRequest& request);

// `has_bounds`: the model's temperatures are learned, so that shares at their bounds exist.
void FromProto(const v1::GenerationResult& proto, bool has_bounds, EngineResult* result);
void FromProto(const v1::ComputeLogLikelihoodsResponse& proto, const EngineRequest& request, EngineResult* result);

}  // namespace varifocal
