#include "client/report/page/figure_files.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/embedded.h"
#include "client/report/charts/attention_figures.h"
#include "client/report/charts/axis_figure.h"
#include "client/report/charts/depth_plot.h"
#include "client/report/charts/figure.h"
#include "client/report/charts/length_figures.h"
#include "client/report/charts/line_chart.h"
#include "client/report/charts/sweep_figures.h"
#include "client/report/data/axis.h"
#include "client/report/data/columns.h"
#include "client/report/data/sweep.h"
#include "client/report/page/attention_section.h"
#include "client/report/page/depth_map.h"

namespace varifocal {

EmbeddedFiles Embedded_ReportAssets();

namespace report {
namespace {

// The rules for charts of the page's style sheet, with the values of its first block of variables.
std::string ChartStyle() {
  const std::string css(Embedded_ReportAssets().Text("page.css"));
  std::vector<std::pair<std::string, std::string>> values;
  const absl::string_view variables = absl::string_view(css).substr(0, css.find('}'));
  for (absl::string_view declaration : absl::StrSplit(variables, absl::ByAnyChar("{;"))) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(declaration, absl::MaxSplits(':', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(parts.first);
    if (absl::StartsWith(name, "--"))
      values.emplace_back(absl::StrCat("var(", name, ")"), absl::StripAsciiWhitespace(parts.second));
  }
  std::string style = "svg { background: #ffffff; font-family: \"Source Sans 3\", \"DejaVu Sans\", sans-serif; }\n";
  for (absl::string_view line : absl::StrSplit(css, '\n')) {
    const bool is_of_charts = absl::StartsWith(line, ".chart ") && !absl::StartsWith(line, ".chart {");
    if (is_of_charts || absl::StartsWith(line, ".strip ")) absl::StrAppend(&style, line, "\n");
  }
  return absl::StrReplaceAll(style, values);
}

std::string StandaloneSvg(Plot plot) {
  static const std::string* const style = new std::string(ChartStyle());
  plot.style_sheet = *style;
  return absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", Draw(plot));
}

// A title such as "recall_kv at 8K" as part of a file's name.
std::string FileNameOf(const std::string& title) {
  return absl::StrReplaceAll(title, {{" ", "-"}, {"/", "-"}, {",", ""}, {"−", ""}});
}

// "sweep-"; with the axis' number after the first axis. Figures of one axis are adjacent.
std::string SweepPrefix(const std::vector<Figure>& figures, const Figure& figure) {
  int axis = 1;
  for (size_t i = 1; i < figures.size() && figures[i - 1].x_label != figure.x_label; ++i) {
    axis += figures[i].x_label != figures[i - 1].x_label;
  }
  return axis == 1 ? "sweep-" : absl::StrCat("sweep-", axis, "-");
}

struct FigureRow {
  const Series* series;
  const Point* point;
};

constexpr Column<FigureRow> kFigureColumns[] = {
    {"series", [](const FigureRow& row) -> Json { return row.series->label; }},
    {"x", [](const FigureRow& row) -> Json { return row.point->x; }},
    {"y", [](const FigureRow& row) -> Json { return row.point->y; }},
    {"low", [](const FigureRow& row) -> Json { return row.point->has_interval ? Json(row.point->low) : Json(); }},
    {"high", [](const FigureRow& row) -> Json { return row.point->has_interval ? Json(row.point->high) : Json(); }},
    {"extrapolated", [](const FigureRow& row) -> Json { return row.point->is_extrapolated; }},
    {"incomplete", [](const FigureRow& row) -> Json { return row.point->is_incomplete; }},
};

constexpr Column<Json> kDepthColumns[] = {
    {"variant", [](const Json& row) -> Json { return row["variant"]; }},
    {"task", [](const Json& row) -> Json { return row["task"]; }},
    {"context_length", [](const Json& row) -> Json { return row["context_length"]; }},
    {"depth_low", [](const Json& row) -> Json { return row["depth_low"]; }},
    {"depth_high", [](const Json& row) -> Json { return row["depth_high"]; }},
    {"mean", [](const Json& row) -> Json { return row["mean"]; }},
    {"sample_count", [](const Json& row) -> Json { return row["sample_count"]; }},
    {"incomplete", [](const Json& row) -> Json { return row["incomplete"]; }},
};

std::string FigureCsv(const Figure& figure) {
  std::vector<FigureRow> rows;
  for (const Series& series : figure.series) {
    for (const Point& point : series.points) rows.push_back({&series, &point});
  }
  return RowsAsCsv(kFigureColumns, rows);
}

}  // namespace

std::vector<FigureFile> FigureFiles(const ReportData& data) {
  std::vector<FigureFile> files;
  const auto add_svg = [&](const std::string& name, const std::string& svg) {
    if (!svg.empty()) files.push_back({absl::StrCat(name, ".svg"), svg});
  };
  const auto add = [&](std::string name, const Figure& figure, ChartSize size = {}) {
    name = FileNameOf(name);
    const bool is_taken = std::any_of(files.begin(), files.end(),
                                      [&](const FigureFile& file) { return file.name == absl::StrCat(name, ".svg"); });
    if (is_taken) name = FileNameOf(absl::StrCat(name, "-", figure.y_label));  // losses of two metrics have one title
    const Plot plot = ChartPlot(figure, name, size);
    if (plot.panels.empty()) return;
    add_svg(name, StandaloneSvg(plot));
    files.push_back({absl::StrCat(name, ".csv"), FigureCsv(figure)});
  };
  for (const AxisReport& axis : data.arms.axes) {
    for (const Figure& figure : AxisFigures(axis, data.arms.table))
      add(absl::StrCat(axis.axis->name, "-", figure.title), figure);
  }
  if (data.tasks.size() > 1) add("difference", SuiteDifferenceFigure(data), kWideChart);
  const std::vector<Sweep> sweeps = FindSweeps(data);
  if (!sweeps.empty()) {
    const std::vector<Figure> figures = SweepFigures(sweeps, data);
    for (size_t i = 0; i < figures.size(); ++i) {  // of every axis a figure for each length
      add(absl::StrCat(SweepPrefix(figures, figures[i]), data.lengths[i % data.lengths.size()]), figures[i]);
    }
    if (data.tasks.size() > 1) {
      const std::vector<Figure> of_tasks = SweepTaskFigures(sweeps, data);
      for (const Figure& figure : of_tasks) add(absl::StrCat(SweepPrefix(of_tasks, figure), figure.title), figure);
    }
  }
  for (const Figure& figure : ScoreFigures(data)) add(absl::StrCat("score-", figure.title), figure);
  for (const Figure& figure : DifferenceFigures(data)) add(absl::StrCat("difference-", figure.title), figure);
  for (const Figure& figure : AttentionFigures(data)) add(absl::StrCat("attention-", figure.title), figure);
  for (const auto& [variant, strip] : AttentionStripFiles(data))
    add_svg(FileNameOf("attention-strip-" + variant), strip);
  if (const Plot maps = DepthMapsPlot(data); !maps.panels.empty()) {
    add_svg("depth", StandaloneSvg(maps));
    files.push_back({"depth.csv", RowsAsCsv(kDepthColumns, DepthJson(data))});
  }
  return files;
}

}  // namespace report
}  // namespace varifocal
