#include "eval_tasks/tasks/prompt_cut.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<CutPrompt> CutMiddle(absl::string_view prompt, int64_t tokens_max, PromptSeam seam,
                                    const TokenCounter& tokenizer) {
  ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.EncodeUnwrapped(prompt));
  CutPrompt cut;
  if (std::ssize(ids) <= tokens_max) {
    cut.text = std::string(prompt);
    return cut;
  }
  const int64_t head = tokens_max / 2, tail = seam == PromptSeam::kTwoTexts ? head : tokens_max - head;
  cut.cut_token_count = std::ssize(ids) - head - tail;
  if (seam == PromptSeam::kTwoTexts) {
    const absl::Span<const int32_t> all(ids);
    ASSIGN_OR_RETURN(const std::string before, tokenizer.DecodeUnwrapped(all.first(head)));
    // Python's ids[-0:] is the whole list.
    ASSIGN_OR_RETURN(const std::string after, tokenizer.DecodeUnwrapped(tail == 0 ? all : all.last(tail)));
    cut.text = absl::StrCat(before, after);
    return cut;
  }
  ids.erase(ids.begin() + head, ids.end() - tail);
  ASSIGN_OR_RETURN(cut.text, tokenizer.DecodeUnwrapped(ids));
  return cut;
}

}  // namespace varifocal
