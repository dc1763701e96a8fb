#include "client/report/page/page.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/embedded.h"
#include "client/report/charts/figure.h"
#include "client/report/charts/length_figures.h"
#include "client/report/charts/line_chart.h"
#include "client/report/charts/sweep_figures.h"
#include "client/report/data/axis.h"
#include "client/report/data/sweep.h"
#include "client/report/data/text_format.h"
#include "client/report/page/arm_tables.h"
#include "client/report/page/arm_verdict.h"
#include "client/report/page/attention_section.h"
#include "client/report/page/brief.h"
#include "client/report/page/caveats.h"
#include "client/report/page/comparison_table.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/depth_map.h"
#include "client/report/page/effective_length_table.h"
#include "client/report/page/group_section.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/plain_table.h"
#include "client/report/page/sample_browser.h"
#include "client/report/page/score_table.h"
#include "client/report/page/sweep_section.h"
#include "client/report/page/template.h"
#include "client/report/page/verdict.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

namespace varifocal {

EmbeddedFiles Embedded_ReportAssets();

namespace report {
namespace {

// The verdicts as the header shows them: arms over their seeds first, in place of one for each run; a sweep is one, in
// place of one for each temperature.
Json Verdicts(const ReportData& data, const std::vector<Sweep>& sweeps) {
  Json shown = Json::array();
  std::vector<Verdict> of_sweeps;
  std::vector<std::string> of_runs;
  const auto add_brief = [](const Brief& brief, const std::string& name, int color, Json& verdict) {
    verdict["brief"] = brief.text;
    verdict["note"] = brief.note;
    verdict["name"] = name;
    verdict["html"] = ColourOutcomes(brief.text);
    if (color >= 0) verdict["swatch"] = absl::StrCat("c", color % kChartColorCount);
  };
  for (const ArmVerdict& verdict : ArmVerdicts(data.arms)) {
    shown.push_back({{"tone", verdict.tone}, {"headline", verdict.headline}, {"details", verdict.details}});
    add_brief({verdict.brief, ""}, verdict.candidate, -1, shown.back());
  }
  for (const Verdict& verdict : MakeVerdicts(data)) {
    if (data.arms.IsReplicate(verdict.candidate)) {
      of_runs.push_back(verdict.headline);
      continue;
    }
    if (data.swept.count(verdict.candidate) > 0) {
      of_sweeps.push_back(verdict);
      continue;
    }
    shown.push_back({{"tone", verdict.tone}, {"headline", verdict.headline}, {"details", verdict.details}});
    if (const CandidateComparison* comparison = ComparisonFor(data, verdict.candidate))
      add_brief(MakeBrief(*comparison, data), verdict.candidate, data.ColorOf(verdict.candidate), shown.back());
  }
  Json of_variants = std::exchange(shown, Json::array());
  for (size_t s = 0; s < sweeps.size(); ++s) {
    const Sweep& sweep = sweeps[s];
    Json sentences = Json::array();
    for (const SweepPoint& point : sweep.points) {
      for (const Verdict& verdict : of_sweeps) {
        if (verdict.candidate == data.variants[point.variant_index].name) sentences.push_back(verdict.headline);
      }
    }
    if (sentences.empty()) continue;
    const std::string choice = ChoiceSentence(data.choices[s], sweeps[s], data);
    shown.push_back({{"tone", "unknown"},
                     {"headline", SweepHeadline(sweep, data)},
                     {"details", choice.empty() ? Json::array() : Json::array({choice})},
                     {"more", {{"sentences", std::move(sentences)}}}});
    add_brief(MakeSweepBrief(data.choices[s], sweep, data), SweepName(sweep), SweepColor(sweeps, s, data),
              shown.back());
  }
  shown.insert(shown.end(), of_variants.begin(), of_variants.end());  // a sweep is what its job is about
  if (!of_runs.empty()) {
    shown.push_back({{"tone", "unknown"},
                     {"headline", Sentence("single_runs", {{"baseline", data.baseline}})},
                     {"details", {Sentence("single_runs_note")}},
                     {"more", {{"sentences", of_runs}}}});
  }
  return shown;
}

// Verdicts with a place on the first screen.
Json Briefs(const Json& verdicts) {
  Json briefs = Json::array();
  for (const Json& verdict : verdicts) {
    if (verdict.contains("brief")) briefs.push_back(verdict);
  }
  if (briefs.size() <= kOpenCandidateCountMax) return briefs;
  // Of many those first that are decided.
  std::stable_partition(briefs.begin(), briefs.end(), [](const Json& brief) {
    return brief["tone"] == "mixed" || brief["tone"] == "better" || brief["tone"] == "worse";
  });
  return briefs;
}

// "focal and 3 more against baseline"
std::string PageTitle(const ReportData& data, const std::vector<Sweep>& sweeps) {
  constexpr size_t kNamedMax = 3;
  std::vector<std::string> names;
  for (const Sweep& sweep : sweeps) names.push_back(SweepName(sweep));
  for (const CandidateComparison& comparison : data.comparisons) {
    const bool is_in_sweep = std::any_of(sweeps.begin(), sweeps.end(), [&](const Sweep& sweep) {
      return std::any_of(sweep.points.begin(), sweep.points.end(), [&](const SweepPoint& point) {
        return data.variants[point.variant_index].name == comparison.candidate;
      });
    });
    if (!is_in_sweep) names.push_back(comparison.candidate);
  }
  return Sentence("page_title", {{"candidates", ShortList(std::move(names), kNamedMax)},
                                 {"baseline", data.baseline},
                                 {"metric", data.chosen_metric}});
}

// Small multiples in place of a figure with too many series.
std::string ChartGrid(const std::vector<Figure>& figures, const std::string& id, const std::string& baseline,
                      const std::string& caption) {
  std::string charts, small;
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::vector<Figure> parts = SmallMultiples(figures[i], baseline);
    for (size_t part = 0; part < parts.size(); ++part) {
      const bool is_whole = parts.size() == 1;
      const std::string chart = is_whole ? DrawChart(parts[part], absl::StrCat(id, i))
                                         : DrawChart(parts[part], absl::StrCat(id, i, "-", part), kSmallChart);
      if (!chart.empty()) absl::StrAppend(is_whole ? &charts : &small, "<div class=\"cell\">", chart, "</div>\n");
    }
  }
  if (charts.empty() && small.empty()) return "";
  return absl::StrCat("<figure>", charts.empty() ? "" : absl::StrCat("<div class=\"grid\">\n", charts, "</div>\n"),
                      small.empty() ? "" : absl::StrCat("<div class=\"grid small\">\n", small, "</div>\n"),
                      "<figcaption>", caption, "</figcaption></figure>\n");
}

// The pictures of the first screen: the score by each value of a sweep, or the differences by length.
std::string FirstPicture(const ReportData& data, const std::vector<Sweep>& sweeps) {
  std::string charts;
  if (!sweeps.empty()) {
    const std::vector<Figure> figures = SweepFigures(sweeps, data);
    for (size_t i = 0; i < figures.size(); ++i) {
      const std::string chart = DrawChart(figures[i], absl::StrCat("sweep", i), kSmallChart);
      if (!chart.empty()) absl::StrAppend(&charts, "<div class=\"cell\">", chart, "</div>\n");
    }
    const std::string noun = SweptNoun(sweeps);
    return charts.empty()
               ? ""
               : absl::StrCat("<figure><div class=\"grid small\">\n", charts, "</div>\n<figcaption>",
                              EscapeHtml(Sentence("sweep_caption", {{"is_temperature", noun == "temperature"},
                                                                    {"baseline", data.baseline},
                                                                    {"noun", noun}})),
                              "</figcaption></figure>\n");
  }
  const Figure figure = SuiteDifferenceFigure(data);
  const std::string caption =
      EscapeHtml(Sentence("suite_difference_caption", {{"confidence", ConfidenceLabel(data.confidence)},
                                                       {"lacks_interval", LacksInterval({figure})}}));
  if (std::ssize(figure.series) > kChartColorCount) return ChartGrid({figure}, "suite", data.baseline, caption);
  const std::string chart = DrawChart(figure, "suite", kFirstChart);
  if (chart.empty()) return "";
  // Phones show the narrow one, whose font size matches the surrounding text.
  return absl::StrCat("<figure><div class=\"only-wide\">", chart, "</div><div class=\"only-narrow\">",
                      DrawChart(figure, "suite-narrow", kNarrowChart), "</div><figcaption>", caption,
                      "</figcaption></figure>\n");
}

std::string HowToRead(const ReportData& data) {
  Json labels = Json::array(), kinds = Json::array();
  for (const stats::Label& label : stats::LabelTable())
    labels.push_back({{"word", label.word}, {"sentence", label.sentence}});
  for (const db::AnswerKind& kind : db::kAnswerKinds) kinds.push_back({{"name", kind.name}, {"meaning", kind.meaning}});
  return FillTemplate("reading.html", {{"baseline", data.baseline},
                                       {"adjustment", AdjustmentLabel(data)},
                                       {"labels", std::move(labels)},
                                       {"kinds", std::move(kinds)},
                                       {"has_arms", !data.arms.table.arms().arms.empty()}});
}

}  // namespace

std::vector<Json> VerdictJson(const ReportData& data) {
  std::vector<Json> rows;
  for (const Json& verdict : Verdicts(data, FindSweeps(data)))
    rows.push_back({{"kind", "verdict"},
                    {"headline", verdict["headline"]},
                    {"details", verdict["details"]},
                    {"brief", verdict.value("brief", Json())},
                    {"brief_note", verdict.value("note", Json())}});
  return rows;
}

std::string ReportPage(const ReportData& data) {
  const std::vector<Sweep> sweeps = FindSweeps(data);
  std::string overview;
  if (data.tasks.size() > 1 && !SuiteDifferenceFigure(data).series.empty())
    overview = absl::StrCat(SuiteTableHtml(data, /*of_swept=*/false), "<p class=\"note\">",
                            EscapeHtml(TestingNote(data)), "</p>\n");
  std::string sweep;
  const std::string noun = SweptNoun(sweeps);
  if (!sweeps.empty()) {
    absl::StrAppend(&sweep, ChoiceTableHtml(sweeps, data), "<h3>Every ", noun, "</h3>\n", SweepTableHtml(sweeps, data),
                    data.tasks.size() < 2
                        ? ""
                        : absl::StrCat("<h3>Every task</h3>\n",
                                       ChartGrid(SweepTaskFigures(sweeps, data), "sweep-task", data.baseline,
                                                 EscapeHtml(Sentence("sweep_tasks_caption")))),
                    "<details><summary>Their tests</summary>\n", SuiteTableHtml(data, /*of_swept=*/true),
                    "</details>\n<p class=\"note\">", EscapeHtml(TestingNote(data)), "</p>\n");
  }
  // Of a sweep's variants the baseline alone would be left, which every drawing of the sweep has.
  const bool is_all_swept = !data.comparisons.empty() && data.swept.size() == data.comparisons.size();
  const std::string scores =
      is_all_swept ? ""
                   : ChartGrid(ScoreFigures(data), "score", data.baseline,
                               EscapeHtml(Sentence("scores_caption", {{"has_worst_value", data.HasWorstValue()},
                                                                      {"lacks_worst_value", data.LacksWorstValue()}})));
  const std::vector<Figure> difference_figures = DifferenceFigures(data);
  const std::string differences = ChartGrid(
      difference_figures, "difference", data.baseline,
      EscapeHtml(Sentence("differences_caption",
                          {{"baseline", data.baseline}, {"lacks_interval", LacksInterval(difference_figures)}})));
  std::string table = ComparisonTableHtml(data, true);
  if (!table.empty()) absl::StrAppend(&table, "<p class=\"note\">", EscapeHtml(TestingNote(data)), "</p>\n");
  if (const std::string others = ComparisonTableHtml(data, false); !others.empty()) {
    absl::StrAppend(&table, "<details><summary>The same for the other metrics</summary>\n", others, "</details>\n");
  }
  if (!table.empty())
    table = absl::StrCat("<details class=\"fold\"><summary>", Sentence("table_summary"), "</summary>\n", table,
                         "</details>\n");
  std::string growth = ContrastTableHtml(data);
  if (!growth.empty()) {
    absl::StrAppend(&growth, "<p class=\"note\">", EscapeHtml(Sentence("growth_note")), "</p>\n");
  }
  Json sections = Json::array();
  const auto add = [&](const std::string& id, std::string body, Json of_title = Json::object()) {
    of_title[id] = true;
    if (!body.empty())
      sections.push_back({{"id", id}, {"title", Sentence("section", of_title)}, {"body", std::move(body)}});
  };
  add("arms", ArmsHtml(data.arms));
  for (const AxisReport& axis : data.arms.axes)
    add(absl::StrCat("axis-", axis.axis->name), AxisHtml(data.arms, axis), {{"axis", axis.axis->title}});
  add("suite", std::move(overview));
  add("sweep", std::move(sweep), {{"is_temperature", noun == "temperature"}});
  add("scores", scores);
  add("score-table", data.comparisons.empty() ? ScoreTableHtml(data) : "");
  add("differences", differences);
  add("table", std::move(table));
  add("growth", std::move(growth));
  add("effective-length", EffectiveLengthHtml(data));
  add("attention", AttentionHtml(data));
  add("groups", GroupTableHtml(data.groups, data.VariantNames()));
  add("thinking", PlainTableHtml(ThinkingCosts(data)));
  add("agreement", PlainTableHtml(ScoreAgreement(data)));
  add("depth", DepthMapsHtml(data));
  add("samples-section", SampleBrowserHtml(data));
  if (!data.samples.empty()) sections.back()["link"] = "samples";  // within what is folded: the link opens it
  add("reading", HowToRead(data));
  add("provenance", ProvenanceHtml(data));
  Json labels = Json::array();
  for (const Label& label : MakeLabels(data))
    labels.push_back({{"name", label.name}, {"explanation", label.explanation}});
  Json verdicts = Verdicts(data, sweeps);
  Json briefs = Briefs(verdicts);
  std::string lengths = LengthTableHtml(data);
  if (!lengths.empty() && data.comparisons.size() - data.swept.size() > kOpenCandidateCountMax)
    lengths = absl::StrCat("<details><summary>", EscapeHtml(Sentence("length_table", {{"baseline", data.baseline}})),
                           "</summary>\n", lengths, "</details>\n");
  return FillTemplate("page.html", {{"suite", data.job.suite},
                                    {"job_id", data.job.job_id},
                                    {"time", TimeLabel(data.job.create_us)},
                                    {"contexts", ContextsText(data)},
                                    {"baseline", data.baseline},
                                    {"alone", verdicts.empty()},
                                    {"verdicts", std::move(verdicts)},
                                    {"title", PageTitle(data, sweeps)},
                                    {"many", briefs.size() > kOpenCandidateCountMax},
                                    {"briefs", std::move(briefs)},
                                    {"picture", FirstPicture(data, sweeps)},
                                    {"lengths", std::move(lengths)},
                                    {"has_labels", !labels.empty()},
                                    {"labels", std::move(labels)},
                                    {"sections", std::move(sections)},
                                    {"style", Embedded_ReportAssets().Text("page.css")},
                                    {"script", Embedded_ReportAssets().Text("page.js")}});
}

}  // namespace report
}  // namespace varifocal
