// Normalizers: what is done to a text before it is cut into words.
//
// Errors:  INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not honoured.
// Source:  Unicode normalization is utf8proc's, but for characters too new for the `tokenizers` library
// (unicode_classes.h).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace varifocal {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `text` is well-formed UTF-8 and stays so.
  virtual absl::Status Apply(std::string& text) const = 0;
};

// In the order they are applied; a Sequence is flattened, null gives none.
using Normalizers = std::vector<std::unique_ptr<const Normalizer>>;
absl::StatusOr<Normalizers> MakeNormalizers(const Json& normalizer);

absl::Status Normalize(const Normalizers& normalizers, std::string& text);

}  // namespace varifocal
