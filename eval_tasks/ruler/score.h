// RULER's scorers with upstream's cleaning of the answer: stripped, control characters as line ends, stripped again.
//
// ruler/string_match_all is the share of the references that the answer contains, ruler/string_match_part whether it
// contains any; both in lower case by Python's rules. References are taken as they are. From 0 to 1: upstream prints the
// mean times 100, rounded to two decimals.
//
// Errors: INVALID_ARGUMENT without a reference.
// Source: NVIDIA/RULER, scripts/eval/evaluate.py and scripts/eval/synthetic/constants.py, commit c3f5e3b.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "eval_tasks/metric.h"

namespace varifocal::ruler {

// For tests.
std::string CleanAnswer(absl::string_view answer);

absl::StatusOr<double> ScoreRulerMatchAll(const MetricInput& input);
absl::StatusOr<double> ScoreRulerMatchPart(const MetricInput& input);

}  // namespace varifocal::ruler
