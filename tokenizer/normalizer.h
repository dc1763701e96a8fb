// One step of normalization, applied to a text before it is split into words.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "tokenizer/alignment.h"

namespace varifocal {

struct NormalizedText {
  std::string text;      // always well-formed UTF-8
  bool is_start = true;  // its first character was the first of the whole text, or was inserted there
  std::optional<Alignment> alignment = std::nullopt;  // of `text`; set when offsets are requested
  size_t bytes_max = 0;                               // set by Normalize
};

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  virtual absl::Status Apply(NormalizedText& text) const = 0;
};

using MadeNormalizer = absl::StatusOr<std::unique_ptr<const Normalizer>>;

}  // namespace varifocal
