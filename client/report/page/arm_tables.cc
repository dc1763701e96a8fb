#include "client/report/page/arm_tables.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/report/charts/axis_figure.h"
#include "client/report/charts/line_chart.h"
#include "client/report/data/arm_labels.h"
#include "client/report/data/arm_rows.h"
#include "client/report/data/columns.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "db/stats/labels.h"

namespace varifocal::report {
namespace {

struct ShownScale {
  double factor = 1;
  int decimals = 3;
};

ShownScale ScaleOf(const stats::ArmMeasure& measure) {
  const db::TaskMetricRecord& metric = measure.parts.front();
  const bool is_share = measure.IsSuite() || (metric.worst_value == 0.0 && metric.best_value == 1.0);
  return is_share ? ShownScale{100, 1} : ShownScale{};
}

std::string MeasureWithUnit(const stats::ArmMeasure& measure) {
  return absl::StrCat(MeasureLabel(measure), ScaleOf(measure).factor == 100 ? ", %" : "");
}

struct ArmLine {
  std::string point, measure, length, seeds, baseline, candidate, labels;
  InferenceCells inferred;
  bool is_main = false;
};

std::vector<ArmLine> LinesOf(const ArmReport& arms, const std::string& candidate) {
  std::vector<ArmLine> lines;
  const std::vector<stats::ArmComparison> own = arms.Of(candidate);
  for (const stats::ArmComparison& comparison : own) {
    for (const stats::ArmRow& row : comparison.rows) {
      const ShownScale scale = ScaleOf(row.measure);
      lines.push_back({PointLabel(comparison, own), MeasureWithUnit(row.measure),
                       LengthLabel(arms.table.tested(), row.measure.task, row.context_length), SeedsLabel(comparison),
                       Unsigned(row.baseline_mean * scale.factor, scale.decimals),
                       Unsigned(row.candidate_mean * scale.factor, scale.decimals),
                       absl::StrJoin(ArmLabels(comparison, row), ", "),
                       MakeInferenceCells(row, scale.factor, scale.decimals), IsMainMeasure(row.measure, arms.table)});
    }
  }
  return lines;
}

std::string ArmRowsHtml(const ArmReport& arms, bool of_main) {
  std::string rows;
  for (const std::string& candidate : arms.Candidates()) {
    absl::StrAppend(&rows, "<tr class=\"group\"><th colspan=\"10\">", EscapeHtml(candidate), " against ",
                    EscapeHtml(arms.baseline), "</th></tr>\n");
    std::string before;
    for (const ArmLine& line : LinesOf(arms, candidate)) {
      if (line.is_main != of_main) continue;
      const std::string group = line.point;
      absl::StrAppend(
          &rows, "<tr", group != before ? " class=\"first\"" : "", "><td>", EscapeHtml(line.measure),
          line.point.empty() ? "" : absl::StrCat("<small>", EscapeHtml(line.point), "</small>"), "</td><td>",
          line.length,
          line.labels.empty() ? "" : absl::StrCat("<small class=\"flag\">", EscapeHtml(line.labels), "</small>"),
          "</td><td class=\"n minor\">", line.seeds, "<small>", line.inferred.clusters,
          " contexts</small></td><td class=\"n minor\">", line.baseline, "</td><td class=\"n minor\">", line.candidate,
          "</td>", InferenceHtml(line.inferred), "</tr>\n");
      before = group;
    }
  }
  return rows;
}

std::string ArmTable(const ArmReport& arms, const char* label, const std::string& rows) {
  return absl::StrCat(ScrollBegin(label),
                      "<table class=\"data cells\"><thead><tr><th>Measure</th><th>Length</th>"
                      "<th class=\"n minor\">Seeds<small>contexts</small></th><th class=\"n minor\">",
                      EscapeHtml(arms.baseline), "</th><th class=\"n minor\">Candidate</th>",
                      InferenceHeads(arms.confidence, "Difference"), "</tr></thead><tbody>\n", rows,
                      "</tbody></table></div>\n");
}

// A place on an axis, as text.
struct PlaceLine {
  std::string arm, measure, length, x, mean, range, seeds, note;
  bool is_main = false;
};

std::vector<PlaceLine> PlacesOf(const ArmReport& arms, const AxisReport& axis) {
  std::vector<PlaceLine> lines;
  for (const AxisCurves& curves : axis.curves) {
    const ShownScale scale = ScaleOf(curves.measure);
    for (const AxisSeries& series : curves.series) {
      for (const AxisPoint& point : series.points) {
        const size_t seeds = point.arm->runs.size();
        lines.push_back({series.label, MeasureWithUnit(curves.measure),
                         LengthLabel(arms.table.tested(), curves.measure.task, curves.context_length),
                         QuantityLabel(point.x), Unsigned(point.mean.difference * scale.factor, scale.decimals),
                         point.mean.can_infer
                             ? absl::StrCat(Unsigned(point.mean.low * scale.factor, scale.decimals), " to ",
                                            Unsigned(point.mean.high * scale.factor, scale.decimals))
                             : "",
                         seeds == 1 ? "1 training run" : absl::StrCat(seeds, " seeds"),
                         point.mean.is_unfinished ? "unfinished" : "", IsMainMeasure(curves.measure, arms.table)});
      }
    }
  }
  return lines;
}

std::string PlaceTable(const AxisReport& axis, double confidence, const std::vector<PlaceLine>& lines, bool of_main) {
  std::string rows, before;
  for (const PlaceLine& line : lines) {
    if (line.is_main != of_main) continue;
    const std::string group = absl::StrCat(line.measure, line.length, line.arm);
    const bool is_first = group != before;
    absl::StrAppend(&rows, "<tr", is_first ? " class=\"first\"" : "", "><td>",
                    is_first ? absl::StrCat(EscapeHtml(line.arm), "<small>", EscapeHtml(line.measure), "</small>") : "",
                    "</td><td>", is_first ? line.length : "", "</td><td class=\"n\">", line.x, "</td><td class=\"n\">",
                    line.mean, "<small>", line.range, "</small></td><td class=\"n\">", line.seeds,
                    line.note.empty() ? "" : absl::StrCat("<small class=\"flag\">", line.note, "</small>"),
                    "</td></tr>\n");
    before = group;
  }
  if (rows.empty()) return "";
  return absl::StrCat(ScrollBegin(absl::StrCat(of_main ? "Means by " : "Tasks by ", axis.axis->title)),
                      "<table class=\"data\"><thead><tr><th>Arm</th><th>Length</th><th class=\"n\">", axis.axis->title,
                      "</th><th class=\"n\">Mean<small>", ConfidenceLabel(confidence),
                      " interval</small></th><th class=\"n\">Seeds</th></tr></thead><tbody>\n", rows,
                      "</tbody></table></div>\n");
}

std::string AxisCaption(const AxisReport& axis, double confidence) {
  return Sentence("axis_caption", {{"axis", axis.axis->title}, {"confidence", ConfidenceLabel(confidence)}});
}

std::string RatioNote(const AxisReport& axis, const std::string& baseline, double confidence) {
  return Sentence("ratio_note",
                  {{"axis", axis.axis->title}, {"baseline", baseline}, {"confidence", ConfidenceLabel(confidence)}});
}

std::string RatioTable(const ArmReport& arms, const AxisReport& axis, bool of_main) {
  std::string rows;
  for (const EqualLossRow& row : axis.ratios) {
    if (IsMainMeasure(row.measure, arms.table) != of_main) continue;
    absl::StrAppend(&rows, "<tr><td>", EscapeHtml(row.candidate), "<small>", EscapeHtml(MeasureLabel(row.measure)),
                    "</small></td><td>", LengthLabel(arms.table.tested(), row.measure.task, row.context_length),
                    "</td><td class=\"n\">", QuantityLabel(row.x), "</td><td>", RatioLabel(row.ratio, row.is_paired),
                    "</td><td class=\"n\">",
                    row.ratio.low.has_value() ? EscapeHtml(PValue(row.ratio.p_value)) : kNoValue, "<small>",
                    row.ratio.low.has_value() ? EscapeHtml(PValue(row.ratio.sign_flip.p_value)) : kNoValue,
                    "</small></td></tr>\n");
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      ScrollBegin(absl::StrCat(of_main ? "Equal-loss ratio by " : "Equal-loss ratio of tasks by ", axis.axis->title)),
      "<table class=\"data\"><thead><tr><th>Candidate</th><th>Length</th>"
      "<th class=\"n\">Its ",
      axis.axis->title, "</th><th>Equal-loss ratio<small>", ConfidenceLabel(arms.confidence),
      " interval</small></th><th class=\"n\">p<small>sign flips</small></th></tr></thead><tbody>\n", rows,
      "</tbody></table></div>\n");
}

std::string Details(const std::string& summary, const std::string& body) {
  return body.empty() ? "" : absl::StrCat("<details><summary>", summary, "</summary>\n", body, "</details>\n");
}

std::string MarkdownRow(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) absl::StrAppend(&out, " ", EscapeMarkdownCell(cell), " |");
  return out + "\n";
}

}  // namespace

std::string ArmsHtml(const ArmReport& arms) {
  if (!arms.IsOverSeeds()) return "";
  return absl::StrCat(
      ArmTable(arms, "Over training seeds", ArmRowsHtml(arms, true)), "<p class=\"note\">", EscapeHtml(ArmsNote(arms)),
      "</p>\n",
      Details("The same for tasks and metrics", ArmTable(arms, "Tasks over training seeds", ArmRowsHtml(arms, false))));
}

std::string AxisHtml(const ArmReport& arms, const AxisReport& axis) {
  std::string charts;
  const std::vector<Figure> figures = AxisFigures(axis, arms.table);
  for (size_t i = 0; i < figures.size(); ++i) {
    absl::StrAppend(&charts, "<div class=\"cell\">", DrawChart(figures[i], absl::StrCat("axis-", axis.axis->name, i)),
                    "</div>\n");
  }
  const std::vector<PlaceLine> places = PlacesOf(arms, axis);
  std::string ratios = RatioTable(arms, axis, true);
  if (!ratios.empty()) {
    ratios = absl::StrCat("<h3>Equal-loss ratio</h3>\n", ratios, "<p class=\"note\">",
                          EscapeHtml(RatioNote(axis, arms.baseline, arms.confidence)), "</p>\n");
  }
  return absl::StrCat("<figure><div class=\"grid\">\n", charts, "</div>\n<figcaption>",
                      EscapeHtml(AxisCaption(axis, arms.confidence)), "</figcaption></figure>\n",
                      PlaceTable(axis, arms.confidence, places, true), ratios,
                      Details("The same for tasks and metrics",
                              PlaceTable(axis, arms.confidence, places, false) + RatioTable(arms, axis, false)));
}

std::string ArmsMarkdown(const ArmReport& arms) {
  std::string out;
  if (arms.IsOverSeeds()) {
    absl::StrAppend(
        &out, "\n| Candidate | Point | Measure | Length | Seeds | ", EscapeMarkdownCell(arms.baseline),
        " | Candidate | Difference | ", ConfidenceLabel(arms.confidence),
        " interval | p | Check | p adjusted | Outcome | Detectable | Notes |\n| --- | --- | --- | ---: | --- "
        "| ---: | ---: | ---: | --- | ---: | ---: | ---: | --- | ---: | --- |\n");
    for (const std::string& candidate : arms.Candidates()) {
      for (const ArmLine& line : LinesOf(arms, candidate)) {
        const InferenceCells& cells = line.inferred;
        out += MarkdownRow({candidate, line.point, line.measure, line.length, line.seeds, line.baseline, line.candidate,
                            cells.difference, cells.range, cells.p, cells.p_sign_flip, cells.p_adjusted, cells.outcome,
                            cells.detectable, line.labels});
      }
    }
    absl::StrAppend(&out, "\n", ArmsNote(arms), "\n");
  }
  for (const AxisReport& axis : arms.axes) {
    absl::StrAppend(&out, "\n| Arm | Measure | Length | ", axis.axis->title, " | Mean | ",
                    ConfidenceLabel(arms.confidence),
                    " interval | Seeds |\n| --- | --- | ---: | ---: | ---: | --- | --- |\n");
    for (const PlaceLine& line : PlacesOf(arms, axis))
      out += MarkdownRow({line.arm, line.measure, line.length, line.x, line.mean, line.range, line.seeds});
    if (axis.ratios.empty()) continue;
    absl::StrAppend(&out, "\n| Candidate | Measure | Length | Its ", axis.axis->title,
                    " | Equal-loss ratio |\n| --- | --- | ---: | ---: | --- |\n");
    for (const EqualLossRow& row : axis.ratios) {
      out += MarkdownRow({row.candidate, MeasureLabel(row.measure),
                          LengthLabel(arms.table.tested(), row.measure.task, row.context_length), QuantityLabel(row.x),
                          RatioLabel(row.ratio, row.is_paired)});
    }
    absl::StrAppend(&out, "\n", RatioNote(axis, arms.baseline, arms.confidence), "\n");
  }
  return out;
}

std::string AxisCsv(const ArmReport& arms) {
  std::string out;
  for (const Json& row : ArmsJson(arms)) {
    if (row["kind"] != "axis_point") continue;
    std::vector<std::string> names, values;
    for (const auto& [name, value] : row.items()) {
      if (name == "kind") continue;
      names.push_back(name);
      values.push_back(CsvValue(value));
    }
    if (out.empty()) absl::StrAppend(&out, absl::StrJoin(names, ","), "\n");
    absl::StrAppend(&out, absl::StrJoin(values, ","), "\n");
  }
  return out;
}

std::string AxisLatex(const ArmReport& arms) {
  std::string out;
  for (const AxisReport& axis : arms.axes) {
    absl::StrAppend(&out,
                    "% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\\small\n\\begin{tabular}{llrrrl}\n"
                    "\\toprule\nArm & Measure & Length & ",
                    EscapeLatex(axis.axis->title), " & Mean & Interval \\\\\n\\midrule\n");
    for (const PlaceLine& line : PlacesOf(arms, axis)) {
      if (!line.is_main) continue;
      const auto number = [](const std::string& text) { return absl::StrReplaceAll(text, {{"\u2212", "$-$"}}); };
      absl::StrAppend(&out, EscapeLatex(line.arm), " & ", EscapeLatex(line.measure), " & ", line.length, " & ", line.x,
                      " & ", number(line.mean), " & ", number(line.range), " \\\\\n");
    }
    absl::StrAppend(&out, "\\bottomrule\n\\end{tabular}\n\\caption{", EscapeLatex(AxisCaption(axis, arms.confidence)),
                    "}\n\\end{table}\n");
    std::string ratios;
    for (const EqualLossRow& row : axis.ratios) {
      if (!IsMainMeasure(row.measure, arms.table)) continue;
      absl::StrAppend(&ratios, EscapeLatex(row.candidate), " & ", EscapeLatex(MeasureLabel(row.measure)), " & ",
                      LengthLabel(arms.table.tested(), row.measure.task, row.context_length), " & ",
                      QuantityLabel(row.x), " & ",
                      absl::StrReplaceAll(RatioLabel(row.ratio, row.is_paired), {{"×", "$\\times$"}}), " \\\\\n");
    }
    if (ratios.empty()) continue;
    absl::StrAppend(&out,
                    "\\begin{table}\n\\centering\\small\n\\begin{tabular}{llrrl}\n\\toprule\nCandidate & Measure & "
                    "Length & Its ",
                    EscapeLatex(axis.axis->title), " & Equal-loss ratio \\\\\n\\midrule\n", ratios,
                    "\\bottomrule\n\\end{tabular}\n\\caption{",
                    EscapeLatex(RatioNote(axis, arms.baseline, arms.confidence)), "}\n\\end{table}\n");
  }
  return out;
}

std::vector<Json> ArmsJson(const ArmReport& arms) {
  std::vector<Json> rows;
  for (const stats::ArmComparison& comparison : arms.comparisons) {
    for (const stats::ArmRow& row : comparison.rows)
      rows.push_back(ArmRowJson(comparison, row, arms.table.tested(), arms.job_id));
  }
  for (const AxisReport& axis : arms.axes) {
    for (const AxisCurves& curves : axis.curves) {
      for (const AxisSeries& series : curves.series) {
        for (const AxisPoint& point : series.points)
          rows.push_back(AxisPointJson(curves, series, point, *axis.axis, arms.table.tested()));
      }
    }
    for (const EqualLossRow& row : axis.ratios)
      rows.push_back(EqualLossJson(row, *axis.axis, arms.table.tested(), arms.job_id));
  }
  return rows;
}

std::string ArmsNote(const ArmReport& arms) {
  int64_t suite = 0, primary = 0;
  for (const stats::ArmComparison& comparison : arms.comparisons) {
    if (!comparison.IsOverSeeds()) continue;
    for (const stats::ArmRow& row : comparison.rows) {
      if (row.measure.IsSuite()) suite = row.test_count;
      if (!row.measure.IsSuite() && row.measure.is_primary) primary = row.test_count;
    }
  }
  Json families = Json::array();
  for (const auto& [name, count] : {std::pair{"arms_means", suite}, {"arms_cells", primary}})
    if (count > 0) families.push_back(Sentence(name, {{"count", count}, {"is_one", count == 1}}));
  return Sentence("arms_note", {{"families", families}, {"notes", arms.notes}, {"fragile", stats::kFragileLabel}});
}

}  // namespace varifocal::report
