#include "server/hosting/continuations.h"

#include <algorithm>

#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal {

absl::StatusOr<SplitContinuations> SplitPromptAndContinuations(const Tokenizer& tokenizer, const ChatText& wrapped,
                                                               const std::vector<std::string>& continuations,
                                                               bool is_wrapped) {
  absl::string_view prompt = wrapped.text;
  const size_t end = is_wrapped ? prompt.size() : PythonRightStrip(prompt).size();
  const absl::string_view spaces = prompt.substr(end);
  prompt = prompt.substr(0, end);
  // Plain text: an unwrapped prompt as a whole; of a wrapped one only the caller's text, including continuations.
  const auto encode = [&](absl::string_view text, int64_t* invalid_utf8_count) {
    std::vector<TextRange> plain_parts = wrapped.plain_parts;
    if (is_wrapped && text.size() > wrapped.text.size()) plain_parts.push_back({wrapped.text.size(), text.size()});
    return tokenizer.Encode(text, {.add_special_tokens = !is_wrapped,
                                   .special_tokens_as_text = !is_wrapped,
                                   .plain_parts = plain_parts,
                                   .invalid_utf8_count = invalid_utf8_count});
  };

  SplitContinuations split;
  int64_t in_prompt = 0, in_both = 0;
  ASSIGN_OR_RETURN(split.prompt_token_ids, encode(prompt, &in_prompt));
  const size_t cut = split.prompt_token_ids.size();
  if (cut == 0) return WithReason(InvalidArgument("the prompt has no token"), ErrorReason::kEmptyPrompt);
  for (size_t i = 0; i < continuations.size(); ++i) {
    in_both = 0;
    ASSIGN_OR_RETURN(std::vector<int32_t> whole, encode(absl::StrCat(prompt, spaces, continuations[i]), &in_both));
    split.invalid_utf8_count += in_both - in_prompt;
    if (whole.size() <= cut) {
      return WithReason(InvalidArgument("continuation ", i, " has no token of its own after the prompt's ", cut),
                        ErrorReason::kEmptyContinuation, {{"field", absl::StrCat("continuations[", i, "]")}});
    }
    split.continuations.emplace_back(whole.begin() + cut, whole.end());
  }
  split.invalid_utf8_count = std::max<int64_t>(split.invalid_utf8_count + in_prompt, 0);
  return split;
}

}  // namespace varifocal
