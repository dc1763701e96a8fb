// Metrics of a written answer: exact match, substring exact match, token F1; each the best over the gold answers.
//
// Source: HELMET's drqa_metric_max_over_ground_truths over SQuAD's measures.
#pragma once

#include "absl/status/statusor.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<double> ScoreExactMatch(const MetricInput& input);           // normalised texts are equal
absl::StatusOr<double> ScoreSubstringExactMatch(const MetricInput& input);  // normalised gold lies in the prediction
// Harmonic mean of precision and recall over the multisets of normalised words; 0 where one side is "yes", "no" or
// "noanswer" and the other differs.
absl::StatusOr<double> ScoreTokenF1(const MetricInput& input);
// RULER's recall: how many of the gold answers stand in the prediction, both in lower case and else as they are; the
// share of them, or whether it is one at least.
absl::StatusOr<double> ScoreStringMatchAll(const MetricInput& input);
absl::StatusOr<double> ScoreStringMatchPart(const MetricInput& input);

}  // namespace varifocal
