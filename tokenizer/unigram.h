// Unigram: every token has a log-probability, and a word becomes the row of tokens whose sum is largest.
//
// One pass from left to right keeps the best row up to each position (Viterbi); a trie over bytes finds the tokens that
// start at one. A character that is no token costs ten more than the worst token; a run of such characters becomes its
// <0xNN> bytes when the file says so and all of them are there, else one unknown token.
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
