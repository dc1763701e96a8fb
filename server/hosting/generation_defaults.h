// Sampling defaults in generation_config.json, for display only.
//
// They are never applied: a request without settings is greedy. `varifocal models` shows them, so that sampled answers
// of another program are not compared with greedy ones by mistake.
//
// Errors: INVALID_ARGUMENT with file, key and value: not JSON, a pad or bos id outside the vocabulary.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

// "do_sample=true top_k=64 top_p=0.95", keys in that fixed order; "" without the file or without such keys.
absl::StatusOr<std::string> ReadSamplingDefaults(const std::string& directory, int64_t vocabulary_size);

}  // namespace varifocal
