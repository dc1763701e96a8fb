#include "eval_tasks/metrics/choice_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/strings/strip.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/normalize.h"

namespace varifocal {
namespace {

absl::Status Check(const MetricInput& input) {
  const size_t count = input.continuation_scores.size();
  if (count < 2) {
    return InvalidArgument(count, Plural(count, " continuation was", " continuations were"),
                           " scored; a choice needs at least 2");
  }
  if (input.gold_continuation_indices.empty()) {
    return InvalidArgument("no gold continuation is named (\"gold_continuation_index\"); a choice needs at least 1");
  }
  for (const int index : input.gold_continuation_indices) {
    if (index >= 0 && static_cast<size_t>(index) < count) continue;
    return InvalidArgument("the gold continuation has index ", index, "; there are ", count, " continuations");
  }
  for (const ContinuationScore& score : input.continuation_scores) {
    if (!std::isfinite(score.log_likelihood)) {
      return InvalidArgument("a log-likelihood is ", score.log_likelihood, ", not a finite number");
    }
  }
  return absl::OkStatus();
}

int IndexOfLargest(const std::vector<double>& values) {
  return std::max_element(values.begin(), values.end()) - values.begin();
}

double IsRight(const MetricInput& input, int chosen) {
  const std::vector<int>& right = input.gold_continuation_indices;
  return std::find(right.begin(), right.end(), chosen) != right.end() ? 1.0 : 0.0;
}

}  // namespace

int ChosenContinuation(const MetricInput& input) {
  std::vector<double> values;
  for (const ContinuationScore& score : input.continuation_scores) values.push_back(score.log_likelihood);
  return values.empty() ? -1 : IndexOfLargest(values);
}

absl::StatusOr<double> ScoreMultipleChoice(const MetricInput& input) {
  RETURN_IF_ERROR(Check(input));
  return IsRight(input, ChosenContinuation(input));
}

absl::StatusOr<double> ScoreMultipleChoiceNormalized(const MetricInput& input) {
  RETURN_IF_ERROR(Check(input));
  if (input.continuations.size() != input.continuation_scores.size()) {
    return InvalidArgument("\"continuation_scores\" has ", input.continuation_scores.size(),
                           " and \"continuations\" has ", input.continuations.size(), "; each score needs its text");
  }
  std::vector<double> values;
  for (size_t i = 0; i < input.continuations.size(); ++i) {
    // One leading space separates a choice from the prompt; further ones belong to it. An empty choice is never selected.
    const int64_t length = CountCharacters(absl::StripPrefix(input.continuations[i], " "));
    const double value = input.continuation_scores[i].log_likelihood;
    values.push_back(length == 0 ? -std::numeric_limits<double>::infinity() : value / length);
  }
  return IsRight(input, IndexOfLargest(values));
}

absl::StatusOr<double> ScoreGreedyContinuation(const MetricInput& input) {
  if (input.continuation_scores.empty()) return InvalidArgument("no continuation was scored; 1 is needed");
  return input.continuation_scores[0].is_greedy ? 1.0 : 0.0;
}

absl::StatusOr<double> ScoreContinuationLogLikelihood(const MetricInput& input) {
  if (input.continuation_scores.empty()) return InvalidArgument("no continuation was scored; 1 is needed");
  const double value = input.continuation_scores[0].log_likelihood;
  if (!std::isfinite(value)) return InvalidArgument("a log-likelihood is ", value, ", not a finite number");
  return value;
}

namespace {

absl::StatusOr<double> PerToken(const MetricInput& input, size_t index) {
  RETURN_IF_ERROR(Check(input));
  const auto& scores = input.continuation_scores;
  if (scores.size() != 2 || scores[0].token_count < 1 || scores[0].token_count != scores[1].token_count) {
    return InvalidArgument(scores.size(), Plural(std::ssize(scores), " continuation was", " continuations were"),
                           " scored; the same tokens after 2 contexts are needed");
  }
  return scores[index].log_likelihood / scores[index].token_count;
}

}  // namespace

absl::StatusOr<double> ScoreLongContext(const MetricInput& input) { return PerToken(input, 0); }
absl::StatusOr<double> ScoreShortContext(const MetricInput& input) { return PerToken(input, 1); }

absl::StatusOr<double> ScoreContextGain(const MetricInput& input) {
  ASSIGN_OR_RETURN(const double after_long, PerToken(input, 0));
  ASSIGN_OR_RETURN(const double after_short, PerToken(input, 1));
  return after_long - after_short;
}

}  // namespace varifocal
