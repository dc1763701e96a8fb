#include "client/report/page/sweep_section.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

std::string ValueLabel(double value) { return absl::StrCat(value); }

// The values that are compared with the baseline: how many, the first and the last.
Json SpanOf(const Sweep& sweep) {
  std::vector<double> values;
  for (const SweepPoint& point : sweep.points) {
    if (point.variant_index != 0) values.push_back(point.value);
  }
  return {{"model", SweptModel(sweep)},
          {"count", values.size()},
          {"values", sweep.setting->plural},
          {"first", ValueLabel(values.front())},
          {"last", ValueLabel(values.back())}};
}

}  // namespace

std::string SweepHeadline(const Sweep& sweep, const ReportData& data) {
  std::vector<std::string> outcomes;
  std::set<int64_t> lengths;
  bool is_any_finished = false;
  int64_t rest_count = 0;
  std::set<std::string> kinds;  // of answers that outcomes rest on
  for (const SweepPoint& point : sweep.points) {
    const CandidateComparison* comparison = ComparisonFor(data, data.variants[point.variant_index].name);
    if (comparison == nullptr) continue;
    for (const stats::SuiteComparison& row : comparison->report.suite) {
      outcomes.push_back(OutcomeLabel(row));
      lengths.insert(row.context_length);
      is_any_finished |= !row.is_unfinished;
      const std::vector<AnswersBehind> behind = KindsBehind(row, SidesOf(row, data.answers, data.tested));
      rest_count += !behind.empty();
      for (const AnswersBehind& kind : behind) kinds.insert(kind.answers);
    }
  }
  return Sentence("sweep_headline", {{"span", Sentence("sweep_name", SpanOf(sweep))},
                                     {"baseline", data.baseline},
                                     {"length_count", lengths.size()},
                                     {"is_one_length", lengths.size() == 1},
                                     {"has_answers", !outcomes.empty()},
                                     {"yet", data.IsEnded() ? "" : " yet"},
                                     {"outcomes", is_any_finished ? OutcomeCounts(outcomes) : ""},
                                     {"rest_count", rest_count == 0 ? Json() : Json(rest_count)},
                                     {"rests_one", rest_count == 1},
                                     {"kinds", absl::StrJoin(kinds, " or ")}});
}

std::string SweepName(const Sweep& sweep) { return Sentence("sweep_name", SpanOf(sweep)); }

std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data) {
  Json values = {{"lengths", Json::array()},
                 {"rows", Json::array()},
                 {"has_models", sweeps.size() > 1},
                 {"symbol", sweeps.empty() || ByAxis(sweeps).size() > 1 ? "value" : SymbolOf(*sweeps.front().setting)}};
  for (int64_t length : data.lengths) values["lengths"].push_back(data.Length("", length));
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const std::string& name = data.variants[point.variant_index].name;
      Json row = {{"model", SweepLabel(sweep)},
                  {"first", &point == &sweep.points.front()},
                  {"has_models", sweeps.size() > 1},
                  {"value", ValueLabel(point.value)},
                  {"note", point.is_as_trained ? "as trained" : ""},
                  {"cells", Json::array()}};
      for (int64_t length : data.lengths) {
        Json cell = {{"mean", "\u2014"}};
        const stats::SuiteComparison* found = SuiteRow(data, name, length);
        if (point.variant_index == 0) {
          if (const std::optional<double> mean = BaselineMean(data, length)) cell["mean"] = Unsigned(*mean * 100, 1);
          cell["outcome"] = "baseline";
        } else if (found != nullptr) {
          cell["mean"] = Unsigned(found->candidate_mean * 100, 1);
          cell["difference"] = Signed(found->difference * 100, 1);
          cell["outcome"] = OutcomeLabel(*found);
          cell["strong"] = found->outcome == stats::Outcome::kBetter || found->outcome == stats::Outcome::kWorse;
          const InferenceCells cells = MakeInferenceCells(*found, 100, 1);
          cell["tone"] = cells.tone;
          if (!cells.untested.empty()) cell["range"] = cells.untested;
          if (cells.range != kNoValue) cell["range"] = cells.range;
          cell["counts"] = CountsNote(data.answers.Of(name, "", length));
        }
        row["cells"].push_back(std::move(cell));
      }
      values["rows"].push_back(std::move(row));
    }
  }
  return FillTemplate("sweep_table.html", values);
}

std::string ChoiceSentence(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data) {
  std::vector<std::string> parts, kept;
  int64_t test_count = 0;
  for (const stats::Choice& choice : choices) {
    const SweepPoint* point = PointOf(choice, sweep, data);
    const stats::SuiteComparison& row = choice.confirmation;
    if (choice.is_baseline) kept.push_back(data.Length("", row.context_length));
    if (point == nullptr || row.is_unfinished || !row.can_infer) continue;
    test_count = row.test_count;
    parts.push_back(Sentence("choice_clause", {{"symbol", SymbolOf(*sweep.setting)},
                                               {"value", ValueLabel(point->value)},
                                               {"is_as_trained", point->is_as_trained},
                                               {"length", data.Length("", row.context_length)},
                                               {"failures_decide", row.failures_decide},
                                               {"outcome", OutcomeLabel(row)},
                                               {"difference", Signed(row.difference * 100, 1)},
                                               {"untested", UntestedNote(row)},
                                               {"low", Signed(row.adjusted_low * 100, 1)},
                                               {"high", Signed(row.adjusted_high * 100, 1)},
                                               {"p", PEquals(row.p_adjusted)}}));
  }
  std::vector<std::string> sentences;
  if (!parts.empty()) {
    sentences.push_back(Sentence("choice_tested", {{"baseline", data.baseline},
                                                   {"list", JoinWithAnd(parts)},
                                                   {"test_count", test_count > 1 ? Json(test_count) : Json()}}));
  }
  if (!kept.empty()) {
    sentences.push_back(Sentence(
        "choice_kept", {{"lengths", JoinWithAnd(kept)}, {"noun", sweep.setting->noun}, {"baseline", data.baseline}}));
  }
  return absl::StrJoin(sentences, " ");
}

std::string ChoiceTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::string rows;
  for (size_t s = 0; s < std::min(sweeps.size(), data.choices.size()); ++s) {
    for (const stats::Choice& choice : data.choices[s]) {
      const SweepPoint* point = PointOf(choice, sweeps[s], data);
      if (point == nullptr) continue;
      const stats::SuiteComparison& row = choice.confirmation;
      const std::string untested = row.is_unfinished || !row.can_infer ? DesignNote(row) : UntestedNote(row);
      absl::StrAppend(&rows, "<tr><td>", EscapeHtml(SweepLabel(sweeps[s])), "</td><td>",
                      data.Length("", row.context_length), "</td><td class=\"n\">", ValueLabel(point->value),
                      point->is_as_trained ? "<small>as trained</small>" : "", "</td><td class=\"n minor\">",
                      Signed(choice.choice_difference * 100, 1), "<small>", CountLabel(choice.choice_cluster_count),
                      choice.choice_cluster_count == 1 ? " cluster" : " clusters", "</small></td>",
                      choice.is_baseline || (point->is_as_trained && !untested.empty())
                          ? absl::StrCat("<td colspan=\"5\">",
                                         EscapeHtml(Sentence("choice_not_tested", {{"is_baseline", choice.is_baseline},
                                                                                   {"note", untested},
                                                                                   {"noun", sweeps[s].setting->noun}})),
                                         "</td>")
                          : absl::StrCat(InferenceHtml(MakeInferenceCells(row, 100, 1)), "<td class=\"n minor\">",
                                         CountLabel(row.cluster_count), "</td>"),
                      "</tr>\n");
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat("<h3>Chosen on one half, tested on the other</h3>\n", ScrollBegin("Chosen values"),
                      "<table class=\"data\">"
                      "<thead><tr><th>Model</th><th>Length</th><th class=\"n\">Chosen</th><th class=\"n minor\">"
                      "Difference<small>where chosen</small></th>",
                      InferenceHeads(data.confidence, "Tested"),
                      "<th class=\"n minor\">Clusters</th></tr></thead><tbody>\n", rows,
                      "</tbody></table></div>\n<p class=\"note\">", EscapeHtml(Sentence("choice_note")), "</p>\n");
}

}  // namespace varifocal::report
