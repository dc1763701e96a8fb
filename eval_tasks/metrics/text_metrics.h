// Metrics of a written answer: exact match, substring exact match, token F1; each the best over the gold answers.
//
// Source: HELMET's drqa_metric_max_over_ground_truths over SQuAD's measures. There a gold answer of which normalisation
// leaves nothing ("A", "The", "+") is "", which equals or is in any answer of that kind, even in no answer. Here it is
// compared as it is written (as_written.h); a blank one is never right.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<double> ScoreExactMatch(const MetricInput& input);           // normalised texts are equal
absl::StatusOr<double> ScoreSubstringExactMatch(const MetricInput& input);  // the prediction contains normalised gold
// Harmonic mean of precision and recall over the multisets of normalised words; 0 where one side is "yes", "no" or
// "noanswer" and the other differs.
absl::StatusOr<double> ScoreTokenF1(const MetricInput& input);
// RULER's recall: the gold answers contained in the prediction, both lower-cased and otherwise unchanged but for white
// space at the ends of a gold answer; their share, or whether there is at least one.
absl::StatusOr<double> ScoreStringMatchAll(const MetricInput& input);
absl::StatusOr<double> ScoreStringMatchPart(const MetricInput& input);
// Every gold answer is compared as it is written.
absl::StatusOr<double> ScoreWrittenMatch(const MetricInput& input);
absl::StatusOr<double> ScoreWrittenSubstring(const MetricInput& input);

// The first three by upstream's rule alone, for scores that must equal HELMET's.
struct UpstreamTextMeasures {
  double exact_match = 0, substring_exact_match = 0, token_f1 = 0;
};
UpstreamTextMeasures MeasureAsUpstream(absl::string_view prediction, const std::vector<std::string>& gold);

}  // namespace varifocal
