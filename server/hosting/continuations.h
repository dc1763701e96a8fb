// Where a prompt ends and a continuation begins, in tokens.
//
// As lm-evaluation-harness does it: white space at the prompt's end moves to the continuation, both are encoded together,
// and the prompt encoded alone says where to cut. What is run is the prompt alone followed by what is left of the joint
// encoding, so all continuations share one prompt.
//
// Errors: INVALID_ARGUMENT (EMPTY_CONTINUATION) when nothing is left of the joint encoding, (EMPTY_PROMPT) when the
//         prompt has no token.
// Source: lm-evaluation-harness, lm_eval/api/model.py, TemplateLM._encode_pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

struct SplitContinuations {
  std::vector<int32_t> prompt_token_ids;
  std::vector<std::vector<int32_t>> continuations;
  int64_t invalid_utf8_count = 0;  // in all texts
};

// A wrapped prompt ends with its chat format's own text: no spaces move, and no specials are added. Special tokens in
// what a user wrote are text: in all of an unwrapped prompt, and in continuations.
absl::StatusOr<SplitContinuations> SplitPromptAndContinuations(const Tokenizer& tokenizer, const ChatText& wrapped,
                                                               const std::vector<std::string>& continuations,
                                                               bool is_wrapped = false);

}  // namespace varifocal
