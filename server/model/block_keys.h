// Readers of the keys that architectures have beside the common ones (config.h), one per row or family of rows: biases,
// multipliers, scales, caps, and what a type's published files state but transformers does not read.
//
// Each fills ModelConfig::blocks and the attention scale of layers; sizes, windows, rotations and experts must be read.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
// Source: the configurations and models of transformers 5.24.
#pragma once

#include "absl/status/status.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

absl::Status ReadLlama(ConfigReader& reader, ModelConfig& config);
absl::Status ReadNoBiases(ConfigReader& reader, ModelConfig& config);
absl::Status ReadQwen2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadQwen3(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGemma3(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGemma2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadOlmo2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadSeedOss(ConfigReader& reader, ModelConfig& config);
absl::Status ReadStarcoder2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadNemotron(ConfigReader& reader, ModelConfig& config);
absl::Status ReadStableLm(ConfigReader& reader, ModelConfig& config);
absl::Status ReadErnie45(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGlm4(ConfigReader& reader, ModelConfig& config);
absl::Status ReadCohere2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadQwen2Moe(ConfigReader& reader, ModelConfig& config);
absl::Status ReadQwen3Next(ConfigReader& reader, ModelConfig& config);
absl::Status ReadLfm2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGraniteHybrid(ConfigReader& reader, ModelConfig& config);
absl::Status ReadFalconH1(ConfigReader& reader, ModelConfig& config);
absl::Status ReadBamba(ConfigReader& reader, ModelConfig& config);
absl::Status ReadNemotronH(ConfigReader& reader, ModelConfig& config);
absl::Status ReadOlmoe(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGptOss(ConfigReader& reader, ModelConfig& config);
absl::Status ReadPhi(ConfigReader& reader, ModelConfig& config);
absl::Status ReadApertus(ConfigReader& reader, ModelConfig& config);
absl::Status ReadHunYuan(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGpt2(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGptNeox(ConfigReader& reader, ModelConfig& config);
absl::Status ReadPhi3(ConfigReader& reader, ModelConfig& config);
absl::Status ReadGranite(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal
