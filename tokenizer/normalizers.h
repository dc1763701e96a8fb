// The normalizers of a tokenizer.json: the table of types, and all steps of a file one after the other.
//
// Errors:  INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not supported.
// Source:  Unicode normalization is utf8proc's, but for characters too new for the `tokenizers` library
//          (unicode_classes.h).
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/normalizer.h"

namespace varifocal {

// In the order they are applied; a Sequence is flattened, null gives none.
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;
absl::StatusOr<Normalizers> MakeNormalizers(const Json& normalizer);

// INVALID_ARGUMENT when the text grows beyond kNormalizedGrowthMax times its size and kNormalizedBytesSpare more. Unicode
// forms make a text at most eleven times as long.
inline constexpr size_t kNormalizedGrowthMax = 64, kNormalizedBytesSpare = 256;
absl::Status Normalize(const Normalizers& normalizers, NormalizedText& text);

}  // namespace varifocal
