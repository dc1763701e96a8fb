// A hosted model that is behind an endpoint.
//
// Its identity, in place of the weights' hash, is a digest of what the server states: address, model, version. So a job
// is not continued with another model or version of the server.
//
// Errors: those of ParseEndpointSpec's files, Tokenizer::Load and EndpointEngine::Create; INVALID_ARGUMENT (BAD_ENDPOINT) when
//         no context length is known, or no chat format for a chat API that is to count as it does; UNIMPLEMENTED in a static build.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "server/endpoint/endpoint_budget.h"
#include "server/endpoint/endpoint_spec.h"
#include "server/hosting/model_host.h"
#include "tokenizer/token_rules.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<HostedModel>> MakeEndpointModel(const EndpointSpec& spec, const Clock& clock,
                                                               TokenizerRules rules = TokenizerRules::kAgreed,
                                                               std::shared_ptr<EndpointBudget> budget = nullptr,
                                                               std::function<bool()> is_abandoned = {});

// One attempt, of at most a few seconds: whether the server answers and has the model.
absl::Status ProbeEndpoint(const EndpointSpec& spec, const Clock& clock);

}  // namespace varifocal
