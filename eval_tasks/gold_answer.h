// The gold answer as a continuation of the prompt: the text and tokens that a model would generate to give it.
//
// Text: the first gold answer without white space at its end, after one space; without the space where the prompt ends in
// white space, a quotation mark or an opening bracket, where the answer begins with white space, and in a chat format,
// where the answer begins a turn. Neither a stop string nor an end token belongs to it.
//
// Tokens: those of the prompt are fixed, they are the ones that are run. Where prompt and answer encoded together begin
// with them, the answer's are the rest. Elsewhere (a token would span the boundary) they are those of the answer encoded
// alone, after a newline that is removed again, since some tokenizers add a blank at the start of a text.
//
// Errors: of the tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/task.h"
#include "eval_tasks/token_counter.h"

namespace varifocal {

// "" without a gold answer.
std::string GoldContinuation(absl::string_view prompt, const std::vector<std::string>& gold, bool is_chat);

// Of a sample that has its prompt; `system_message` is the task's. Empty where there is no gold answer, and where it has
// more tokens than the sample lets a model generate.
absl::StatusOr<std::vector<int32_t>> GoldTokenIds(const Sample& sample,
                                                  const std::optional<std::string>& system_message, bool is_chat,
                                                  const TokenCounter& tokenizer);

}  // namespace varifocal
