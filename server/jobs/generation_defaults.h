// What generation_config.json says beside its end-of-text ids, for people: how other programs would sample.
//
// Nothing of it is ever applied here: a request that says nothing is greedy. `varifocal models` shows it, so that nobody
// compares sampled answers of another program with greedy ones unknowingly.
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
