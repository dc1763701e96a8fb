// A model under the run-time overrides of one request: `NAME@t=0.7`, `NAME@yarn=4@t=0.7`.
//
// The table of overrides is in attention/variants.h. A request under overrides has the bits of a checkpoint whose config.json
// states the same, on one copy of the weights.
//
// Errors: INVALID_ARGUMENT with the row's reason and field.
// Threads: any.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "server/model/model_config.h"

namespace varifocal {

struct RunTimeSetting {
  AttentionSetting attention;
  std::vector<RopeConfig> ropes;  // parallel to ModelConfig::ropes
  int64_t max_position = 0;       // prompt and generated tokens together never exceed it
};

absl::StatusOr<RunTimeSetting> WithOverrides(const ModelConfig& config, const AttentionOverrides& overrides);

}  // namespace varifocal
