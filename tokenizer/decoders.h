// Decoders: how tokens become text again. Each step maps the list of token texts; what is left at the end is joined.
//
// Errors: INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not honoured.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"

namespace varifocal {

class Decoder {
 public:
  virtual ~Decoder() = default;
  virtual absl::Status Apply(std::vector<std::string>& tokens) const = 0;
};

using MadeDecoder = absl::StatusOr<std::unique_ptr<const Decoder>>;

struct Decoders {
  std::vector<std::unique_ptr<const Decoder>> steps;  // in the order they are applied
  bool joins_with_spaces = false;                     // a file without a decoder
};

// A Sequence is flattened.
absl::StatusOr<Decoders> MakeDecoders(const Json& decoder);

absl::StatusOr<std::string> DecodeTokens(const Decoders& decoders, std::vector<std::string> tokens);

}  // namespace varifocal
