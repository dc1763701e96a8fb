// The keys of layers with a recurrent state.
//
// Errors: INVALID_ARGUMENT naming key, value and limit.
#pragma once

#include "absl/status/status.h"
#include "server/model/architectures.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Fills ModelConfig::recurrence; the sizes, and which layers are recurrent, must be read.
absl::Status ReadRecurrence(ConfigReader& reader, const RecurrenceKeys& keys, ModelConfig& config);

}  // namespace varifocal
