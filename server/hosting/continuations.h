// Splits an encoded prompt and continuation at a token boundary.
//
// Same rule as lm-evaluation-harness: trailing white space of the prompt moves to the continuation, both are encoded
// together, and the length of the prompt encoded alone determines the split. The model runs the prompt encoded alone
// followed by the rest of the joint encoding, so all continuations share one prompt.
//
// Errors: INVALID_ARGUMENT (EMPTY_CONTINUATION) when the rest of the joint encoding is empty, (EMPTY_PROMPT) when the
//         prompt has no token.
// Source: lm-evaluation-harness, lm_eval/api/model.py, TemplateLM._encode_pair.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

struct SplitContinuations {
  std::vector<int32_t> prompt_token_ids;
  std::vector<std::vector<int32_t>> continuations;
  int64_t invalid_utf8_count = 0;  // in all texts
};

// A wrapped prompt ends with its chat format's own text: no spaces are moved, and no special tokens are added. Names of
// special tokens in user text are plain text: in all of an unwrapped prompt, and in continuations.
absl::StatusOr<SplitContinuations> SplitPromptAndContinuations(const Tokenizer& tokenizer, const ChatText& wrapped,
                                                               const std::vector<std::string>& continuations,
                                                               bool is_wrapped = false);

}  // namespace varifocal
