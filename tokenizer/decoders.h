// The decoders of a tokenizer.json, from tokens to text: the table of types, and all steps of a file one after the other.
//
// Errors: INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not supported.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/decoder.h"

namespace varifocal {

struct Decoders {
  std::vector<std::unique_ptr<const Decoder>> steps;  // in the order they are applied
  bool joins_with_spaces = false;                     // a file without a decoder
};

// A Sequence is flattened.
absl::StatusOr<Decoders> MakeDecoders(const Json& decoder);

absl::StatusOr<std::string> DecodeTokens(const Decoders& decoders, std::vector<std::string> tokens);

}  // namespace varifocal
