// Post-processors: the special tokens before and after an encoded text.
//
// Errors: INVALID_ARGUMENT for a type that is not in the table, or a template of which "A" is not exactly one part.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace varifocal {

struct PostProcessor {
  std::vector<int32_t> before, behind;
  // Each entry trims the spaces at a token's ends from its offsets; one that is set keeps a single space at the first
  // token's start, which the pre-tokenizer may have inserted.
  std::vector<bool> trims;
};

// Null adds no tokens.
absl::StatusOr<PostProcessor> MakePostProcessor(const Json& post_processor);

}  // namespace varifocal
