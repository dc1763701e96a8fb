// Unigram: every token has a log-probability, and a word becomes the token sequence with the largest sum.
//
// One pass from left to right keeps the best sequence up to each position (Viterbi); a trie over bytes finds the tokens
// that start there. A character that is no token costs ten more than the worst token; a run of such characters becomes
// its <0xNN> bytes when byte_fallback is set and all of them exist, else one unknown token.
//
// Cost:    linear in the word times the longest token; 16 bytes per byte of the word.
// Source:  Kudo 2018, arXiv:1804.10959; sums, ties and unknown runs as in the `tokenizers` library.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/subword_model.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeUnigram(const Json& model, bool words_are_bytes);

}  // namespace varifocal
