// The two models that look words up: WordLevel knows whole words, WordPiece takes the longest beginning it knows, again
// and again, and spells what is not a word's beginning with a prefix such as "##".
//
// Cost: WordPiece needs the length of a word times that of the longest token.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/subword_model.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordPiece(const Json& model, bool words_are_bytes);
absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordLevel(const Json& model, bool words_are_bytes);

}  // namespace varifocal
