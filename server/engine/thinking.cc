#include "server/engine/thinking.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

// Beyond those that the end marker's bytes may be: tokens without text, and one that the window cuts.
constexpr size_t kWindowSpareTokens = 16;

absl::StatusOr<std::string> TextOf(const Tokenizer& tokenizer, const ThinkingProgress& progress,
                                   absl::Span<const int32_t> ids) {
  return tokenizer.Decode(ids, {.keep_special_tokens = progress.keeps_special_tokens, .ignore_unknown_ids = true});
}

// The text after a forced end is no answer; the same text that the model wrote is one.
ThinkingRule RuleOf(const ThinkingWork& thinking, bool is_forced) {
  ThinkingRule rule = thinking.rule;
  if (!is_forced) rule.forced_answer.clear();
  return rule;
}

}  // namespace

ThinkingProgress BeginThinking(const Tokenizer& tokenizer, const ThinkingWork& thinking) {
  ThinkingProgress progress;
  progress.is_inside = thinking.rule.is_opened;
  progress.block_count = progress.is_inside ? 1 : 0;
  const ThinkingMarkers& markers = thinking.rule.markers;
  for (const std::string& marker : {markers.begin, markers.end}) {
    const auto ids = tokenizer.Encode(marker, {.add_special_tokens = false});
    progress.keeps_special_tokens =
        progress.keeps_special_tokens ||
        (ids.ok() && std::any_of(ids->begin(), ids->end(), [&](int32_t id) { return tokenizer.IsSpecial(id); }));
  }
  return progress;
}

absl::Status FollowThinking(const Tokenizer& tokenizer, const GenerateWork& work, ThinkingProgress& progress,
                            EngineResult& result) {
  const ThinkingWork& thinking = *work.thinking;
  const absl::Span<const int32_t> ids = result.new_token_ids;
  const int64_t count = std::ssize(result.new_token_ids);
  const bool was_inside = progress.is_inside;
  bool may_have_ended = true;
  if (was_inside) {
    const size_t window = std::min(ids.size(), thinking.rule.markers.end.size() + kWindowSpareTokens);
    ASSIGN_OR_RETURN(const std::string last, TextOf(tokenizer, progress, ids.last(window)));
    may_have_ended = absl::StrContains(last, thinking.rule.markers.end);
  }
  ThinkingSplit split;
  split.is_inside = true;
  split.block_count = progress.block_count;
  if (may_have_ended) {
    ASSIGN_OR_RETURN(result.text, TextOf(tokenizer, progress, ids));
    split = SplitThinking(result.text, RuleOf(thinking, result.is_thinking_forced), work.stop);
  }
  progress.is_inside = split.is_inside;
  // A block that begins with the answer's first text has all tokens so far.
  const bool has_all = !was_inside && split.block_count > 0 && progress.block_count == 0;
  progress.block_count = split.block_count;
  if (has_all) {
    result.thinking_token_count = count;
  } else if (was_inside || split.is_inside) {
    ++result.thinking_token_count;
  }
  if (split.is_inside) {
    if (result.thinking_token_count < thinking.tokens_max && count < work.max_new_tokens) return absl::OkStatus();
    if (thinking.forced_ids.empty() || result.is_thinking_forced) {
      result.finish_reason = EngineFinishReason::kLength;
      return absl::OkStatus();
    }
    result.is_thinking_forced = true;
    result.new_token_ids.insert(result.new_token_ids.end(), thinking.forced_ids.begin(), thinking.forced_ids.end());
    result.thinking_token_count += std::ssize(thinking.forced_ids);
    progress.is_inside = false;
    return absl::OkStatus();
  }
  if (!split.matched_stop.empty()) {
    result.matched_stop = split.matched_stop;
    result.finish_reason = EngineFinishReason::kStop;
  } else if ((!split.is_undecided && count - result.thinking_token_count >= thinking.answer_tokens_max) ||
             count >= work.max_new_tokens) {
    result.finish_reason = EngineFinishReason::kLength;
  }
  return absl::OkStatus();
}

void CompleteThinking(const Tokenizer& tokenizer, const std::vector<int32_t>& eos, const GenerateWork& work,
                      const ThinkingProgress& progress, EngineResult& result) {
  absl::Span<const int32_t> ids = result.new_token_ids;
  if (!ids.empty() && std::find(eos.begin(), eos.end(), ids.back()) != eos.end()) ids.remove_suffix(1);
  absl::StatusOr<std::string> text = TextOf(tokenizer, progress, ids);
  if (!text.ok()) return;
  result.text = *std::move(text);
  if (result.finish_reason != EngineFinishReason::kStop) return;
  result.text.resize(SplitThinking(result.text, RuleOf(*work.thinking, result.is_thinking_forced), work.stop).end);
}

absl::Status ApplyThinking(const Tokenizer& tokenizer, const GenerateWork& work, EngineResult& result) {
  const ThinkingWork& thinking = *work.thinking;
  const ThinkingSplit split = SplitThinking(result.text, RuleOf(thinking, result.is_thinking_forced), work.stop);
  if (!split.matched_stop.empty()) {
    result.text.resize(split.end);
    result.matched_stop = split.matched_stop;
    result.finish_reason = EngineFinishReason::kStop;
  }
  if (split.block_count == 0) return absl::OkStatus();
  const auto count = [&](absl::string_view text) { return tokenizer.CountTokens(text, {.add_special_tokens = false}); };
  ASSIGN_OR_RETURN(const int64_t whole, count(result.text));
  ASSIGN_OR_RETURN(const int64_t answer, count(split.answer));
  // The server's own count is of all its tokens, also of those after a stop string.
  const int64_t all = result.new_token_count;
  result.thinking_token_count = split.is_inside ? all : std::clamp<int64_t>(whole - answer, 0, all);
  return absl::OkStatus();
}

}  // namespace varifocal
