// Reads config.json and generation_config.json.
//
// Reading is strict: a key that is neither honoured nor known to be harmless is an error that names it, because a
// setting that is silently ignored makes every later number wrong. Which keys mean what is decided per architecture, by
// the table in architectures.h; both generations of Hugging Face keys are read (`rope_theta` + `rope_scaling`, and the
// newer `rope_parameters`).
//
// Errors: INVALID_ARGUMENT naming the key, its value and the limit; UNIMPLEMENTED naming what is not supported.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/model/model_config.h"

namespace varifocal {

// `json_text` is the content of config.json.
absl::StatusOr<ModelConfig> ParseModelConfig(absl::string_view json_text);

// The eos ids of generation_config.json, when it names any; other generation settings there are decoding defaults that
// varifocal never applies silently, and are checked for being well formed only.
absl::StatusOr<std::optional<std::vector<int32_t>>> ParseGenerationConfigEos(absl::string_view json_text,
                                                                             int64_t vocabulary_size);

}  // namespace varifocal
