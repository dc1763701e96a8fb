#include "client/report/page/effective_length_table.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "db/stats/labels.h"

namespace varifocal::report {
namespace {

std::string End(const stats::EffectiveLength& row, const stats::TestedLengths& tested,
                const std::optional<int64_t>& length) {
  if (!length.has_value()) return absl::StrCat("below ", LongestLabel(tested, row.task, row.tested.front()));
  return absl::StrCat(*length == row.tested.back() ? "at least " : "", LongestLabel(tested, row.task, *length));
}

std::string Note(const ReportData& data) {
  const stats::EffectiveLengthOptions& options = data.effective_length_options;
  const std::string ruler = data.ruler_lengths.empty()
                                ? ""
                                : absl::StrCat(" ", Sentence("effective_length_ruler",
                                                             {{"score", Unsigned(stats::kRulerEffectiveScore * 100, 1)},
                                                              {"count", std::ssize(data.tasks)},
                                                              {"is_whole", std::ssize(data.tasks) == 13}}));
  return absl::StrCat(
      Sentence("effective_length_note", {{"score", options.score.has_value() ? Unsigned(*options.score * 100, 1) : ""},
                                         {"share", Unsigned(options.share * 100, 1)},
                                         {"confidence", ConfidenceLabel(data.confidence)}}),
      ruler);
}

struct Line {
  std::string variant, task, score, threshold, length, range;
  bool is_mean = false, is_unfinished = false;
};

Line LineOf(const ReportData& data, const stats::EffectiveLength& row, std::string label) {
  const bool has_scores = row.problem != stats::EffectiveLengthProblem::kUnfinished;
  return {row.variant,
          std::move(label),
          has_scores ? Unsigned(row.shortest_score * 100, 1) : kNoValue,
          has_scores ? Unsigned(row.threshold * 100, 1) : kNoValue,
          EffectiveLengthLabel(row, data.tested),
          EffectiveLengthRange(row, data.tested),
          row.task.empty(),
          !has_scores};
}

std::vector<Line> Lines(const ReportData& data) {
  std::vector<Line> lines;
  for (size_t i = 0; i < data.effective_lengths.size(); ++i) {
    const stats::EffectiveLength& row = data.effective_lengths[i];
    lines.push_back(LineOf(data, row, row.task.empty() ? "mean over tasks" : row.task));
    const bool is_last = i + 1 == data.effective_lengths.size() || data.effective_lengths[i + 1].variant != row.variant;
    for (const stats::EffectiveLength& published : data.ruler_lengths) {
      if (is_last && published.variant == row.variant) {
        lines.push_back(LineOf(data, published, "mean over tasks, RULER's rule"));
      }
    }
  }
  return lines;
}

// Rows of the finished lines that `is_shown` selects.
template <typename IsShown>
std::string Table(const ReportData& data, const char* label, const std::vector<Line>& lines, const IsShown& is_shown) {
  std::string rows, before;
  for (const Line& line : lines) {
    if (line.is_unfinished || !is_shown(line)) continue;
    absl::StrAppend(&rows, "<tr", line.variant != before ? " class=\"first\"" : "", "><td>",
                    line.variant != before ? EscapeHtml(line.variant) : "", "</td><td>", EscapeHtml(line.task),
                    "</td><td class=\"n minor\">", line.score, "</td><td class=\"n minor\">", line.threshold,
                    "</td><td class=\"n wrap\">", line.length, "</td><td class=\"n wrap\">", line.range,
                    "</td></tr>\n");
    before = line.variant;
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      ScrollBegin(label),
      "<table class=\"data\"><thead><tr><th>Variant</th><th>Task</th><th class=\"n minor\">At the "
      "shortest, %</th><th class=\"n minor\">Threshold, %</th><th class=\"n wrap\">Effective length</th><th class=\"n wrap\">",
      ConfidenceLabel(data.confidence), " interval</th></tr></thead><tbody>\n", rows, "</tbody></table></div>\n");
}

}  // namespace

std::string EffectiveLengthLabel(const stats::EffectiveLength& row, const stats::TestedLengths& tested) {
  if (row.problem == stats::EffectiveLengthProblem::kUnfinished) return "unfinished";
  return row.problem == stats::EffectiveLengthProblem::kNoScore ? kNoValue : End(row, tested, row.length);
}

std::string EffectiveLengthRange(const stats::EffectiveLength& row, const stats::TestedLengths& tested) {
  switch (row.problem) {
    case stats::EffectiveLengthProblem::kUnfinished:
      return "";
    case stats::EffectiveLengthProblem::kNoScore:
      return Sentence("effective_length_no_score");
    case stats::EffectiveLengthProblem::kNoInference:
      return absl::StrCat("1 context: ", stats::kNothingInferred);
    case stats::EffectiveLengthProblem::kNone:
      break;
  }
  const std::string low = End(row, tested, row.low), high = End(row, tested, row.high);
  return low == high ? low : absl::StrCat(low, " to ", high);
}

std::string EffectiveLengthHtml(const ReportData& data) {
  const std::vector<Line> lines = Lines(data);
  const bool has_means = std::any_of(lines.begin(), lines.end(), [](const Line& line) { return line.is_mean; });
  const bool is_folded = has_means && data.comparisons.size() > kOpenCandidateCountMax;
  int64_t unfinished_count = 0;
  for (const Line& line : lines) unfinished_count += line.is_unfinished;
  std::string out =
      Table(data, "Effective context length", lines, [&](const Line& line) { return line.is_mean || !is_folded; });
  if (is_folded) {
    const std::string tasks =
        Table(data, "Effective context length of each task", lines, [&](const Line& line) { return !line.is_mean; });
    if (!tasks.empty()) absl::StrAppend(&out, "<details><summary>Each task</summary>\n", tasks, "</details>\n");
  }
  if (out.empty()) return "";
  if (unfinished_count > 0) {
    const std::string open =
        Sentence("effective_length_open",
                 {{"count", unfinished_count}, {"is_one", unfinished_count == 1}, {"total", lines.size()}});
    absl::StrAppend(&out, "<p class=\"note\">", EscapeHtml(open), "</p>\n");
  }
  return absl::StrCat(out, "<p class=\"note\">", EscapeHtml(Note(data)), "</p>\n");
}

std::string EffectiveLengthMarkdown(const ReportData& data) {
  std::string rows;
  for (const Line& line : Lines(data)) {
    absl::StrAppend(&rows, "| ", EscapeMarkdownCell(line.variant), " | ", EscapeMarkdownCell(line.task), " | ",
                    line.score, " | ", line.threshold, " | ", line.length, " | ", line.range, " |\n");
  }
  if (rows.empty()) return "";
  return absl::StrCat("\n| Variant | Task | At the shortest, % | Threshold, % | Effective length | ",
                      ConfidenceLabel(data.confidence), " interval |\n| --- | --- | ---: | ---: | ---: | --- |\n", rows,
                      "\n", Note(data), "\n");
}

std::vector<Json> EffectiveLengthJson(const ReportData& data) {
  std::vector<Json> rows;
  const auto add = [&](const stats::EffectiveLength& row, bool is_rulers_rule) {
    const bool has_scores = row.problem != stats::EffectiveLengthProblem::kUnfinished;
    const stats::EffectiveLengthOptions& options = data.effective_length_options;
    const auto tokens_of = [&](const std::optional<int64_t>& length) {
      return length.has_value() ? Json(data.tested.At(row.task, *length).Tokens()) : Json();
    };
    Json tokens = Json::array();
    for (int64_t length : row.tested) tokens.push_back(tokens_of(length));
    rows.push_back({{"kind", "effective_length"},
                    {"variant", row.variant},
                    {"task", row.task.empty() ? Json() : Json(row.task)},
                    {"tested_lengths", tokens},
                    {"context_length", tokens_of(row.length)},
                    {"low", tokens_of(row.low)},
                    {"high", tokens_of(row.high)},
                    {"label", EffectiveLengthLabel(row, data.tested)},
                    {"interval", EffectiveLengthRange(row, data.tested)},
                    {"threshold_share", options.score.has_value() || is_rulers_rule ? Json() : Json(options.share)},
                    {"threshold", has_scores ? Json(row.threshold) : Json()},
                    {"shortest_score", has_scores ? Json(row.shortest_score) : Json()},
                    {"problem", row.problem == stats::EffectiveLengthProblem::kNone
                                    ? Json()
                                    : Json(stats::EffectiveLengthProblemName(row.problem))}});
    if (is_rulers_rule) rows.back()["rule"] = "ruler";
  };
  for (const stats::EffectiveLength& row : data.effective_lengths) add(row, false);
  for (const stats::EffectiveLength& row : data.ruler_lengths) add(row, true);
  return rows;
}

}  // namespace varifocal::report
