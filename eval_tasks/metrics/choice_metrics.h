// Metrics of a choice: the continuation with the highest log-likelihood is the answer; the first of equals wins.
//
// The normalised form divides by the number of characters, so that a long continuation is not punished for being long. One
// space at the start parts a continuation from the prompt and is not counted; one of no further characters is never taken.
// Source: lm-evaluation-harness, `acc` and `acc_norm`.
#pragma once

#include "absl/status/statusor.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<double> ScoreMultipleChoice(const MetricInput& input);
absl::StatusOr<double> ScoreMultipleChoiceNormalized(const MetricInput& input);
// Of a single continuation: whether every token was the most likely one, and the log-likelihood itself.
absl::StatusOr<double> ScoreGreedyContinuation(const MetricInput& input);
absl::StatusOr<double> ScoreContinuationLogLikelihood(const MetricInput& input);
// The index that ScoreMultipleChoice takes for the answer; -1 without scores.
int ChosenContinuation(const MetricInput& input);

}  // namespace varifocal
