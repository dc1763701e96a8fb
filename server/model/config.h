// Reads config.json and generation_config.json.
//
// Parsing is strict: a key that is neither supported nor known to be harmless is an error that names it, because a
// silently ignored setting invalidates all results. The keys of each architecture are in the table in architectures.h;
// both generations of Hugging Face keys are supported (`rope_theta` + `rope_scaling`, and the newer
// `rope_parameters`).
//
// Errors: INVALID_ARGUMENT naming the key, its value and the limit; UNIMPLEMENTED naming what is not supported.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/model_config.h"

namespace varifocal {

// `json_text` is the content of config.json. Keys of `ignored_keys` ("key", or "object.key") are read as if they were not
// there: only keys that exist and would be refused as unknown or unsupported.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text, std::vector<std::string> ignored_keys = {});

// Of a list of "KEY" and "NAME:KEY": the keys for every model and for the one of that name.
std::vector<std::string> KeysOfModel(const std::vector<std::string>& keys, absl::string_view model);

// The eos ids of generation_config.json, if any. Other settings there are decoding defaults, which are never applied
// silently; only their syntax is checked.
absl::StatusOr<std::optional<std::vector<int32_t>>> ParseGenerationConfigEos(absl::string_view json_text,
                                                                             int64_t vocabulary_size);

}  // namespace varifocal
