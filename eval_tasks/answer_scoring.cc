#include "eval_tasks/answer_scoring.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/choice_metrics.h"

namespace varifocal {
namespace {

// Without an answer, or where none is extracted from it, nothing may be right, whatever a metric makes of the empty text.
struct FilteredAnswer {
  MetricInput input;
  bool has_answer = true;
};

FilteredAnswer Filtered(const Sample& sample, const AnswerFilters& filters, Generation& generation,
                        std::string& answer) {
  FilteredAnswer filtered;
  MetricInput& input = filtered.input;
  input.gold = sample.gold;
  input.continuations = sample.continuations;
  input.continuation_scores = generation.continuation_scores;
  input.gold_continuation_indices = sample.gold_continuation_indices;
  input.gold_score = generation.gold_score;
  if (sample.continuations.empty()) {
    ScoredAnswer scored = ScoredAnswerOf(sample, generation.text, generation.is_thinking_forced);
    generation.thinking = scored.thinking;
    if (!filters.empty()) {
      const std::optional<std::string> extracted = filters.Apply(scored.output);
      filtered.has_answer = extracted.has_value();
      scored.output = extracted.value_or("");
    }
    filtered.has_answer = filtered.has_answer && generation.thinking != ThinkingState::kUnfinished;
    answer = std::string(absl::StripAsciiWhitespace(scored.output));
    input.output = absl::StrCat(sample.answer_prefix, scored.output);
    input.reference_json = sample.reference_json;
  } else {
    const int chosen = ChosenContinuation(input);
    const bool known = chosen >= 0 && chosen < std::ssize(sample.continuations);
    answer = known ? ProcessAnswer(sample.continuations[chosen], {}) : "";
  }
  input.prediction = answer;
  return filtered;
}

}  // namespace

absl::Status CheckComplete(const Sample& sample, const Generation& generation) {
  if (generation.gold_score.has_value() && generation.gold_score->token_count != std::ssize(sample.gold_token_ids)) {
    return Internal("the generator scored ", generation.gold_score->token_count, " of ", sample.gold_token_ids.size(),
                    " tokens of the gold answer");
  }
  if (generation.continuation_scores.size() == sample.continuations.size()) return absl::OkStatus();
  return Internal("the generator scored ", generation.continuation_scores.size(), " of ", sample.continuations.size(),
                  " continuations");
}

absl::Status ScoreAnswer(const Sample& sample, const AnswerFilters& filters, Generation& generation,
                         SampleResult& record) {
  const auto [input, has_answer] = Filtered(sample, filters, generation, record.answer);
  for (const std::string& name : sample.metrics) {
    const Metric* metric = FindMetric(name);
    VF_CHECK(metric != nullptr, "metrics are validated with the spec");
    if (IsGoldMetric(name) && !input.gold_score.has_value()) continue;
    ASSIGN_OR_RETURN(double value, metric->Score(input));
    if (!has_answer && !IsGoldMetric(name)) value = metric->worst_value;
    record.scores.push_back({name, value});
  }
  return absl::OkStatus();
}

}  // namespace varifocal
