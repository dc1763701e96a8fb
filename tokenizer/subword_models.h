// The model of a tokenizer.json: the table of types.
//
// Errors: INVALID_ARGUMENT for a type that is not in the table, and for an inconsistent vocabulary.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/subword_model.h"

namespace varifocal {

// With `words_are_bytes`, Encode is given raw bytes and the vocabulary uses the byte-level alphabet.
absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeSubwordModel(const Json& model, bool words_are_bytes);

}  // namespace varifocal
