// The pre-tokenizers of a tokenizer.json: the table of types, and all steps of a file one after the other.
//
// Errors:  INVALID_ARGUMENT for a type that is not in the table, or a parameter that is not supported.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/pre_tokenizer.h"

namespace varifocal {

struct PreTokenizers {
  std::vector<std::unique_ptr<const PreTokenizer>> steps;  // in the order they are applied
  // The last step of ByteLevel maps bytes to characters. When no step follows it, the model works on the bytes
  // themselves, which are shorter, and this is set.
  bool words_are_bytes = false;
};

// A Sequence is flattened; null gives no steps.
absl::StatusOr<PreTokenizers> MakePreTokenizers(const Json& pre_tokenizer);

absl::Status PreTokenize(const PreTokenizers& pre_tokenizers, Words& words);

}  // namespace varifocal
