// Turns a request into a sequence the scheduler can trust, or says in one sentence why not.
//
// Errors: as Engine::Start, each with a reason (EngineErrorReason).
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/engine/sequence.h"
#include "server/model/model.h"

namespace varifocal {

struct RequestLimits {
  int64_t page_count = 0;  // of the whole pool
  int64_t page_bytes = 0;
  int64_t step_rows_max = 0;  // a prompt that must run in one step and is longer needs memory of its own
  bool prefix_cache = true;
};

absl::StatusOr<std::unique_ptr<Sequence>> CheckRequest(const LoadedModel& model, const RequestLimits& limits,
                                                       EngineRequest request);

// Prompt and new (or scored) tokens against the model's limit, both counts in the message.
absl::Status CheckLength(const ModelConfig& config, int64_t prompt_token_count, int64_t new_token_count);
// Bytes a request holds at its peak.
int64_t BytesNeeded(const LoadedModel& model, const RequestLimits& limits, const AttentionSetting& attention,
                    int64_t prompt_token_count, int64_t new_token_count);

absl::Status WithReason(absl::Status status, absl::string_view reason);

}  // namespace varifocal
