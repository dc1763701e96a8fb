// HELMET's post-processing and measures of one answer, by kind, in upstream's names.
//
// A kind is the post-processing of upstream's loader: `default` takes, for each measure, the better of the whole output
// and of its parsed part; `icl` scores only the parsed part; and so on (docs/helmet.md). As in upstream, the output
// includes the rendered system template when no chat template is used.
//
// Errors: INVALID_ARGUMENT for an unknown kind, and for a gold answer without the kind's shape.
// Source: HELMET commit 4526dfb; equal to its own functions on generated outputs
// (recipes/goldens/make_helmet_metrics.py).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/metric.h"

namespace varifocal::helmet {

struct KindInfo {
  std::string name;
  std::string gold;  // description of the gold answer's shape
  std::string summary;
};

const std::vector<KindInfo>& Kinds();
bool IsKind(absl::string_view name);

// All measures of the kind, and "parsed_output" where upstream has one. `options`: "prefix" of parse_output, "k_values"
// of rerank (default: 1, 5, 10, .. as far as there are gold documents).
absl::StatusOr<Json> Score(absl::string_view kind, absl::string_view output, const Json& gold,
                           const Json& options = Json::object());

// One of those measures, of input.output against input.reference_json.
absl::StatusOr<double> ScoreValue(absl::string_view kind, absl::string_view value, const MetricInput& input);

}  // namespace varifocal::helmet
