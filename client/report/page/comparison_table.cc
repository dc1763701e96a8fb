#include "client/report/page/comparison_table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/plural.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/columns.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/caveats.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/group_section.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/plain_table.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

struct RelativeCells {
  std::string gain = kNoValue, range;  // percent; no range without a gain
};

// The range only where the difference has one.
template <typename Row>
RelativeCells MakeRelativeCells(const Row& row) {
  const stats::RelativeGain& relative = row.relative;
  if (!relative.has_value()) return {};
  return {absl::StrCat(Signed(relative.gain * 100, 1), " %"),
          row.HasInterval() ? absl::StrCat(Signed(relative.low * 100, 1), " to ", Signed(relative.high * 100, 1)) : ""};
}

template <typename Row>
std::string RelativeHtml(const Row& row) {
  const RelativeCells cells = MakeRelativeCells(row);
  return absl::StrCat("<td class=\"n minor\">", cells.gain,
                      cells.range.empty() ? "" : absl::StrCat("<small>", cells.range, "</small>"), "</td>");
}

std::string RelativeHead(const ReportData& data) {
  return absl::StrCat("<th class=\"n minor\">Relative gain<small>", ConfidenceLabel(data.confidence),
                      " interval</small></th>");
}

template <typename Row>
std::string RelativeMarkdown(const Row& row) {
  const RelativeCells cells = MakeRelativeCells(row);
  if (!row.relative.has_value()) return "";
  return cells.range.empty() ? cells.gain : absl::StrCat(cells.gain, " (", cells.range, ")");
}

// The formatted fields of a cell; shared by all writers except CSV and JSON.
struct Cells {
  InferenceCells inferred;
  std::string metric, length;
  std::string baseline_mean, candidate_mean, baseline_range, candidate_range;
  std::string baseline_note, candidate_note;  // failed, empty and cut answers
  std::string design_note;                    // why there is no verdict, or a weak one
  std::vector<std::string> labels;

  std::vector<std::string> LabelsAndNote() const {
    std::vector<std::string> all = labels;
    if (!design_note.empty()) all.push_back(design_note);
    return all;
  }
};

Cells MakeCells(const ReportData& data, const CandidateComparison& comparison, const stats::Comparison& row) {
  const double scale = IsShare(data.metric(row.task, row.metric)) ? 100 : 1;
  const int decimals = scale == 100 ? 1 : 3;
  auto range = [&](const std::optional<stats::Interval>& interval) {
    return interval.has_value() ? absl::StrCat(Unsigned(interval->low * scale, decimals), " to ",
                                               Unsigned(interval->high * scale, decimals))
                                : "";
  };
  Cells cells;
  cells.inferred = MakeInferenceCells(row, scale, decimals);
  cells.metric = absl::StrCat(row.metric, scale == 100 ? ", %" : "");
  cells.length = data.Length(row.task, row.context_length);
  cells.baseline_mean = Unsigned(row.baseline_mean * scale, decimals);
  cells.candidate_mean = Unsigned(row.candidate_mean * scale, decimals);
  cells.baseline_range = range(row.baseline_interval);
  cells.candidate_range = range(row.candidate_interval);
  cells.baseline_note = CountsNote(data.answers.Of(row.baseline, row.task, row.context_length));
  cells.candidate_note = CountsNote(data.answers.Of(row.candidate, row.task, row.context_length));
  cells.labels = RowLabels(row, ContextOf(data, comparison));
  cells.design_note = DesignNote(row);
  return cells;
}

// Use(comparison, row) with the rows of one kind: a member of ComparisonReport.
template <typename Rows, typename Use>
void ForEachRow(const ReportData& data, Rows rows, Use use) {
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const auto& row : comparison.report.*rows) use(comparison, row);
  }
}

// Use(comparison, row, scale, decimals)
template <typename Use>
void ForEachContrast(const ReportData& data, Use use) {
  const auto scaled = [&](const CandidateComparison& comparison, const stats::LengthContrast& row) {
    const bool is_share = row.task.empty() || IsShare(data.metric(row.task, row.metric));
    use(comparison, row, is_share ? 100 : 1, is_share ? 1 : 3);
  };
  ForEachRow(data, &stats::ComparisonReport::contrasts, scaled);
}

// "1K → 8K", of a slope "1K → 8K, per doubling".
std::string LengthsWithKind(const ReportData& data, const stats::LengthContrast& row) {
  return absl::StrCat(LengthsLabel(data, row), row.kind == stats::LengthContrast::Kind::kSlope ? ", per doubling" : "");
}

std::string MeanCell(const std::string& mean, const std::string& range, const std::string& note) {
  return absl::StrCat("<td class=\"n mean\">", mean, range.empty() ? "" : absl::StrCat("<small>", range, "</small>"),
                      note.empty() ? "" : absl::StrCat("<small class=\"flag\">", note, "</small>"), "</td>");
}

// "baseline 3 empty, focal 1 cut": for tables whose cells have no room of their own.
template <typename Row>
std::vector<std::string> WithSides(std::vector<std::string> labels, const Row& row, const std::string& baseline_note,
                                   const std::string& candidate_note) {
  if (!baseline_note.empty()) labels.push_back(absl::StrCat(row.baseline, " ", baseline_note));
  if (!candidate_note.empty()) labels.push_back(absl::StrCat(row.candidate, " ", candidate_note));
  return labels;
}

std::string Flags(const std::vector<std::string>& labels) {
  std::string out;
  for (const std::string& label : labels) {
    if (label != "secondary") absl::StrAppend(&out, "<small class=\"flag\">", label, "</small>");
  }
  return out;
}

// The counts of both sides, where a narrow screen hides the columns of the means.
template <typename Row>
std::string SideFlags(const Row& row, const std::string& baseline_note, const std::string& candidate_note) {
  std::string out;
  for (const std::string& label : WithSides({}, row, baseline_note, candidate_note))
    absl::StrAppend(&out, "<small class=\"flag only-narrow\">", EscapeHtml(label), "</small>");
  return out;
}

// The note of all finished rows, if they have the same one: it is then shown once.
std::string CommonDesignNote(const CandidateComparison& comparison, bool of_primary_metrics) {
  std::set<std::string> notes;
  for (const stats::Comparison& row : comparison.report.comparisons) {
    if (row.is_primary_metric == of_primary_metrics && !row.is_unfinished) notes.insert(DesignNote(row));
  }
  return notes.size() == 1 ? *notes.begin() : "";
}

std::string SourceNote(const ReportData& data) {
  std::string note;
  for (const Label& label : SourceLabels(data)) absl::StrAppend(&note, " ", label.explanation);
  return note;
}

std::vector<std::string> SuiteLabels(const ReportData& data, const CandidateComparison& comparison,
                                     const stats::SuiteComparison& row) {
  std::vector<std::string> labels = RowLabels(row, ContextOf(data, comparison));
  if (const std::string note = DesignNote(row); !note.empty()) labels.push_back(note);
  return labels;
}

std::string SuiteNote(const ReportData& data, const std::string& variant, const stats::SuiteComparison& row) {
  return CountsNote(data.answers.Of(variant, "", row.context_length));
}

// "5", "2 of 5": of tasks.
std::string TasksLabel(const stats::SuiteComparison& row) {
  return row.is_unfinished ? absl::StrCat(row.finished_task_count, " of ", row.planned_task_count)
                           : absl::StrCat(row.task_count);
}

// "1 task", "5 tasks", "2 of 5 tasks".
std::string TasksWords(const stats::SuiteComparison& row) {
  return absl::StrCat(TasksLabel(row), !row.is_unfinished && row.task_count == 1 ? " task" : " tasks");
}

struct CandidateRows {
  std::string html;
  std::string note;  // of all its rows
  std::vector<std::string> outcomes;
};

CandidateRows RowsOfCandidate(const ReportData& data, const CandidateComparison& comparison, bool of_primary_metrics) {
  CandidateRows rows;
  rows.note = CommonDesignNote(comparison, of_primary_metrics);
  std::string group_before;
  for (const stats::Comparison& row : comparison.report.comparisons) {
    if (row.is_primary_metric != of_primary_metrics) continue;
    const Cells cells = MakeCells(data, comparison, row);
    const std::string group = absl::StrCat(row.task, "/", row.metric);
    const bool is_note_shared = !rows.note.empty() && !row.is_unfinished;
    rows.outcomes.push_back(cells.inferred.outcome);
    absl::StrAppend(&rows.html, "<tr", group != group_before ? " class=\"first\"" : "", "><td>",
                    group == group_before
                        ? ""
                        : absl::StrCat(EscapeHtml(row.task), "<small>",
                                       absl::StrReplaceAll(EscapeHtml(cells.metric), {{"_", "_<wbr>"}}), "</small>"),
                    "</td><td>", cells.length, Flags(is_note_shared ? cells.labels : cells.LabelsAndNote()),
                    SideFlags(row, cells.baseline_note, cells.candidate_note), "</td><td class=\"n minor\">",
                    CountLabel(row.sample_count), "<small>", cells.inferred.clusters, "</small></td>",
                    MeanCell(cells.baseline_mean, cells.baseline_range, cells.baseline_note),
                    MeanCell(cells.candidate_mean, cells.candidate_range, cells.candidate_note), RelativeHtml(row),
                    InferenceHtml(cells.inferred));
    absl::StrAppend(&rows.html, "<td class=\"n minor\">", row.gain_count, "<small>", row.loss_count,
                    "</small></td></tr>\n");
    group_before = group;
    if (!IsLogLikelihood(row.metric)) continue;
    const PerplexityRow perplexity = PerplexityOf(row);  // the row above in other words: no test of its own
    absl::StrAppend(&rows.html, "<tr><td><small>perplexity, exp(−mean)</small></td><td>", cells.length,
                    "</td><td class=\"minor\"></td>", MeanCell(perplexity.baseline, perplexity.baseline_range, ""),
                    MeanCell(perplexity.candidate, perplexity.candidate_range, ""),
                    "<td class=\"minor\"></td><td class=\"n\">", perplexity.ratio, "<small>", perplexity.Range(),
                    "</small></td><td class=\"minor\"></td><td></td><td></td><td class=\"minor\"></td></tr>\n");
  }
  return rows;
}

}  // namespace

std::string TestingNote(const ReportData& data) {
  int64_t suite = 0, primary = 0, secondary = 0;
  uint64_t seed = 0;
  bool has_margin = false;
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const stats::SuiteComparison& row : comparison.report.suite) suite = row.test_count;
    for (const stats::Comparison& row : comparison.report.comparisons) {
      (row.is_primary_metric ? primary : secondary) = row.test_count;
      has_margin |= row.margin.has_value();
      seed = std::max(seed, row.sign_flip.seed);
    }
  }
  std::vector<std::string> families;
  if (suite > 0) families.push_back(absl::StrCat("over the ", suite, Plural(suite, " mean", " means"), " over tasks"));
  if (primary > 0)
    families.push_back(absl::StrCat("over the ", primary, Plural(primary, " cell", " cells"), " of primary metrics"));
  if (secondary > 0)
    families.push_back(absl::StrCat("over the ", secondary, Plural(secondary, " cell", " cells"), " of other metrics"));
  if (families.empty()) return Sentence("nothing_compared");
  return Sentence("testing_note", {{"seed", seed == 0 ? "" : absl::StrCat(seed)},
                                   {"level", Json(std::round((1 - data.confidence) * 1e6) / 1e6).dump()},
                                   {"adjustment", AdjustmentLabel(data)},
                                   {"families", absl::StrJoin(families, ", ")},
                                   {"margin", has_margin ? Json(std::round(data.margin * 1e6) / 1e4).dump() : ""},
                                   {"baseline", data.baseline}});
}

std::string ComparisonTableHtml(const ReportData& data, bool of_primary_metrics) {
  const std::string metrics = of_primary_metrics ? "" : ", other metrics";
  const std::string head = absl::StrCat(
      "<table class=\"data\"><thead><tr><th>Task, metric</th><th>Length</th>"
      "<th class=\"n minor\">Questions<small>clusters</small></th>"
      "<th class=\"n mean\">",
      EscapeHtml(data.baseline), "<small>", ConfidenceLabel(data.confidence),
      " interval</small></th>"
      "<th class=\"n mean\">Candidate<small>",
      ConfidenceLabel(data.confidence), " interval</small></th>", RelativeHead(data),
      InferenceHeads(data.confidence, "Difference"),
      "<th class=\"n minor\">Gains<small>losses</small></th></tr></thead><tbody>\n");
  constexpr char kTail[] = "</tbody></table></div>\n";
  const bool is_folded = data.comparisons.size() > kOpenCandidateCountMax;
  std::string out;
  for (const CandidateComparison& comparison : data.comparisons) {
    const CandidateRows rows = RowsOfCandidate(data, comparison, of_primary_metrics);
    if (rows.html.empty()) continue;
    const std::string title = absl::StrCat(EscapeHtml(comparison.candidate), " against ", EscapeHtml(data.baseline));
    if (is_folded) {
      absl::StrAppend(&out, "<details><summary>", title, " <span class=\"outcome-word\">", OutcomeCounts(rows.outcomes),
                      "</span></summary>\n",
                      rows.note.empty() ? "" : absl::StrCat("<p class=\"note\">", rows.note, "</p>\n"),
                      ScrollBegin(absl::StrCat(comparison.candidate, metrics)), head, rows.html, kTail, "</details>\n");
    } else {
      absl::StrAppend(
          &out, out.empty() ? absl::StrCat(ScrollBegin(absl::StrCat("Every comparison", metrics)), head) : "",
          "<tr class=\"group\"><th colspan=\"11\">", title,
          rows.note.empty() ? "" : absl::StrCat("<small>", rows.note, "</small>"), "</th></tr>\n", rows.html);
    }
  }
  return out.empty() || is_folded ? out : out + kTail;
}

std::string LengthTableHtml(const ReportData& data) {
  Json candidates = Json::array(), rows = Json::array();
  std::vector<const CandidateComparison*> shown;
  for (const CandidateComparison& comparison : data.comparisons) {
    if (comparison.report.suite.empty() || data.swept.contains(comparison.candidate)) continue;
    shown.push_back(&comparison);
    candidates.push_back(comparison.candidate);
  }
  for (const int64_t length : data.lengths) {
    Json row = {{"length", data.Length("", length)}, {"mean", kNoValue}, {"cells", Json::array()}};
    row["counts"] = CountsNote(data.answers.Of(data.baseline, "", length));
    bool is_beyond = data.answers.IsExtrapolated(data.baseline, "", length), has_row = false;
    for (const CandidateComparison* comparison : shown) {
      const auto found =
          std::find_if(comparison->report.suite.begin(), comparison->report.suite.end(),
                       [&](const stats::SuiteComparison& of_length) { return of_length.context_length == length; });
      if (found == comparison->report.suite.end()) {
        row["cells"].push_back({{"outcome", kNoValue}});
        continue;
      }
      has_row = true;
      const InferenceCells cells = MakeInferenceCells(*found, 100, 1);
      const bool is_open = found->is_unfinished || !found->can_infer;
      row["mean"] = Unsigned(found->baseline_mean * 100, 1);
      is_beyond |= data.answers.IsExtrapolated(comparison->candidate, "", length);
      row["cells"].push_back({{"tone", cells.tone},
                              {"outcome", cells.outcome},
                              {"difference", cells.difference},
                              {"range", cells.range == kNoValue ? "" : cells.range},
                              {"note", is_open ? DesignNote(*found) : cells.untested},
                              {"counts", CountsNote(data.answers.Of(comparison->candidate, "", length))}});
    }
    row["is_beyond"] = is_beyond;
    if (has_row) rows.push_back(std::move(row));
  }
  if (rows.empty()) return "";
  return FillTemplate("length_table.html", {{"label", Sentence("length_table", {{"baseline", data.baseline}})},
                                            {"baseline", data.baseline},
                                            {"candidates", std::move(candidates)},
                                            {"rows", std::move(rows)}});
}

std::string SuiteTableHtml(const ReportData& data, bool of_swept) {
  std::string out =
      absl::StrCat(ScrollBegin(of_swept ? "Tests of every value" : "Tests over all tasks"),
                   "<table class=\"data\"><thead><tr><th>Candidate</th><th>Length</th>"
                   "<th class=\"n minor\">Questions<small>tasks, clusters</small></th><th class=\"n mean\">",
                   EscapeHtml(data.baseline), ", %</th><th class=\"n mean\">Candidate, %</th>", RelativeHead(data),
                   InferenceHeads(data.confidence, "Difference"), "</tr></thead><tbody>\n");
  ForEachRow(data, &stats::ComparisonReport::suite,
             [&](const CandidateComparison& comparison, const stats::SuiteComparison& row) {
               if ((data.swept.count(row.candidate) > 0) != of_swept) return;
               absl::StrAppend(&out, "<tr><td>", EscapeHtml(row.candidate), "</td><td>",
                               data.Length("", row.context_length), Flags(SuiteLabels(data, comparison, row)),
                               SideFlags(row, SuiteNote(data, row.baseline, row), SuiteNote(data, row.candidate, row)),
                               "</td><td class=\"n minor\">", CountLabel(row.sample_count), "<small>", TasksLabel(row),
                               ", ", CountLabel(row.cluster_count), "</small></td>",
                               MeanCell(Unsigned(row.baseline_mean * 100, 1), "", SuiteNote(data, row.baseline, row)),
                               MeanCell(Unsigned(row.candidate_mean * 100, 1), "", SuiteNote(data, row.candidate, row)),
                               RelativeHtml(row), InferenceHtml(MakeInferenceCells(row, 100, 1)), "</tr>\n");
             });
  return out + "</tbody></table></div>\n";
}

std::vector<Json> ComparisonTableJson(const ReportData& data) {
  std::vector<Json> rows;
  for (const CandidateComparison& comparison : data.comparisons) {
    const ResultContext context = ContextOf(data, comparison);
    for (const auto& row : comparison.report.comparisons) rows.push_back(ResultJson(row, context));
    for (const auto& row : comparison.report.suite) rows.push_back(ResultJson(row, context));
    for (const auto& row : comparison.report.contrasts) rows.push_back(ResultJson(row, context));
  }
  for (const std::vector<stats::Choice>& choices : data.choices) {
    for (const stats::Choice& choice : choices) {
      for (const CandidateComparison& comparison : data.comparisons) {
        if (!choice.is_baseline && comparison.candidate != choice.confirmation.candidate) continue;
        rows.push_back(ResultJson(choice, ContextOf(data, comparison)));
        break;
      }
    }
  }
  return rows;
}

std::string ComparisonTableCsv(const ReportData& data) {
  std::string out = absl::StrCat(absl::StrJoin(ResultKeys(), ","), "\n");
  for (const Json& row : ComparisonTableJson(data)) {
    for (const std::string& key : ResultKeys())
      absl::StrAppend(&out, key == ResultKeys().front() ? "" : ",", CsvValue(row[key]));
    out += "\n";
  }
  return out;
}

std::string ComparisonTableMarkdown(const ReportData& data) {
  const std::string tail = absl::StrCat(" | ", ConfidenceLabel(data.confidence),
                                        " interval | p | p adjusted | Sign flips | Outcome | Detectable | Notes |\n");
  const auto inferred = [](const InferenceCells& cells) {
    const char* bold = cells.is_decided ? "**" : "";
    return absl::StrCat(bold, cells.difference, bold, " | ", cells.range, " | ", EscapeMarkdownCell(cells.p), " | ",
                        EscapeMarkdownCell(cells.p_adjusted), " | ", EscapeMarkdownCell(cells.p_sign_flip), " | ",
                        cells.outcome, " | ", cells.detectable, " | ");
  };
  std::string out =
      absl::StrCat("| Task | Metric | Length | Candidate | n | Clusters | Failed | ", EscapeMarkdownCell(data.baseline),
                   " | Candidate mean | Relative gain | Difference", tail,
                   "| --- | --- | ---: | --- | ---: | ---: | ---: | ---: | ---: | --- | ---: | --- | ---: | "
                   "---: | ---: | --- | ---: | --- |\n");
  ForEachRow(data, &stats::ComparisonReport::suite,
             [&](const CandidateComparison& comparison, const stats::SuiteComparison& row) {
               const InferenceCells cells = MakeInferenceCells(row, 100, 1);
               absl::StrAppend(
                   &out, "| mean over ", TasksWords(row), " | points | ", data.Length("", row.context_length), " | ",
                   EscapeMarkdownCell(row.candidate), " | ", CountLabel(row.sample_count), " | ", cells.clusters, " | ",
                   CountLabel(row.failed_count), " | ", Unsigned(row.baseline_mean * 100, 1), " | ",
                   Unsigned(row.candidate_mean * 100, 1), " | ", RelativeMarkdown(row), " | ", inferred(cells));
               absl::StrAppend(&out,
                               EscapeMarkdownCell(absl::StrJoin(
                                   WithSides(SuiteLabels(data, comparison, row), row,
                                             SuiteNote(data, row.baseline, row), SuiteNote(data, row.candidate, row)),
                                   ", ")),
                               " |\n");
             });
  ForEachRow(
      data, &stats::ComparisonReport::comparisons,
      [&](const CandidateComparison& comparison, const stats::Comparison& row) {
        const Cells cells = MakeCells(data, comparison, row);
        absl::StrAppend(&out, "| ", EscapeMarkdownCell(row.task), " | ", EscapeMarkdownCell(cells.metric), " | ",
                        cells.length, " | ", EscapeMarkdownCell(row.candidate), " | ", CountLabel(row.sample_count),
                        " | ", cells.inferred.clusters, " | ", CountLabel(row.failed_count), " | ", cells.baseline_mean,
                        " | ", cells.candidate_mean, " | ", RelativeMarkdown(row), " | ", inferred(cells.inferred));
        absl::StrAppend(&out,
                        EscapeMarkdownCell(absl::StrJoin(
                            WithSides(cells.LabelsAndNote(), row, cells.baseline_note, cells.candidate_note), ", ")),
                        " |\n");
        if (!IsLogLikelihood(row.metric)) return;
        const PerplexityRow perplexity = PerplexityOf(row);
        absl::StrAppend(&out, "| ", EscapeMarkdownCell(row.task), " | perplexity | ", cells.length, " | ",
                        EscapeMarkdownCell(row.candidate), " | | | | ", perplexity.baseline, " | ",
                        perplexity.candidate, " | | ", perplexity.ratio, " | ", perplexity.Range(),
                        " | | | | | | exp(−mean of the row above) |\n");
      });
  std::string contrasts;
  ForEachContrast(
      data, [&](const CandidateComparison& comparison, const stats::LengthContrast& row, double scale, int decimals) {
        absl::StrAppend(&contrasts, "| ", row.task.empty() ? "mean over tasks" : EscapeMarkdownCell(row.task), " | ",
                        LengthsWithKind(data, row), " | ", EscapeMarkdownCell(row.candidate), " | ",
                        CountLabel(row.question_count), " | ", Signed(row.short_difference * scale, decimals), " | ",
                        Signed(row.long_difference * scale, decimals), " | ",
                        inferred(MakeInferenceCells(row, scale, decimals)),
                        EscapeMarkdownCell(absl::StrJoin(ContrastNotes(data, comparison, row), ", ")), " |\n");
      });
  if (!contrasts.empty()) {
    absl::StrAppend(&out, "\n| Task | Lengths | Candidate | n | At short | At long | Change", tail,
                    "| --- | --- | --- | ---: | ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | ---: | --- |\n",
                    contrasts);
  }
  return absl::StrCat(out, "\n", TestingNote(data), SourceNote(data), LengthNote(data.tested), "\n",
                      GroupTableMarkdown(data.groups, data.VariantNames()), PlainTableMarkdown(ThinkingCosts(data)),
                      PlainTableMarkdown(ScoreAgreement(data)));
}

std::string ComparisonTableLatex(const ReportData& data) {
  std::string out = absl::StrCat(
      "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\\small\n\\begin{tabular}{llrrrrrlrrl}\n\\toprule\n"
      "Task & Candidate & Length & $n$ & ",
      EscapeLatex(data.baseline),
      " & Candidate & $\\Delta$ & interval & $p$ & $p$ adjusted & outcome \\\\\n\\midrule\n");
  const auto inferred = [](const InferenceCells& cells) {
    const auto p = [](const std::string& value) {
      return value == kNoValue ? kNoValueLatex : absl::StrCat("$", value, "$");
    };
    const std::string difference = EscapeLatex(cells.difference);
    return absl::StrCat(cells.is_decided ? absl::StrCat("\\textbf{", difference, "}") : difference, " & ",
                        cells.range == kNoValue ? kNoValueLatex : EscapeLatex(cells.range), " & ", p(cells.p), " & ",
                        p(cells.p_adjusted), " & ", cells.outcome, " \\\\\n");
  };
  bool has_suite = false;
  ForEachRow(data, &stats::ComparisonReport::suite, [&](const CandidateComparison&, const stats::SuiteComparison& row) {
    has_suite = true;
    absl::StrAppend(&out, "mean over ", TasksWords(row), " & ", EscapeLatex(row.candidate), " & ",
                    data.Length("", row.context_length), " & ", CountLabel(row.sample_count), " & ",
                    EscapeLatex(Unsigned(row.baseline_mean * 100, 1)), " & ",
                    EscapeLatex(Unsigned(row.candidate_mean * 100, 1)), " & ",
                    inferred(MakeInferenceCells(row, 100, 1)));
  });
  if (has_suite) out += "\\midrule\n";
  ForEachRow(data, &stats::ComparisonReport::comparisons,
             [&](const CandidateComparison& comparison, const stats::Comparison& row) {
               if (!row.is_primary_metric) return;
               const Cells cells = MakeCells(data, comparison, row);
               absl::StrAppend(&out, EscapeLatex(row.task), " & ", EscapeLatex(row.candidate), " & ", cells.length,
                               " & ", CountLabel(row.sample_count), " & ", EscapeLatex(cells.baseline_mean), " & ",
                               EscapeLatex(cells.candidate_mean), " & ", inferred(cells.inferred));
             });
  std::string contrasts;
  ForEachContrast(data, [&](const CandidateComparison&, const stats::LengthContrast& row, double scale, int decimals) {
    absl::StrAppend(&contrasts, row.task.empty() ? "mean over tasks" : EscapeLatex(row.task), " & ",
                    EscapeLatex(row.candidate), " & ",
                    absl::StrReplaceAll(LengthsWithKind(data, row), {{"\u2192", "to"}}), " & ",
                    CountLabel(row.question_count), " & & & ", inferred(MakeInferenceCells(row, scale, decimals)));
  });
  if (!contrasts.empty()) absl::StrAppend(&out, "\\midrule\n", contrasts);
  const std::string caption = Sentence(
      "comparisons_table_caption",
      {{"baseline", data.baseline}, {"confidence", ConfidenceLabel(data.confidence)}, {"note", TestingNote(data)}});
  return absl::StrCat(out, "\\bottomrule\n\\end{tabular}\n\\caption{",
                      EscapeLatex(caption + SourceNote(data) + LengthNote(data.tested)), "}\n\\end{table}\n");
}

}  // namespace varifocal::report
