// Metrics of a choice: the continuation with the highest log-likelihood is the answer; the first of equals wins.
//
// The normalised form divides by the number of characters, white space at the start not counted, so that a long
// continuation is not punished for being long.
// Source: lm-evaluation-harness, `acc` and `acc_norm`.
#pragma once

#include "absl/status/statusor.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<double> ScoreMultipleChoice(const MetricInput& input);
absl::StatusOr<double> ScoreMultipleChoiceNormalized(const MetricInput& input);
// The index that ScoreMultipleChoice takes for the answer; -1 without scores.
int ChosenContinuation(const MetricInput& input);

}  // namespace varifocal
