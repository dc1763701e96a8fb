// The middle of a prompt left out by tokens, as LongBench, LongBench v2 and InfiniteBench do when one is too long.
//
// The first and last halves of the prompt's tokens are decoded, and the text is what is asked. Special tokens that the
// tokenizer adds count, and are dropped; a chat format is put around the text afterwards. Decoding and encoding again
// may give a few tokens more or less than were kept.
//
// Errors: of the tokenizer.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

enum class PromptSeam {
  // LongBench: M/2 tokens on either side, rounded down, and each side decoded alone: a character that a side cuts is
  // U+FFFD, and a sentencepiece tokenizer loses the blank at the seam.
  kTwoTexts,
  // LongBench v2, InfiniteBench: M/2 tokens before the seam, the rest of M after it, decoded as one text.
  kOneText,
};

struct CutPrompt {
  std::string text;
  int64_t cut_token_count = 0;  // 0: the whole prompt
};

absl::StatusOr<CutPrompt> CutMiddle(absl::string_view prompt, int64_t tokens_max, PromptSeam seam,
                                    const TokenCounter& tokenizer);

}  // namespace varifocal
