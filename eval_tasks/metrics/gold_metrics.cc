#include "eval_tasks/metrics/gold_metrics.h"

#include <algorithm>
#include <cmath>

#include "base/status_macros.h"
#include "eval_tasks/task.h"

namespace varifocal {
namespace {

absl::StatusOr<ContinuationScore> Checked(const MetricInput& input) {
  if (!input.gold_score.has_value()) return InvalidArgument("the gold answer was not scored");
  const ContinuationScore& score = *input.gold_score;
  if (std::isfinite(score.log_likelihood) && score.token_count > 0) return score;
  return InvalidArgument("the gold answer has ", score.token_count, " tokens and the log-likelihood ",
                         score.log_likelihood);
}

}  // namespace

absl::Status AddGoldMetrics(SuiteSpec& suite) {
  bool is_used = false;
  for (TaskSpec& task : suite.tasks) {
    const TaskKind* kind = FindTaskKind(task.kind);
    if (kind == nullptr || kind->scores_continuations(task.parameters)) continue;
    is_used = true;
    for (const Metric& metric : Metrics()) {
      const bool is_new = std::find(task.metrics.begin(), task.metrics.end(), metric.name) == task.metrics.end();
      if (IsGoldMetric(metric.name) && is_new) task.metrics.push_back(metric.name);
    }
  }
  if (is_used) return absl::OkStatus();
  return InvalidArgument("no task of the suite \"", suite.name,
                         "\" writes answers, so there is no gold answer to score");
}

absl::StatusOr<double> ScoreGoldLogLikelihood(const MetricInput& input) {
  ASSIGN_OR_RETURN(const ContinuationScore score, Checked(input));
  return score.log_likelihood;
}

absl::StatusOr<double> ScoreGoldLogLikelihoodPerToken(const MetricInput& input) {
  ASSIGN_OR_RETURN(const ContinuationScore score, Checked(input));
  return score.log_likelihood / score.token_count;
}

absl::StatusOr<double> ScoreGoldTokenCount(const MetricInput& input) {
  ASSIGN_OR_RETURN(const ContinuationScore score, Checked(input));
  return score.token_count;
}

absl::StatusOr<double> ScoreGoldIsGreedy(const MetricInput& input) {
  ASSIGN_OR_RETURN(const ContinuationScore score, Checked(input));
  return score.is_greedy ? 1.0 : 0.0;
}

}  // namespace varifocal
