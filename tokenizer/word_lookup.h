// The two dictionary models: WordLevel contains whole words, WordPiece repeatedly takes the longest prefix in its
// vocabulary and marks pieces inside a word with a prefix such as "##".
//
// Cost: WordPiece: the length of a word times that of the longest token.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/subword_model.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordPiece(const Json& model, bool words_are_bytes);
absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordLevel(const Json& model, bool words_are_bytes);

}  // namespace varifocal
