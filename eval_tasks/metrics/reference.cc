#include "eval_tasks/metrics/reference.h"

#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<Json> ReferenceOf(const MetricInput& input) {
  if (input.reference_json.empty()) {
    return InvalidArgument("the metric needs a reference, which a row has where the task names `reference`");
  }
  ASSIGN_OR_RETURN(Json reference, ParseJson(input.reference_json));
  if (!reference.is_object()) return InvalidArgument("the reference is not a JSON object");
  return reference;
}

absl::StatusOr<std::vector<std::string>> ReferenceTexts(const Json& reference, absl::string_view field) {
  const auto found = reference.find(std::string(field));
  std::vector<std::string> texts;
  if (found != reference.end() && found->is_array()) {
    for (const Json& item : *found) {
      if (item.is_string()) texts.push_back(item.get<std::string>());
    }
    if (texts.size() == found->size()) return texts;
  }
  return InvalidArgument("the reference's \"", field, "\" is not a list of texts");
}

Metric BenchmarkMetric(std::string name, std::string summary, bool is_binary, decltype(Metric::score) score) {
  Metric metric;
  metric.name = std::move(name);
  metric.summary = std::move(summary);
  metric.is_binary = is_binary;
  metric.score = score;
  metric.uses_raw_output = true;
  return metric;
}

}  // namespace varifocal
