// The reference of a row of a benchmark (`reference:` of a jsonl task): a JSON object with what upstream's scorer reads.
//
// Errors: INVALID_ARGUMENT naming the field.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "eval_tasks/metric.h"

namespace varifocal {

absl::StatusOr<Json> ReferenceOf(const MetricInput& input);
// A list of texts.
absl::StatusOr<std::vector<std::string>> ReferenceTexts(const Json& reference, absl::string_view field);

// A row of the metrics' table for a measure of a benchmark, which reads the whole output and the reference.
Metric BenchmarkMetric(std::string name, std::string summary, bool is_binary, decltype(Metric::score) score);

}  // namespace varifocal
