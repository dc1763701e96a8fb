#include "eval_tasks/answer.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kOpeningTokensMax = 64;  // more than an opening marker and white space have
constexpr char kForcedBefore[] = "\n";    // as models write it
constexpr char kForcedAnswer[] = "\n\n";

absl::StatusOr<ThinkingMarkers> MarkersOf(const SuiteSpec& suite, const TokenCounter& tokenizer) {
  if (!suite.thinking.begin.empty()) return ThinkingMarkers{suite.thinking.begin, suite.thinking.end};
  const std::optional<ThinkingMarkers> markers = tokenizer.thinking_markers();
  if (markers.has_value()) return *markers;
  return FailedPrecondition(
      "nothing says how it marks its thinking: its chat_format.json has no \"thinking\", and its tokenizer has no known "
      "pair of markers; state thinking: {begin, end} in the suite, or --thinking-markers=BEGIN,END");
}

}  // namespace

absl::string_view BeforeStop(absl::string_view text, const std::vector<std::string>& stop_strings) {
  size_t end = text.size();
  for (const std::string& stop : stop_strings) {
    if (!stop.empty()) end = std::min(end, text.find(stop));
  }
  return text.substr(0, end);
}

std::string ProcessAnswer(absl::string_view text, const std::vector<std::string>& stop_strings) {
  return std::string(absl::StripAsciiWhitespace(BeforeStop(text, stop_strings)));
}

ScoredAnswer ScoredAnswerOf(const Sample& sample, absl::string_view text, bool is_forced) {
  if (!sample.thinking.has_value()) return {std::string(BeforeStop(text, sample.stop_strings)), std::nullopt};
  ThinkingRule rule = sample.thinking->rule;
  if (!is_forced) rule.forced_answer.clear();
  ThinkingSplit split = SplitThinking(text, rule, sample.stop_strings);
  return {std::move(split.answer), split.state};
}

absl::Status AddThinking(const SuiteSpec& suite, const TaskSpec& task, const TokenCounter& tokenizer, Sample& sample) {
  if (!Thinks(suite, task) || !sample.continuations.empty()) return absl::OkStatus();
  SampleThinking& thinking = sample.thinking.emplace();
  ASSIGN_OR_RETURN(thinking.rule.markers, MarkersOf(suite, tokenizer));
  // The ids' text, since a chat format may have opened the block.
  const size_t tail = std::min(sample.token_ids.size(), kOpeningTokensMax);
  const absl::StatusOr<std::string> text = tokenizer.DecodePiece(absl::MakeConstSpan(sample.token_ids).last(tail));
  thinking.rule.is_opened = OpensThinking(text.ok() ? *text : sample.prompt, thinking.rule.markers);
  if (!suite.thinking.force || task.answer.thinking_max_tokens == 0) return absl::OkStatus();
  thinking.rule.forced_answer = suite.thinking.answer_prefix.empty() ? kForcedAnswer : suite.thinking.answer_prefix;
  const std::string forced = absl::StrCat(kForcedBefore, thinking.rule.markers.end, thinking.rule.forced_answer);
  ASSIGN_OR_RETURN(thinking.forced_ids, tokenizer.EncodeMarker(forced));
  return absl::OkStatus();
}

int AnswerTokens(const TaskSpec& task, int kind_tokens) {
  return task.answer.max_new_tokens > 0 ? task.answer.max_new_tokens : kind_tokens;
}

int TokensInContext(const TaskSpec& task, int kind_tokens) { return task.answer.is_given() ? 0 : kind_tokens; }

}  // namespace varifocal
