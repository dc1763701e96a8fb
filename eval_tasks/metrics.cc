// The table of metrics. Adding one is a function in metrics/ and a row here.
#include <array>

#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/choice_metrics.h"
#include "eval_tasks/metrics/text_metrics.h"

namespace varifocal {
namespace {

const std::array<Metric, 5>& Table() {
  static const std::array<Metric, 5> table = {{
      {"exact_match", "the normalised answer equals a gold answer", false, true, 0, &ScoreExactMatch},
      {"substring_exact_match", "a normalised gold answer stands in the normalised answer", false, true, 0,
       &ScoreSubstringExactMatch},
      {"token_f1", "harmonic mean of precision and recall over the words of answer and gold", false, false, 0,
       &ScoreTokenF1},
      {"multiple_choice_accuracy", "the right continuation has the highest log-likelihood", true, true, 0,
       &ScoreMultipleChoice},
      {"multiple_choice_accuracy_normalized", "the same, with each log-likelihood divided by its number of characters",
       true, true, 0, &ScoreMultipleChoiceNormalized},
  }};
  return table;
}

}  // namespace

absl::Span<const Metric> Metrics() { return Table(); }

const Metric* FindMetric(absl::string_view name) {
  for (const Metric& metric : Table()) {
    if (metric.name == name) return &metric;
  }
  return nullptr;
}

}  // namespace varifocal
