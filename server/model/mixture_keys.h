// The keys of a mixture of experts, and which layers have one.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
#pragma once

#include "absl/status/status.h"
#include "server/model/architectures.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Fills ModelConfig::mixture and LayerConfig::has_mixture of every layer; the sizes must be read.
absl::Status ReadMixture(ConfigReader& reader, const MixtureKeys& keys, ModelConfig& config);

}  // namespace varifocal
