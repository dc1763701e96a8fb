#include "eval_tasks/ruler/score.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal::ruler {
namespace {

absl::StatusOr<std::ptrdiff_t> CountReferencesInside(const MetricInput& input) {
  if (input.gold.empty()) return InvalidArgument("no reference: at least 1 is needed to score an answer");
  const std::string answer = PythonLower(CleanAnswer(input.prediction));
  return std::count_if(input.gold.begin(), input.gold.end(),
                       [&](const std::string& reference) { return absl::StrContains(answer, PythonLower(reference)); });
}

}  // namespace

std::string CleanAnswer(absl::string_view answer) {
  std::string text = PythonStrip(answer);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }, '\n');
  return PythonStrip(text);
}

absl::StatusOr<double> ScoreRulerMatchAll(const MetricInput& input) {
  const absl::StatusOr<std::ptrdiff_t> found = CountReferencesInside(input);
  if (!found.ok()) return found.status();
  return static_cast<double>(*found) / input.gold.size();
}

absl::StatusOr<double> ScoreRulerMatchPart(const MetricInput& input) {
  const absl::StatusOr<std::ptrdiff_t> found = CountReferencesInside(input);
  if (!found.ok()) return found.status();
  return *found > 0 ? 1.0 : 0.0;
}

}  // namespace varifocal::ruler
