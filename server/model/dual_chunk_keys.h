// The keys of dual chunk attention.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
#pragma once

#include "absl/status/status.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Limits ModelConfig::max_position to where it is the plain function.
absl::Status ReadDualChunk(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal
