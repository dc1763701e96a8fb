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

template <typename IsRight>
absl::StatusOr<double> AnyGoldAnswer(const MetricInput& input, const IsRight& is_right) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  Response response = {input.output, PythonStrip(input.output), ""};
  response.last_line = response.stripped.substr(response.stripped.rfind('\n') + 1);  // npos + 1 is 0
  const auto field = reference.find("gold_answers");
  const bool is_text = field != reference.end() && field->is_string();
  if (!is_text) {
    ASSIGN_OR_RETURN(const std::vector<std::string> answers, ReferenceTexts(reference, "gold_answers"));
    return std::any_of(answers.begin(), answers.end(),
                       [&](const std::string& gold) { return is_right(response, gold, false); });
  }
  return is_right(response, field->get<std::string>(), true);
}

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

absl::StatusOr<double> ScoreGoldInside(const MetricInput& input) {
  return AnyGoldAnswer(
      input, [](const Response& r, const std::string& gold, bool text) { return ContainsGold(r.text, gold, text); });
}
absl::StatusOr<double> ScoreWholeAnswer(const MetricInput& input) {
  return AnyGoldAnswer(
      input, [](const Response& r, const std::string& gold, bool text) { return EqualsGold(r.stripped, gold, text); });
}
absl::StatusOr<double> ScoreLastLineInside(const MetricInput& input) {
  return AnyGoldAnswer(input, [](const Response& r, const std::string& gold, bool text) {
    return ContainsGold(r.last_line, gold, text);
  });
}
absl::StatusOr<double> ScoreLastLineWhole(const MetricInput& input) {
  return AnyGoldAnswer(
      input, [](const Response& r, const std::string& gold, bool text) { return EqualsGold(r.last_line, gold, text); });
}

}  // namespace

std::vector<Metric> NolimaMetrics() {
  return {
      BenchmarkMetric("nolima/contains", "NoLiMa: the answer has a gold answer in it", true, &ScoreGoldInside),
      BenchmarkMetric("nolima/EM", "NoLiMa: the answer is a gold answer", true, &ScoreWholeAnswer),
      BenchmarkMetric("nolima/lastline_contains", "NoLiMa: its last line has one in it", true, &ScoreLastLineInside),
      BenchmarkMetric("nolima/lastline_EM", "NoLiMa: its last line is one", true, &ScoreLastLineWhole)};
}

}  // namespace varifocal
