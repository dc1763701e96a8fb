// Converts an Inference request to engine input; checks every range, with a machine-readable reason.
//
// Errors: INVALID_ARGUMENT with EMPTY_PROMPT, BAD_TOKEN_ID, PROMPT_TOO_LONG, BAD_MAX_NEW_TOKENS,
//         BAD_SAMPLING_TEMPERATURE, BAD_TOP_K, BAD_TOP_P, BAD_MIN_P, BAD_STOP, BAD_THINKING, BAD_FOCAL_TEMPERATURE,
//         BAD_CONTINUATION, BAD_INSPECTION, BAD_CHAT;
//         FAILED_PRECONDITION with MODEL_WITHOUT_TOKENIZER, MODEL_WITHOUT_CHAT_FORMAT, NO_SYSTEM_MESSAGE.
#pragma once

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/hosting/model_host.h"
#include "varifocal/v1/inference.pb.h"

namespace varifocal {

absl::Status CheckHasTokenizer(const HostedModel& model);
absl::StatusOr<EngineRequest> ToEngineRequest(const v1::GenerateRequest& request, const HostedModel& model);
absl::StatusOr<EngineRequest> ToEngineRequest(const v1::ComputeLogLikelihoodsRequest& request,
                                              const HostedModel& model);

}  // namespace varifocal
