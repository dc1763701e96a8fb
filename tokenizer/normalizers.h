// Normalizers: what is done to a text before it is cut into words.
//
// Errors:  INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not honoured.
// Source:  Unicode normalization is utf8proc's, but for characters too new for the `tokenizers` library
//          (unicode_classes.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/alignment.h"

namespace varifocal {

struct NormalizedText {
  std::string text;      // well-formed UTF-8, and stays so
  bool is_start = true;  // its first character stood at the start of the whole text, or was put there
  std::optional<Alignment> alignment = std::nullopt;  // of `text`; there when offsets are asked for
  size_t bytes_max = 0;                               // set by Normalize
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual absl::Status Apply(NormalizedText& text) const = 0;
};

using MadeNormalizer = absl::StatusOr<std::unique_ptr<const Normalizer>>;

// In the order they are applied; a Sequence is flattened, null gives none.
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;
absl::StatusOr<Normalizers> MakeNormalizers(const Json& normalizer);

// INVALID_ARGUMENT when the text grows beyond kNormalizedGrowthMax times its size and kNormalizedBytesSpare more. Unicode
// forms make a text at most eleven times as long.
inline constexpr size_t kNormalizedGrowthMax = 64, kNormalizedBytesSpare = 256;
absl::Status Normalize(const Normalizers& normalizers, NormalizedText& text);

}  // namespace varifocal
