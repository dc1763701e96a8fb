#include "client/report/comparison_table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/columns.h"
#include "client/report/perplexity.h"
#include "client/report/text_format.h"
#include "client/report/verdict.h"

namespace varifocal::report {
namespace {

// A row as people read it; all writers but CSV and JSON share it.
struct Cells {
  std::string task, metric, length, candidate, planned, answered, failed, clusters;
  std::string baseline_mean, candidate_mean, difference, low, high, baseline_range, candidate_range;
  std::string p, p_holm, test, detectable;
  std::vector<std::string> labels;
  bool is_significant = false;
};

// The seed of sampled tests stands in the note below the table.
std::string TestName(const std::string& test, int64_t draws) {
  if (test == "sign_flip_exact") return absl::StrCat("exact, ", CountLabel(draws));
  if (test == "sign_flip_sampled") return absl::StrCat(CountLabel(draws), " draws");
  return test;
}

Cells MakeCells(const ReportData& data, const stats::Comparison& row, double p_holm) {
  const double scale = IsShare(data.metric(row.task, row.metric)) ? 100 : 1;
  const int decimals = scale == 100 ? 1 : 3;
  auto range = [&](const stats::Interval& interval) {
    return absl::StrCat(Unsigned(interval.low * scale, decimals), " to ", Unsigned(interval.high * scale, decimals));
  };
  Cells cells;
  cells.task = row.task;
  cells.metric = absl::StrCat(row.metric, scale == 100 ? ", %" : "");
  cells.length = LengthLabel(row.context_length);
  cells.candidate = row.candidate;
  cells.planned = CountLabel(row.planned_count);
  cells.answered = CountLabel(row.sample_count - row.failed_count);
  cells.failed = CountLabel(row.failed_count);
  cells.clusters = CountLabel(row.cluster_count);
  cells.baseline_mean = Unsigned(row.baseline_mean * scale, decimals);
  cells.candidate_mean = Unsigned(row.candidate_mean * scale, decimals);
  cells.baseline_range = range(row.baseline_interval);
  cells.candidate_range = range(row.candidate_interval);
  cells.difference = Signed(row.difference * scale, decimals);
  cells.low = Signed(row.low * scale, decimals);
  cells.high = Signed(row.high * scale, decimals);
  cells.p = PValue(row.p_value);
  cells.p_holm = PValue(p_holm);
  cells.test = TestName(row.test, row.draws);
  cells.detectable =
      row.detectable_difference.has_value() ? Unsigned(*row.detectable_difference * scale, decimals) : "\u2014";
  if (!row.is_primary_metric) cells.labels.push_back("secondary");
  if (row.is_incomplete) cells.labels.push_back("incomplete");
  const bool baseline_beyond = IsExtrapolated(data.variant(row.baseline), row.context_length);
  const bool candidate_beyond = IsExtrapolated(data.variant(row.candidate), row.context_length);
  if (baseline_beyond || candidate_beyond) cells.labels.push_back("extrapolated");
  if (db::IsImported(data.variant(row.baseline)) || db::IsImported(data.variant(row.candidate)))
    cells.labels.push_back("imported");
  cells.is_significant = p_holm <= kSignificance;
  return cells;
}

template <typename Use>
void ForEachRow(const ReportData& data, Use use) {
  for (const Versus& versus : data.versus) {
    for (size_t i = 0; i < versus.report.comparisons.size(); ++i)
      use(versus.report.comparisons[i], versus.rows_holm[i]);
  }
}

// What CSV and JSON hold of a row.
struct ComparisonRow {
  const ReportData* data;
  const stats::Comparison* row;
  double p_holm;
};

constexpr Column<ComparisonRow> kColumns[] = {
    {"job_id", [](const ComparisonRow& r) -> Json { return r.data->job.job_id; }},
    {"task", [](const ComparisonRow& r) -> Json { return r.row->task; }},
    {"metric", [](const ComparisonRow& r) -> Json { return r.row->metric; }},
    {"is_primary_metric", [](const ComparisonRow& r) -> Json { return r.row->is_primary_metric; }},
    {"context_length", [](const ComparisonRow& r) -> Json { return r.row->context_length; }},
    {"baseline", [](const ComparisonRow& r) -> Json { return r.row->baseline; }},
    {"candidate", [](const ComparisonRow& r) -> Json { return r.row->candidate; }},
    {"planned_count", [](const ComparisonRow& r) -> Json { return r.row->planned_count; }},
    {"sample_count", [](const ComparisonRow& r) -> Json { return r.row->sample_count; }},
    {"failed_count", [](const ComparisonRow& r) -> Json { return r.row->failed_count; }},
    {"cluster_count", [](const ComparisonRow& r) -> Json { return r.row->cluster_count; }},
    {"baseline_mean", [](const ComparisonRow& r) -> Json { return r.row->baseline_mean; }},
    {"baseline_low", [](const ComparisonRow& r) -> Json { return r.row->baseline_interval.low; }},
    {"baseline_high", [](const ComparisonRow& r) -> Json { return r.row->baseline_interval.high; }},
    {"candidate_mean", [](const ComparisonRow& r) -> Json { return r.row->candidate_mean; }},
    {"candidate_low", [](const ComparisonRow& r) -> Json { return r.row->candidate_interval.low; }},
    {"candidate_high", [](const ComparisonRow& r) -> Json { return r.row->candidate_interval.high; }},
    {"difference", [](const ComparisonRow& r) -> Json { return r.row->difference; }},
    {"low", [](const ComparisonRow& r) -> Json { return r.row->low; }},
    {"high", [](const ComparisonRow& r) -> Json { return r.row->high; }},
    {"p_value", [](const ComparisonRow& r) -> Json { return r.row->p_value; }},
    {"p_holm", [](const ComparisonRow& r) -> Json { return r.p_holm; }},
    {"test", [](const ComparisonRow& r) -> Json { return r.row->test; }},
    {"draws", [](const ComparisonRow& r) -> Json { return r.row->draws; }},
    {"seed", [](const ComparisonRow& r) -> Json { return r.row->seed; }},
    {"gain_count", [](const ComparisonRow& r) -> Json { return r.row->gain_count; }},
    {"loss_count", [](const ComparisonRow& r) -> Json { return r.row->loss_count; }},
    {"detectable_difference",
     [](const ComparisonRow& r) -> Json {
       return r.row->detectable_difference.has_value() ? Json(*r.row->detectable_difference) : Json();
     }},
    {"labels",
     [](const ComparisonRow& r) -> Json { return absl::StrJoin(MakeCells(*r.data, *r.row, r.p_holm).labels, " "); }},
    {"baseline_left_out_count", [](const ComparisonRow& r) -> Json { return r.row->baseline_left_out_count; }},
    {"candidate_left_out_count", [](const ComparisonRow& r) -> Json { return r.row->candidate_left_out_count; }},
};

std::vector<ComparisonRow> Rows(const ReportData& data) {
  std::vector<ComparisonRow> rows;
  ForEachRow(data, [&](const stats::Comparison& row, double p_holm) { rows.push_back({&data, &row, p_holm}); });
  return rows;
}

std::string Confidence(const ReportData& data) { return absl::StrCat(std::lround(data.confidence * 100), " %"); }

std::string MeanCell(const std::string& mean, const std::string& range) {
  return absl::StrCat("<td class=\"n\">", mean, "<small>", range, "</small></td>");
}

std::string SourceNote(const ReportData& data) {
  std::string note;
  for (const Label& label : SourceLabels(data)) absl::StrAppend(&note, " ", label.explanation);
  return note;
}

}  // namespace

std::string TestingNote(const ReportData& data) {
  uint64_t seed = 0;
  for (const Versus& versus : data.versus) {
    for (const stats::Comparison& row : versus.report.comparisons) seed = std::max(seed, row.seed);
  }
  return absl::StrCat(
      "p: two-sided sign flips of whole clusters, every assignment of signs (exact) or random draws",
      seed == 0 ? "" : absl::StrCat(" (seed ", seed, ")"), ". Holm: p adjusted over the ", data.primary_row_count,
      " tests of the tasks' primary metrics",
      data.secondary_row_count == 0 ? "" : absl::StrCat(", for other metrics over their ", data.secondary_row_count),
      data.suite_test_count == 0 ? "" : absl::StrCat("; means over tasks over their ", data.suite_test_count), ".");
}

std::string ComparisonTableHtml(const ReportData& data, bool of_primary_metrics) {
  std::string out = absl::StrCat(
      "<div class=\"wide\"><table class=\"data\"><thead><tr><th>Task, metric</th><th>Length</th>"
      "<th class=\"n\">Planned<small>done, failed</small></th><th class=\"n\">Clusters</th>"
      "<th class=\"n\">",
      EscapeHtml(data.baseline), "<small>", Confidence(data),
      " interval</small></th>"
      "<th class=\"n\">Candidate<small>",
      Confidence(data),
      " interval</small></th>"
      "<th class=\"n\">Difference<small>",
      Confidence(data),
      " interval</small></th>"
      "<th class=\"n\">p<small>test</small></th><th class=\"n\">Holm</th><th "
      "class=\"n\">Gains<small>losses</small></th>"
      "<th class=\"n\">Detectable</th></tr></thead><tbody>\n");
  std::string task_before, candidate_before;
  ForEachRow(data, [&](const stats::Comparison& row, double p_holm) {
    if (row.is_primary_metric != of_primary_metrics) return;
    const Cells cells = MakeCells(data, row, p_holm);
    const std::string group = absl::StrCat(row.candidate, "/", row.task, "/", row.metric);
    if (row.candidate != candidate_before) {
      absl::StrAppend(&out, "<tr class=\"group\"><th colspan=\"11\">", EscapeHtml(row.candidate), " against ",
                      EscapeHtml(row.baseline), "</th></tr>\n");
    }
    candidate_before = row.candidate;
    absl::StrAppend(&out, "<tr", group != task_before ? " class=\"first\"" : "", "><td>",
                    group == task_before
                        ? ""
                        : absl::StrCat(EscapeHtml(cells.task), "<small>", EscapeHtml(cells.metric), "</small>"),
                    "</td><td>", cells.length);
    for (const std::string& label : cells.labels) {
      if (label != "secondary") absl::StrAppend(&out, "<small class=\"flag\">", label, "</small>");
    }
    absl::StrAppend(&out, "</td><td class=\"n\">", cells.planned, "<small>", cells.answered, ", ", cells.failed,
                    "</small></td><td class=\"n\">", cells.clusters, "</td>",
                    MeanCell(cells.baseline_mean, cells.baseline_range),
                    MeanCell(cells.candidate_mean, cells.candidate_range), "<td class=\"n",
                    cells.is_significant ? " strong" : "", "\">", cells.difference, "<small>", cells.low, " to ",
                    cells.high, "</small></td><td class=\"n\">", EscapeHtml(cells.p), "<small>", cells.test,
                    "</small></td><td class=\"n\">", EscapeHtml(cells.p_holm), "</td><td class=\"n\">", row.gain_count,
                    "<small>", row.loss_count, "</small></td><td class=\"n\">", cells.detectable, "</td></tr>\n");
    task_before = group;
    if (!IsLogLikelihood(row.metric)) return;
    const PerplexityRow perplexity = PerplexityOf(row);  // the row above in other words: no test of its own
    absl::StrAppend(&out, "<tr><td><small>perplexity, exp(−mean)</small></td><td>", cells.length,
                    "</td><td></td><td></td>", MeanCell(perplexity.baseline, perplexity.baseline_range),
                    MeanCell(perplexity.candidate, perplexity.candidate_range), "<td class=\"n\">", perplexity.ratio,
                    "<small>", perplexity.low, " to ", perplexity.high,
                    "</small></td><td></td><td></td><td></td><td></td></tr>\n");
  });
  return out + "</tbody></table></div>\n";
}

std::string SuiteTableHtml(const ReportData& data) {
  std::string out = absl::StrCat(
      "<div class=\"wide\"><table class=\"data\"><thead><tr><th>Candidate</th><th>Length</th><th class=\"n\">Tasks</th>"
      "<th class=\"n\">Questions</th><th class=\"n\">Failed</th><th class=\"n\">Clusters</th><th class=\"n\">",
      EscapeHtml(data.baseline), ", %</th><th class=\"n\">Candidate, %</th><th class=\"n\">Difference<small>",
      Confidence(data),
      " interval</small></th><th class=\"n\">p<small>test</small></th><th class=\"n\">Holm</th></tr></thead><tbody>\n");
  for (const Versus& versus : data.versus) {
    for (size_t i = 0; i < versus.report.suite.size(); ++i) {
      const stats::SuiteComparison& row = versus.report.suite[i];
      absl::StrAppend(&out, "<tr><td>", EscapeHtml(row.candidate), "</td><td>", LengthLabel(row.context_length));
      if (row.is_incomplete) out += "<small class=\"flag\">incomplete</small>";
      if (IsExtrapolated(data.variant(row.candidate), row.context_length) ||
          IsExtrapolated(data.variant(row.baseline), row.context_length)) {
        out += "<small class=\"flag\">extrapolated</small>";
      }
      absl::StrAppend(
          &out, "</td><td class=\"n\">", row.task_count, "</td><td class=\"n\">", CountLabel(row.sample_count),
          "</td><td class=\"n\">", CountLabel(row.failed_count), "</td><td class=\"n\">", CountLabel(row.cluster_count),
          "</td><td class=\"n\">", Unsigned(row.baseline_mean * 100, 1), "</td><td class=\"n\">",
          Unsigned(row.candidate_mean * 100, 1), "</td><td class=\"n",
          versus.suite_holm[i] <= kSignificance ? " strong" : "", "\">", Signed(row.difference * 100, 1), "<small>",
          Signed(row.low * 100, 1), " to ", Signed(row.high * 100, 1), "</small></td><td class=\"n\">",
          EscapeHtml(PValue(row.p_value)), "<small>", TestName(row.test, row.draws), "</small></td><td class=\"n\">",
          EscapeHtml(PValue(versus.suite_holm[i])), "</td></tr>\n");
    }
  }
  return out + "</tbody></table></div>\n";
}

std::string ContrastTableHtml(const ReportData& data) {
  std::string rows;
  for (const Versus& versus : data.versus) {
    for (const stats::LengthContrast& row : versus.report.contrasts) {
      const double scale = row.task.empty() || IsShare(data.metric(row.task, row.metric)) ? 100 : 1;
      const int decimals = scale == 100 ? 1 : 3;
      absl::StrAppend(&rows, "<tr><td>", EscapeHtml(row.candidate), "</td><td>",
                      row.task.empty() ? "mean over tasks" : EscapeHtml(row.task), "</td><td>",
                      LengthLabel(row.short_length), " \u2192 ", LengthLabel(row.long_length), "</td><td class=\"n\">",
                      CountLabel(row.question_count), "</td><td class=\"n\">",
                      Signed(row.short_difference * scale, decimals), "</td><td class=\"n\">",
                      Signed(row.long_difference * scale, decimals), "</td><td class=\"n\">",
                      Signed(row.contrast * scale, decimals), "<small>", Signed(row.low * scale, decimals), " to ",
                      Signed(row.high * scale, decimals), "</small></td><td class=\"n\">",
                      EscapeHtml(PValue(row.p_value)), "</td></tr>\n");
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "<div class=\"wide\"><table class=\"data\"><thead><tr><th>Candidate</th><th>Task</th><th>Lengths</th>"
      "<th class=\"n\">Questions</th><th class=\"n\">Difference at short</th><th class=\"n\">at long</th>"
      "<th class=\"n\">Change<small>",
      Confidence(data),
      " interval</small></th><th class=\"n\">p</th></tr>"
      "</thead><tbody>\n",
      rows, "</tbody></table></div>\n");
}

std::string ComparisonTableCsv(const ReportData& data) { return RowsAsCsv(kColumns, Rows(data)); }
std::string ComparisonTableJson(const ReportData& data) { return RowsAsJson(kColumns, Rows(data)); }

std::string ComparisonTableMarkdown(const ReportData& data) {
  std::string out =
      absl::StrCat("| Task | Metric | Length | Candidate | n | Clusters | Failed | ", EscapeMarkdownCell(data.baseline),
                   " | Candidate mean | Difference | ", Confidence(data),
                   " interval | p | Holm | Notes |\n"
                   "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | ---: | --- |\n");
  ForEachRow(data, [&](const stats::Comparison& row, double p_holm) {
    const Cells cells = MakeCells(data, row, p_holm);
    const char* bold = cells.is_significant ? "**" : "";
    absl::StrAppend(&out, "| ", EscapeMarkdownCell(cells.task), " | ", EscapeMarkdownCell(cells.metric), " | ",
                    cells.length, " | ", EscapeMarkdownCell(cells.candidate), " | ", CountLabel(row.sample_count),
                    " | ", cells.clusters, " | ", cells.failed, " | ", cells.baseline_mean, " | ", cells.candidate_mean,
                    " | ");
    absl::StrAppend(&out, bold, cells.difference, bold, " | ", cells.low, " to ", cells.high, " | ",
                    EscapeMarkdownCell(cells.p), " | ", EscapeMarkdownCell(cells.p_holm), " | ",
                    absl::StrJoin(cells.labels, ", "), " |\n");
    if (!IsLogLikelihood(row.metric)) return;
    const PerplexityRow perplexity = PerplexityOf(row);
    absl::StrAppend(&out, "| ", EscapeMarkdownCell(cells.task), " | perplexity | ", cells.length, " | ",
                    EscapeMarkdownCell(cells.candidate), " | | | | ", perplexity.baseline, " | ", perplexity.candidate,
                    " | ", perplexity.ratio, " | ", perplexity.low, " to ", perplexity.high,
                    " | | | exp(−mean of the row above) |\n");
  });
  return absl::StrCat(out, "\n", TestingNote(data), SourceNote(data), "\n");
}

std::string ComparisonTableLatex(const ReportData& data) {
  std::string out = absl::StrCat(
      "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\\small\n\\begin{tabular}{llrrrrrlrr}\n\\toprule\n"
      "Task & Candidate & Length & $n$ & ",
      EscapeLatex(data.baseline), " & Candidate & $\\Delta$ & interval & $p$ & Holm \\\\\n\\midrule\n");
  ForEachRow(data, [&](const stats::Comparison& row, double p_holm) {
    if (!row.is_primary_metric) return;
    const Cells cells = MakeCells(data, row, p_holm);
    const std::string difference = cells.is_significant ? absl::StrCat("\\textbf{", EscapeLatex(cells.difference), "}")
                                                        : EscapeLatex(cells.difference);
    auto p = [](const std::string& value) { return absl::StrCat("$", value, "$"); };
    absl::StrAppend(&out, EscapeLatex(cells.task), " & ", EscapeLatex(cells.candidate), " & ", cells.length, " & ",
                    CountLabel(row.sample_count), " & ", EscapeLatex(cells.baseline_mean), " & ",
                    EscapeLatex(cells.candidate_mean), " & ", difference);
    absl::StrAppend(&out, " & ", EscapeLatex(cells.low), " to ", EscapeLatex(cells.high), " & ", p(cells.p), " & ",
                    p(cells.p_holm), " \\\\\n");
  });
  return absl::StrCat(out, "\\bottomrule\n\\end{tabular}\n\\caption{Candidate minus ", EscapeLatex(data.baseline),
                      ", with ", EscapeLatex(Confidence(data)),
                      " intervals over clusters of questions that share a context. ", EscapeLatex(TestingNote(data)),
                      EscapeLatex(SourceNote(data)), "}\n\\end{table}\n");
}

}  // namespace varifocal::report
