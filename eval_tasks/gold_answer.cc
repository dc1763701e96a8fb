#include "eval_tasks/gold_answer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

bool IsSpace(char c) { return absl::ascii_isspace(c); }

bool IsPrefix(const std::vector<int32_t>& start, const std::vector<int32_t>& whole) {
  return start.size() <= whole.size() && std::equal(start.begin(), start.end(), whole.begin());
}

std::vector<int32_t> After(const std::vector<int32_t>& start, const std::vector<int32_t>& whole) {
  return {whole.begin() + start.size(), whole.end()};
}

}  // namespace

std::string GoldContinuation(absl::string_view prompt, const std::vector<std::string>& gold, bool is_chat) {
  if (gold.empty()) return "";
  const absl::string_view answer = absl::StripTrailingAsciiWhitespace(gold[0]);
  if (answer.empty()) return "";
  const bool follows_at_once = is_chat || prompt.empty() || IsSpace(prompt.back()) || IsSpace(answer.front()) ||
                               absl::string_view("\"'`([{<").find(prompt.back()) != absl::string_view::npos;
  return absl::StrCat(follows_at_once ? "" : " ", answer);
}

absl::StatusOr<std::vector<int32_t>> GoldTokenIds(const Sample& sample,
                                                  const std::optional<std::string>& system_message, bool is_chat,
                                                  const TokenCounter& tokenizer) {
  const std::string answer = GoldContinuation(sample.prompt, sample.gold, is_chat);
  if (answer.empty()) return std::vector<int32_t>();
  ASSIGN_OR_RETURN(const std::vector<int32_t> whole, tokenizer.EncodeAnswered(system_message, sample.prompt, answer));
  std::vector<int32_t> ids;
  if (IsPrefix(sample.token_ids, whole)) {
    ids = After(sample.token_ids, whole);
  } else {
    ASSIGN_OR_RETURN(const std::vector<int32_t> newline, tokenizer.EncodePiece("\n"));
    ASSIGN_OR_RETURN(ids, tokenizer.EncodePiece(absl::StrCat("\n", answer)));
    if (IsPrefix(newline, ids)) {
      ids = After(newline, ids);
    } else {
      ASSIGN_OR_RETURN(ids, tokenizer.EncodePiece(answer));
    }
  }
  if (std::ssize(ids) > std::max(sample.max_new_tokens, 0)) ids.clear();
  return ids;
}

}  // namespace varifocal
