#include "client/report/page/paper_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "client/report/page/brief.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

struct PaperRow {
  std::string label;
  std::map<int64_t, std::string> values, ranges;  // by length; LaTeX
};

// "$+2.5$", with a mathematical minus.
std::string Math(double value, int decimals) {
  const std::string text = Signed(value, decimals);
  const bool is_negative = text.rfind("\u2212", 0) == 0;
  return absl::StrCat("$", is_negative ? absl::StrCat("-", text.substr(std::string("\u2212").size())) : text, "$");
}

std::string Bounds(const std::string& low, const std::string& high) { return absl::StrCat("[", low, ", ", high, "]"); }

// In the order of the caption.
struct Superscript {
  const char* latex;
  const char* sentence;  // the name of its meaning
};
constexpr Superscript kMarks[] = {
    {"\\uparrow", "mark_better"},        {"\\downarrow", "mark_worse"},      {"=", "mark_equivalent"},
    {"\\ast", "mark_within_margin"},     {"\\dagger", "mark_fragile"},       {"\\circ", "mark_unfinished"},
    {"\\times", "mark_failures_decide"}, {"\\diamond", "mark_no_inference"}, {"\\ddagger", "mark_rests"}};

// Of a table.
struct MarksUsed {
  std::set<size_t> marks;
  std::set<std::string> answers;  // that outcomes rest on
};

std::string MarksOf(const stats::SuiteComparison& row, const ReportData& data, MarksUsed& used) {
  std::vector<size_t> marks;
  if (row.outcome == stats::Outcome::kBetter) marks.push_back(0);
  if (row.outcome == stats::Outcome::kWorse) marks.push_back(1);
  if (row.outcome == stats::Outcome::kEquivalent) marks.push_back(2);
  if (row.IsWithinMargin()) marks.push_back(3);
  if (row.is_fragile) marks.push_back(4);
  if (row.is_unfinished) marks.push_back(5);
  if (row.failures_decide) marks.push_back(6);
  if (!row.is_unfinished && !row.can_infer) marks.push_back(7);
  const std::vector<AnswersBehind> behind = KindsBehind(row, SidesOf(row, data.answers, data.tested));
  if (!behind.empty()) marks.push_back(8);
  for (const AnswersBehind& kind : behind) used.answers.insert(kind.answers);
  std::string text;
  for (size_t mark : marks) text += kMarks[mark].latex;
  used.marks.insert(marks.begin(), marks.end());
  return text.empty() ? "" : absl::StrCat("$^{", text, "}$");
}

std::vector<PaperRow> SuiteRows(const ReportData& data, MarksUsed& used, bool& baselines_differ) {
  std::vector<PaperRow> rows = {{data.baseline, {}, {}}};
  for (const CandidateComparison& comparison : data.comparisons) {
    PaperRow row{comparison.candidate, {}, {}};
    for (const stats::SuiteComparison& cell : comparison.report.suite) {
      const std::string baseline = EscapeLatex(Unsigned(cell.baseline_mean * 100, 1));
      const auto [known, is_new] = rows.front().values.emplace(cell.context_length, baseline);
      baselines_differ |= !is_new && known->second != baseline;
      row.values[cell.context_length] =
          absl::StrCat(EscapeLatex(Unsigned(cell.candidate_mean * 100, 1)), MarksOf(cell, data, used));
      row.ranges[cell.context_length] = absl::StrCat(
          Math(cell.difference * 100, 1),
          cell.HasInterval()
              ? absl::StrCat(" ", Bounds(Math(cell.adjusted_low * 100, 1), Math(cell.adjusted_high * 100, 1)))
              : "");
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// One row a task and variant, of the primary metrics.
std::vector<PaperRow> TaskRows(const ReportData& data) {
  std::vector<PaperRow> rows;
  for (const std::string& task : data.tasks) {
    const db::TaskMetricRecord* metric = data.primary_metric(task);
    if (metric == nullptr) continue;
    const double scale = IsShare(*metric) ? 100 : 1;
    const int decimals = IsShare(*metric) ? 1 : 3;
    for (const db::VariantRecord& variant : data.variants) {
      PaperRow row{data.variants.size() > 1 ? absl::StrCat(task, ", ", variant.name) : task, {}, {}};
      for (const stats::Estimate& estimate : data.estimates) {
        if (estimate.variant != variant.name || estimate.task != task || estimate.metric != metric->metric) continue;
        if (!estimate.mean.has_value()) continue;
        row.values[estimate.context_length] = EscapeLatex(Unsigned(*estimate.mean * scale, decimals));
        if (!estimate.interval.has_value()) continue;
        row.ranges[estimate.context_length] = Bounds(EscapeLatex(Unsigned(estimate.interval->low * scale, decimals)),
                                                     EscapeLatex(Unsigned(estimate.interval->high * scale, decimals)));
      }
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

std::string LatexLine(const std::string& label, const std::map<int64_t, std::string>& cells, const ReportData& data,
                      const char* before, const char* after, const char* missing) {
  std::string line = label;
  for (int64_t length : data.lengths) {
    const auto cell = cells.find(length);
    absl::StrAppend(&line, " & ", cell == cells.end() ? missing : absl::StrCat(before, cell->second, after));
  }
  return absl::StrCat(line, " \\\\\n");
}

// "2 of 5 tasks at 1K, 1 of 5 tasks at 2K": of the unfinished cells.
std::string FinishedTasks(const ReportData& data) {
  std::vector<std::string> parts;
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const stats::SuiteComparison& row : comparison.report.suite) {
      if (!row.is_unfinished) continue;
      std::string part = absl::StrCat(row.finished_task_count, " of ", row.planned_task_count, " tasks at ",
                                      data.Length("", row.context_length));
      if (std::find(parts.begin(), parts.end(), part) == parts.end()) parts.push_back(std::move(part));
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace

std::string PaperTableLatex(const ReportData& data) {
  MarksUsed used;
  bool baselines_differ = false, has_suite = false, is_max_t = false;
  int64_t test_count = 0;
  for (const CandidateComparison& comparison : data.comparisons) {
    has_suite |= !comparison.report.suite.empty();
    for (const stats::SuiteComparison& row : comparison.report.suite) {
      test_count = row.test_count;
      is_max_t |= row.is_max_t;
    }
  }
  const std::vector<PaperRow> rows = has_suite ? SuiteRows(data, used, baselines_differ) : TaskRows(data);
  std::vector<std::string> heads;
  for (int64_t length : data.lengths) heads.push_back(absl::StrCat(" & ", data.Length("", length)));
  std::string out = absl::StrCat("% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\begin{tabular}{l",
                                 std::string(data.lengths.size(), 'r'), "}\n\\toprule\n", has_suite ? "Model" : "Task",
                                 absl::StrJoin(heads, ""), " \\\\\n\\midrule\n");
  for (const PaperRow& row : rows) {
    out += LatexLine(EscapeLatex(row.label), row.values, data, "", "", kNoValueLatex);
    if (!row.ranges.empty()) out += LatexLine("", row.ranges, data, "{\\footnotesize ", "}", "");
  }
  const std::string confidence = absl::StrCat(std::lround(data.confidence * 100), "\\,\\%");
  std::string caption;
  if (has_suite) {
    std::vector<std::string> meanings;
    for (size_t mark : used.marks)
      meanings.push_back(absl::StrCat("$", kMarks[mark].latex, "$ ", Sentence(kMarks[mark].sentence)));
    std::map<int64_t, int64_t> tasks_at;  // by length: prompts of some tasks may not reach it
    for (const CandidateComparison& comparison : data.comparisons) {
      for (const stats::SuiteComparison& row : comparison.report.suite)
        tasks_at.emplace(row.context_length, row.planned_task_count);
    }
    std::set<int64_t> task_counts;
    std::vector<std::string> by_length;
    for (const auto& [length, count] : tasks_at) {
      task_counts.insert(count);
      by_length.push_back(absl::StrCat(count, " at ", data.Length("", length)));
    }
    caption = Sentence("paper_caption", {{"task", data.tasks.size() == 1 ? EscapeLatex(data.tasks.front()) : ""},
                                         {"by_length", task_counts.size() > 1 ? absl::StrJoin(by_length, ", ") : ""},
                                         {"task_count", *task_counts.begin()},
                                         {"is_one_task", *task_counts.begin() == 1},
                                         {"baseline", EscapeLatex(data.baseline)},
                                         {"confidence", confidence},
                                         {"contexts", ContextsText(data)},
                                         {"marks", absl::StrJoin(meanings, ", ")},
                                         {"finished", FinishedTasks(data)},
                                         {"is_max_t", is_max_t},
                                         {"test_count", test_count},
                                         {"is_one_test", test_count == 1},
                                         {"margin", EscapeLatex(Json(std::round(data.margin * 1e6) / 1e4).dump())},
                                         {"answers", absl::StrJoin(used.answers, " or ")},
                                         {"baselines_differ", baselines_differ}});
  } else {
    caption = Sentence("paper_scores_caption", {{"confidence", confidence}});
  }
  return absl::StrCat(out, "\\bottomrule\n\\end{tabular}\n\\caption{", caption, EscapeLatex(LengthNote(data.tested)),
                      "}\n\\label{tab:varifocal-job", data.job.job_id, "}\n\\end{table}\n");
}

}  // namespace varifocal::report
