#include "client/report/page.h"

#include "absl/strings/str_cat.h"
#include "base/embedded.h"
#include "client/report/comparison_table.h"
#include "client/report/sample_browser.h"
#include "client/report/score_table.h"
#include "client/report/svg_chart.h"
#include "client/report/text_format.h"
#include "client/report/verdict.h"

namespace varifocal {

EmbeddedFiles Embedded_ReportAssets();

namespace report {
namespace {

std::string Asset(absl::string_view name) {
  for (const EmbeddedFile& file : Embedded_ReportAssets()) {
    if (name == file.name) return std::string(file.data, file.size);
  }
  return "";
}

std::string Section(const char* id, absl::string_view title, const std::string& body) {
  return body.empty() ? "" : absl::StrCat("<section id=\"", id, "\"><h2>", title, "</h2>\n", body, "</section>\n");
}

std::string Header(const ReportData& data) {
  std::string out = absl::StrCat("<header>\n<p class=\"eyebrow\">Varifocal \u00B7 suite ", EscapeHtml(data.job.suite),
                                 " \u00B7 job ", data.job.job_id, " \u00B7 ", TimeLabel(data.job.create_us), "</p>\n");
  const std::vector<Verdict> verdicts = MakeVerdicts(data);
  if (verdicts.empty()) {
    absl::StrAppend(&out, "<h1>", EscapeHtml(data.baseline),
                    " alone: its job has no second variant to compare it with.</h1>\n<p>A variant of another job that "
                    "was asked the same questions can stand beside it: <code>--baseline=JOB/NAME --candidates=",
                    data.job.job_id, "/", EscapeHtml(data.baseline), "</code>.</p>\n");
  }
  for (size_t i = 0; i < verdicts.size(); ++i) {
    const Verdict& verdict = verdicts[i];
    absl::StrAppend(&out, "<div class=\"verdict ", verdict.tone, "\">\n", i == 0 ? "<h1>" : "<p class=\"headline\">",
                    EscapeHtml(verdict.headline), i == 0 ? "</h1>\n" : "</p>\n");
    for (const std::string& detail : verdict.details) absl::StrAppend(&out, "<p>", EscapeHtml(detail), "</p>\n");
    out += "</div>\n";
  }
  const std::vector<Label> labels = MakeLabels(data);
  if (!labels.empty()) {
    out += "<ul class=\"labels\">\n";
    for (const Label& label : labels) {
      absl::StrAppend(&out, "<li><b>", EscapeHtml(label.name), "</b> ", EscapeHtml(label.explanation), "</li>\n");
    }
    out += "</ul>\n";
  }
  return out + "</header>\n";
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
      "differences (Holm); the outcome is decided by it.</li>\n"
      "<li><b>Outcome</b> is better, worse, equivalent (the difference lies within the margin, by two one-sided tests) "
      "or undecided. Undecided does not mean equal. <b>Detectable</b> is the smallest true difference that this many "
      "clusters would find four times out of five, at the adjusted level.</li>\n"
      "<li><b>A failed answer</b> counts as the worst value, never as missing, so that a sick run cannot look better. "
      "<b>Extrapolated</b> lengths lie beyond what the model was trained with.</li>\n</ul>\n");
}

}  // namespace

std::string ReportPage(const ReportData& data) {
  const Figure suite = SuiteDifferenceFigure(data);
  std::string overview;
  if (data.tasks.size() > 1) {
    const std::string chart = DrawChart(suite, "suite", {.width = 760, .height = 300});
    if (!chart.empty()) {
      overview = absl::StrCat("<figure>", chart, "<figcaption>", EscapeHtml(suite.caption), "</figcaption></figure>\n");
    }
    if (!suite.series.empty())
      absl::StrAppend(&overview, SuiteTableHtml(data), "<p class=\"note\">", EscapeHtml(TestingNote(data)), "</p>\n");
  }
  const std::string scores = ChartGrid(ScoreFigures(data), "score",
                                       "Mean score by context length with interval bands. A failed answer counts as "
                                       "the worst value; a hollow point stands "
                                       "on fewer samples than planned.");
  const std::string differences =
      ChartGrid(DifferenceFigures(data), "difference",
                absl::StrCat("Candidate minus ", EscapeHtml(data.baseline),
                             " on the same questions, with intervals. A filled point's interval leaves out zero."));
  std::string table;
  table = ComparisonTableHtml(data, true);
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
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "script-src 'unsafe-inline'\">\n<title>Varifocal: ",
      EscapeHtml(data.job.suite), ", job ", data.job.job_id, "</title>\n<style>\n", Asset("page.css"),
      "</style></head>\n<body><main>\n", Header(data), Section("suite", "Over all tasks", overview),
      Section("scores", "Score by context length", scores),
      Section("score-table", "Every score", data.versus.empty() ? ScoreTableHtml(data) : ""),
      Section("differences", "Difference by context length", differences), Section("table", "Every comparison", table),
      Section("growth", "Does the difference grow with the context?", growth),
      Section("samples-section", "Samples", SampleBrowserHtml(data)),
      Section("reading", "How to read a number", HowToRead(data)),
      Section("provenance", "Where the numbers come from", ProvenanceHtml(data)), "</main>\n<script>\n",
      Asset("page.js"), "</script>\n</body></html>\n");
}

}  // namespace report
}  // namespace varifocal
