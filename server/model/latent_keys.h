// The keys of latent attention, and those of the types that have it or its way of choosing experts.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
// Source: DeepSeek-AI 2024, arXiv:2405.04434, section 2.1; the configurations and models of transformers 5.24.
#pragma once

#include "absl/status/status.h"
#include "server/model/architectures.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Fills ModelConfig::latent; the heads must be read.
absl::Status ReadLatent(ConfigReader& reader, const LatentKeys& keys, ModelConfig& config);

// As the readers of block_keys.h.
absl::Status ReadDeepseekV2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadDeepseekV3(ConfigReader& reader, ModelConfig& config);
absl::Status ReadMiniCpm3(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal
