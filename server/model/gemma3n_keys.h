// Keys of gemma3n: residual streams, a product of low rank beside attention, gates that are cut, MLP widths by layer, inputs of
// each layer, layers that read the keys and values of an earlier one.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
// Source: Gemma3nTextConfig and Gemma3nTextModel of transformers 5.24.
#pragma once

#include "absl/status/status.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Windows; widths, cuts and sources of keys by layer.
absl::Status ReadGemma3nLayers(ConfigReader& reader, ModelConfig& config);
// The others; the layers must be read.
absl::Status ReadGemma3n(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal
