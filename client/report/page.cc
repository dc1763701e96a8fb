#include "client/report/page.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/embedded.h"
#include "client/report/attention_table.h"
#include "client/report/comparison_table.h"
#include "client/report/depth_map.h"
#include "client/report/effective_length_table.h"
#include "client/report/group_table.h"
#include "client/report/sample_browser.h"
#include "client/report/score_table.h"
#include "client/report/svg_chart.h"
#include "client/report/sweep.h"
#include "client/report/template.h"
#include "client/report/text_format.h"
#include "client/report/verdict.h"

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
  for (const ArmVerdict& verdict : ArmVerdicts(data.arms))
    shown.push_back({{"tone", verdict.tone}, {"headline", verdict.headline}, {"details", verdict.details}});
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
  }
  for (const Sweep& sweep : sweeps) {
    Json sentences = Json::array();
    for (const SweepPoint& point : sweep.points) {
      for (const Verdict& verdict : of_sweeps) {
        if (verdict.candidate == data.variants[point.variant_index].name) sentences.push_back(verdict.headline);
      }
    }
    if (sentences.empty()) continue;
    shown.push_back({{"tone", "unknown"},
                     {"headline", SweepHeadline(sweep, data)},
                     {"details",
                      {"By temperature: section Temperature sweep. A temperature that is chosen for its score "
                       "here is confirmed on other questions: the same suite with another --seed."}},
                     {"more", {{"sentences", std::move(sentences)}}}});
  }
  if (!of_runs.empty()) {
    shown.push_back({{"tone", "unknown"},
                     {"headline", absl::StrCat("Single runs against ", data.baseline, ", one training run each.")},
                     {"details", {"They say nothing about other seeds; the comparison of arms does."}},
                     {"more", {{"sentences", of_runs}}}});
  }
  if (!shown.empty()) shown.front()["first"] = true;
  return shown;
}

std::string ChartGrid(const std::vector<Figure>& figures, const std::string& id, const std::string& caption) {
  std::string charts;
  for (size_t i = 0; i < figures.size(); ++i) {
    const std::string chart = DrawChart(figures[i], absl::StrCat(id, i));
    if (!chart.empty()) absl::StrAppend(&charts, "<div class=\"cell\">", chart, "</div>\n");
  }
  if (charts.empty()) return "";
  return absl::StrCat("<figure><div class=\"grid\">\n", charts, "</div>\n<figcaption>", caption,
                      "</figcaption></figure>\n");
}

std::string HowToRead(const ReportData& data) {
  const std::string baseline = EscapeHtml(data.baseline);
  return absl::StrCat(
      "<ul class=\"reading\">\n<li><b>A difference</b> is candidate minus ", baseline,
      " on the same questions, in points: from 60 % to 72.5 % is +12.5. Better is up.</li>\n"
      "<li><b>An interval</b> holds the true values that fit the data. It leaves out zero exactly when the p beside it "
      "is below 0.05. Where fewer than three contexts differ from the rest it is widened by the spread seen at other "
      "lengths.</li>\n"
      "<li><b>A cluster</b> is a set of questions that share one context. Their answers depend on each other, so "
      "clusters, not questions, are counted as evidence.</li>\n"
      "<li><b>p</b> is how often a difference this large comes up when there is none (t test over clusters). <b>Sign "
      "flips</b> is the same by tossing a coin for each cluster's sign: a check that assumes less. Where one is below "
      "0.05 and the other is not, the row is <b>fragile</b>. <b>p adjusted</b> pays for having looked at several "
      "differences (",
      EscapeHtml(AdjustmentLabel(data)),
      "); the outcome is decided by it.</li>\n"
      "<li><b>Outcome</b> is better, worse, equivalent (the difference lies within the margin, by two one-sided tests) "
      "or undecided. Undecided does not mean equal. <b>Detectable</b> is the smallest true difference that this many "
      "clusters would find four times out of five, at the adjusted level.</li>\n"
      "<li><b>A failed answer</b> counts as the worst value, never as missing, so that a sick run cannot look better. "
      "<b>Extrapolated</b> lengths lie beyond what the model was trained with.</li>\n</ul>\n");
}

}  // namespace

std::string ReportPage(const ReportData& data) {
  const std::vector<Sweep> sweeps = FindSweeps(data);
  std::string overview;
  if (data.tasks.size() > 1) {
    const Figure suite = SuiteDifferenceFigure(data);
    // Two renderings of one figure: phones show the narrow one, whose font size matches the surrounding text.
    const std::string wide = DrawChart(suite, "suite", {.width = 760, .height = 300});
    const std::string narrow = DrawChart(suite, "suite-narrow", {.width = 380, .height = 280});
    if (!wide.empty()) {
      overview = absl::StrCat("<figure><div class=\"only-wide\">", wide, "</div><div class=\"only-narrow\">", narrow,
                              "</div><figcaption>", EscapeHtml(suite.caption), "</figcaption></figure>\n");
    }
    if (!suite.series.empty())
      absl::StrAppend(&overview, SuiteTableHtml(data, /*of_swept=*/false), "<p class=\"note\">",
                      EscapeHtml(TestingNote(data)), "</p>\n");
  }
  std::string sweep;
  if (!sweeps.empty()) {
    sweep =
        ChartGrid(SweepFigures(sweeps, data), "sweep",
                  absl::StrCat("Mean score over tasks by the softmax temperature at run time. Bars are the interval of "
                               "the difference to ",
                               EscapeHtml(data.baseline),
                               " around each score; a filled point is better or worse after adjusting. A checkpoint "
                               "as it was trained is the point at its own temperature."));
    absl::StrAppend(&sweep, SweepTableHtml(sweeps, data), "<details><summary>Their tests</summary>\n",
                    SuiteTableHtml(data, /*of_swept=*/true), "</details>\n<p class=\"note\">",
                    EscapeHtml(TestingNote(data)), "</p>\n");
  }
  const std::string scores = ChartGrid(ScoreFigures(data), "score",
                                       "Mean score by context length with interval bands; each drawing has its own "
                                       "axis. A failed answer counts as the worst value; a hollow point has fewer "
                                       "samples than planned.");
  const std::string differences =
      ChartGrid(DifferenceFigures(data), "difference",
                absl::StrCat("Candidate minus ", EscapeHtml(data.baseline),
                             " on the same questions, with intervals; each drawing has its own axis. A filled point's "
                             "interval leaves out zero."));
  std::string table = ComparisonTableHtml(data, true);
  if (!table.empty()) absl::StrAppend(&table, "<p class=\"note\">", EscapeHtml(TestingNote(data)), "</p>\n");
  if (const std::string others = ComparisonTableHtml(data, false); !others.empty()) {
    absl::StrAppend(&table, "<details><summary>The same for the other metrics</summary>\n", others, "</details>\n");
  }
  std::string growth = ContrastTableHtml(data);
  if (!growth.empty()) {
    growth +=
        "<p class=\"note\">The same questions at the shortest and at the longest length. These tests are exploratory; "
        "p is adjusted over the means over tasks, and over the single tasks.</p>\n";
  }
  Json sections = Json::array();
  const auto add = [&](const std::string& id, const std::string& title, std::string body) {
    if (!body.empty()) sections.push_back({{"id", id}, {"title", title}, {"body", std::move(body)}});
  };
  add("arms", "Over training seeds", ArmsHtml(data.arms));
  for (const AxisReport& axis : data.arms.axes)
    add(absl::StrCat("axis-", axis.axis->name), absl::StrCat("By ", axis.axis->title), AxisHtml(data.arms, axis));
  add("suite", "Over all tasks", std::move(overview));
  add("sweep", "Temperature sweep", std::move(sweep));
  add("scores", "Score by context length", scores);
  add("score-table", "Every score", data.versus.empty() ? ScoreTableHtml(data) : "");
  add("differences", "Difference by context length", differences);
  add("table", "Every comparison", std::move(table));
  add("growth", "Does the difference grow with the context?", std::move(growth));
  add("effective-length", "Effective context length", EffectiveLengthHtml(data));
  add("attention", "Attention to the evidence", AttentionHtml(data));
  add("groups", "Token groups", GroupTableHtml(data.groups, data.VariantNames()));
  add("depth", "Score by depth of the evidence", DepthMapsHtml(data));
  add("samples-section", "Samples", SampleBrowserHtml(data));
  add("reading", "How to read a number", HowToRead(data));
  add("provenance", "Where the numbers come from", ProvenanceHtml(data));
  Json labels = Json::array();
  for (const Label& label : MakeLabels(data))
    labels.push_back({{"name", label.name}, {"explanation", label.explanation}});
  Json verdicts = Verdicts(data, sweeps);
  return FillTemplate("page.html", {{"suite", data.job.suite},
                                    {"job_id", data.job.job_id},
                                    {"time", TimeLabel(data.job.create_us)},
                                    {"baseline", data.baseline},
                                    {"alone", verdicts.empty()},
                                    {"verdicts", std::move(verdicts)},
                                    {"has_labels", !labels.empty()},
                                    {"labels", std::move(labels)},
                                    {"sections", std::move(sections)},
                                    {"style", Embedded_ReportAssets().Text("page.css")},
                                    {"script", Embedded_ReportAssets().Text("page.js")}});
}

}  // namespace report
}  // namespace varifocal
