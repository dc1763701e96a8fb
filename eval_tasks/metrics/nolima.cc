// NoLiMa. `contains` is the published measure.
#include <algorithm>
#include <string>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

struct Response {
  std::string text, stripped, last_line;
};

// Of one text, upstream asks whether the answer is a part of it.
bool EqualsGold(absl::string_view answer, absl::string_view gold, bool is_text) {
  return is_text ? absl::StrContains(gold, answer) : answer == gold;
}

// Of one text, upstream asks whether any of its characters is in the answer.
bool ContainsGold(absl::string_view answer, absl::string_view gold, bool is_text) {
  if (!is_text) return absl::StrContains(answer, gold);
  const PythonText characters = ToPythonText(gold);
  return std::any_of(characters.begin(), characters.end(),
                     [&](CodePoint character) { return absl::StrContains(answer, ToUtf8(PythonText{character})); });
}

template <std::string Response::*part, bool (*is_right)(absl::string_view, absl::string_view, bool)>
absl::StatusOr<double> AnyGoldAnswer(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  Response response = {input.output, PythonStrip(input.output), ""};
  response.last_line = response.stripped.substr(response.stripped.rfind('\n') + 1);  // npos + 1 is 0
  const auto field = reference.find("gold_answers");
  const bool is_text = field != reference.end() && field->is_string();
  if (!is_text) {
    ASSIGN_OR_RETURN(const std::vector<std::string> answers, ReferenceTexts(reference, "gold_answers"));
    return std::any_of(answers.begin(), answers.end(),
                       [&](const std::string& gold) { return is_right(response.*part, gold, false); });
  }
  return is_right(response.*part, field->get<std::string>(), true);
}

}  // namespace

std::vector<Metric> NolimaMetrics() {
  return {BenchmarkMetric("nolima/contains", "NoLiMa: the answer has a gold answer in it", true,
                          &AnyGoldAnswer<&Response::text, &ContainsGold>),
          BenchmarkMetric("nolima/EM", "NoLiMa: the answer is a gold answer", true,
                          &AnyGoldAnswer<&Response::stripped, &EqualsGold>),
          BenchmarkMetric("nolima/lastline_contains", "NoLiMa: its last line has one in it", true,
                          &AnyGoldAnswer<&Response::last_line, &ContainsGold>),
          BenchmarkMetric("nolima/lastline_EM", "NoLiMa: its last line is one", true,
                          &AnyGoldAnswer<&Response::last_line, &EqualsGold>)};
}

}  // namespace varifocal
