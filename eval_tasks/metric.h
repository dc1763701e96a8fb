// A metric: maps one answer and its gold to one number.
//
// Metrics named helmet/KIND/VALUE are single values of HELMET's scores (eval_tasks/helmet/score.h).
// Other text metrics follow HELMET's normalisation (eval_tasks/metrics/text_metrics.h) and take the best over the gold
// answers; choice metrics use only log-likelihoods. The table is metrics.cc.
//
// Errors:  INVALID_ARGUMENT when the input lacks what the metric needs.
// Threads: any.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal {

// A model's score of one continuation of a prompt.
struct ContinuationScore {
  double log_likelihood = 0;  // natural logarithm, summed over the continuation's tokens
  int token_count = 0;
  bool is_greedy = false;  // every token was the most likely one
};

struct MetricInput {
  std::string prediction;         // the processed answer (eval_tasks/answer.h)
  std::vector<std::string> gold;  // any of these is right
  std::vector<ContinuationScore> continuation_scores;
  std::vector<std::string> continuations;
  std::vector<int> gold_continuation_indices;  // the right ones
  std::string output;                          // Sample::answer_prefix and the whole text, for metrics that use it
  std::string reference_json;                  // Sample::reference_json
  std::optional<ContinuationScore> gold_score = {};  // of the gold answer after the prompt, beside a written answer
};

struct Metric {
  std::string name;
  std::string summary;
  bool needs_continuations = false;  // uses log-likelihoods; otherwise the prediction
  bool is_binary = true;             // every value is 0 or 1: selects the kind of interval
  double worst_value = 0;            // value of a failed sample
  std::function<absl::StatusOr<double>(const MetricInput& input)> score = nullptr;
  bool is_unbounded =
      false;  // unbounded values, such as a log-likelihood: a failed sample is missing from the mean and counted
  bool uses_raw_output = false;  // compares `output` with `reference_json`; otherwise the prediction with `gold`

  absl::StatusOr<double> Score(const MetricInput& input) const { return score(input); }
};

absl::Span<const Metric> Metrics();
const Metric* FindMetric(absl::string_view name);  // null when unknown

// Names of the gold answer's metrics begin with it; a sample may have no value of them.
inline constexpr absl::string_view kGoldPrefix = "gold/";
bool IsGoldMetric(absl::string_view name);

}  // namespace varifocal
