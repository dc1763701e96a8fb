// Keys of gemma4: layers of two kinds that differ in more than their window, layers that read the keys and values of an
// earlier one, inputs of each layer, and experts beside an MLP.
//
// Errors: INVALID_ARGUMENT or UNIMPLEMENTED naming key, value and limit.
// Source: Gemma4TextConfig and Gemma4TextModel of transformers 5.24.
#pragma once

#include "absl/status/status.h"
#include "server/model/config_reader.h"
#include "server/model/model_config.h"

namespace varifocal {

// Also of gemma3n: the last layers read the keys and values of the last layer of their kind before them. `missing` is the
// default of the key; windows must be read.
absl::Status ReadKeySources(ConfigReader& reader, int64_t missing, ModelConfig& config);
// Windows; heads, widths and sources of keys by layer.
absl::Status ReadGemma4Layers(ConfigReader& reader, ModelConfig& config);
// The others; the layers must be read.
absl::Status ReadGemma4(ConfigReader& reader, ModelConfig& config);

}  // namespace varifocal
