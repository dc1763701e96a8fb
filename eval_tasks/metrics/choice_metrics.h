// Metrics of a choice: the continuation with the highest log-likelihood is the answer; ties go to the first.
//
// The normalised form divides by the number of characters, to avoid a bias against long continuations. One leading space
// separates a continuation from the prompt and is not counted; a continuation without further characters is never selected.
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
// Per token, in nats, of the same tokens after a long context (the first continuation) and a short one (the second): the
// long one's log-likelihood minus the short one's, and either.
absl::StatusOr<double> ScoreContextGain(const MetricInput& input);
absl::StatusOr<double> ScoreLongContext(const MetricInput& input);
absl::StatusOr<double> ScoreShortContext(const MetricInput& input);
// The index selected by ScoreMultipleChoice; -1 without scores.
int ChosenContinuation(const MetricInput& input);

}  // namespace varifocal
