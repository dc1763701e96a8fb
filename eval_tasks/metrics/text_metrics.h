// Metrics of a written answer: exact match, substring exact match, token F1; each the best over the gold answers.
//
// Source: HELMET's drqa_metric_max_over_ground_truths over SQuAD's measures.
#pragma once

#include "absl/status/statusor.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<double> ScoreExactMatch(const MetricInput& input);           // normalised texts are equal
absl::StatusOr<double> ScoreSubstringExactMatch(const MetricInput& input);  // the prediction contains normalised gold
// Harmonic mean of precision and recall over the multisets of normalised words; 0 where one side is "yes", "no" or
// "noanswer" and the other differs.
absl::StatusOr<double> ScoreTokenF1(const MetricInput& input);
// RULER's recall: the gold answers contained in the prediction, both lower-cased and otherwise unchanged; their share,
// or whether there is at least one.
absl::StatusOr<double> ScoreStringMatchAll(const MetricInput& input);
absl::StatusOr<double> ScoreStringMatchPart(const MetricInput& input);

}  // namespace varifocal
