// Post-processors: which special tokens stand before and behind an encoded text.
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
  bool trims_token_starts = false;  // the library's offsets leave out the spaces that a token begins with
};

// Null gives nothing before and behind.
absl::StatusOr<PostProcessor> MakePostProcessor(const Json& post_processor);

}  // namespace varifocal
