#include "client/report/page/contrast_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

// Rows of changes or of slopes over the lengths, the mean over tasks of a candidate first.
std::string ContrastRows(const ReportData& data, stats::LengthContrast::Kind kind, bool of_means, bool of_tasks) {
  std::string rows;
  for (const CandidateComparison& comparison : data.comparisons) {
    bool is_first = true;
    const auto add = [&](const stats::LengthContrast& row) {
      const bool is_share = row.task.empty() || IsShare(data.metric(row.task, row.metric));
      const double scale = is_share ? 100 : 1;
      const int decimals = is_share ? 1 : 3;
      std::string flags;
      for (const std::string& note : ContrastNotes(data, comparison, row))
        absl::StrAppend(&flags, "<small class=\"flag\">", EscapeHtml(note), "</small>");
      absl::StrAppend(
          &rows, "<tr", is_first ? " class=\"first\"" : "", "><td>", is_first ? EscapeHtml(row.candidate) : "",
          "</td><td>", row.task.empty() ? "mean over tasks" : EscapeHtml(row.task), "</td><td class=\"minor\">",
          EscapeHtml(LengthsLabel(data, row)), flags, "</td><td class=\"n minor\">", CountLabel(row.question_count),
          "</td><td class=\"n minor\">", Signed(row.short_difference * scale, decimals), "</td><td class=\"n minor\">",
          Signed(row.long_difference * scale, decimals), "</td>",
          InferenceHtml(MakeInferenceCells(row, scale, decimals)), "</tr>\n");
      is_first = false;
    };
    for (const bool is_mean : {true, false}) {
      for (const stats::LengthContrast& row : comparison.report.contrasts) {
        if (row.kind == kind && row.task.empty() == is_mean && (is_mean ? of_means : of_tasks)) add(row);
      }
    }
  }
  return rows;
}

std::string ContrastTable(const ReportData& data, const char* label, const char* change, const std::string& rows) {
  if (rows.empty()) return "";
  return absl::StrCat(
      ScrollBegin(label),
      "<table class=\"data\"><thead><tr><th>Candidate</th><th>Task</th><th class=\"minor\">Lengths</th>"
      "<th class=\"n minor\">Questions</th><th class=\"n minor\">Difference at short</th><th class=\"n minor\">at "
      "long</th>",
      InferenceHeads(data.confidence, change), "</tr></thead><tbody>\n", rows, "</tbody></table></div>\n");
}

std::string Folded(const char* summary, const std::string& body) {
  return body.empty() ? "" : absl::StrCat("<details><summary>", summary, "</summary>\n", body, "</details>\n");
}

}  // namespace

std::string LengthsLabel(const ReportData& data, const stats::LengthContrast& row) {
  return absl::StrCat(data.Length(row.task, row.short_length), " \u2192 ", data.Length(row.task, row.long_length));
}

std::vector<std::pair<int64_t, const stats::Inference*>> UnsteadyRows(const stats::ComparisonReport& report,
                                                                      const stats::LengthContrast& row) {
  std::vector<std::pair<int64_t, const stats::Inference*>> rows;
  const auto [low, high] = std::minmax(row.short_difference, row.long_difference);
  const auto add = [&, low = low, high = high](int64_t length, const stats::Inference& between) {
    const bool is_between = length > row.short_length && length < row.long_length;
    const bool is_outside = between.difference < low || between.difference > high;
    if (is_between && is_outside && between.IsDecided()) rows.emplace_back(length, &between);
  };
  if (row.task.empty()) {
    for (const stats::SuiteComparison& between : report.suite) add(between.context_length, between);
  } else {
    for (const stats::Comparison& between : report.comparisons) {
      if (between.task == row.task && between.metric == row.metric) add(between.context_length, between);
    }
  }
  return rows;
}

std::string SteadyNote(const ReportData& data, const CandidateComparison& comparison,
                       const stats::LengthContrast& row) {
  constexpr size_t kNamedCountMax = 2;
  const bool is_share = row.task.empty() || IsShare(data.metric(row.task, row.metric));
  std::vector<std::string> parts;
  for (const auto& [length, between] : UnsteadyRows(comparison.report, row)) {
    parts.push_back(absl::StrCat("at ", data.Length(row.task, length), " the difference is ",
                                 Signed(between->difference * (is_share ? 100 : 1), is_share ? 1 : 3), " (",
                                 OutcomeLabel(*between), ")"));
  }
  return parts.empty() ? "" : absl::StrCat("not steadily: ", ShortList(parts, kNamedCountMax));
}

std::vector<std::string> ContrastNotes(const ReportData& data, const CandidateComparison& comparison,
                                       const stats::LengthContrast& row) {
  std::vector<std::string> notes = RowLabels(row, ContextOf(data, comparison));
  if (std::string note = SteadyNote(data, comparison, row); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

std::string ContrastTableHtml(const ReportData& data) {
  using Kind = stats::LengthContrast::Kind;
  const bool has_means = !ContrastRows(data, Kind::kChange, /*of_means=*/true, /*of_tasks=*/false).empty();
  const bool is_folded = has_means && data.comparisons.size() > kOpenCandidateCountMax;
  std::string out = ContrastTable(data, "Changes", "Change", ContrastRows(data, Kind::kChange, true, !is_folded));
  if (is_folded) {
    out += Folded("Change of each task", ContrastTable(data, "Changes of each task", "Change",
                                                       ContrastRows(data, Kind::kChange, false, true)));
  }
  return out + Folded("Slope per doubling of the length",
                      ContrastTable(data, "Slopes", "Slope", ContrastRows(data, Kind::kSlope, true, true)));
}

}  // namespace varifocal::report
