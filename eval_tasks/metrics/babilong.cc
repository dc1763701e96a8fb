// BABILong: the right label, and no other, is in the first sentence.
//
// Labels are found as parts of words: "office" in "officer", "no" in "north". Those in the question do not count.
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

absl::StatusOr<double> ScoreLabels(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  ASSIGN_OR_RETURN(const std::string written, GetString(reference, "target"));
  ASSIGN_OR_RETURN(const std::string asked, GetString(reference, "question"));
  ASSIGN_OR_RETURN(const std::vector<std::string> labels, ReferenceTexts(reference, "labels"));
  const std::string lower = PythonLower(input.output);
  absl::string_view output = lower;
  for (absl::string_view end : {".", "<context>", "<example>"}) output = output.substr(0, output.find(end));
  const std::string target = PythonLower(written), question = PythonLower(asked);
  std::set<std::string> found;
  for (const std::string& label : labels) {
    const std::string name = PythonLower(label);
    if (absl::StrContains(output, name) && !absl::StrContains(question, name)) found.insert(name);
  }
  std::vector<std::string> targets = {target};
  if (absl::StrContains(target, ',') && CountCharacters(target) > 3) targets = absl::StrSplit(target, ',');
  for (const std::string& part : targets) {
    if (found.count(part) == 0) return 0;
  }
  return found.size() == targets.size();
}

}  // namespace

std::vector<Metric> BabilongMetrics() {
  return {BenchmarkMetric("babilong/labels", "BABILong: the first sentence has the right label and no other", true,
                          &ScoreLabels)};
}

}  // namespace varifocal
