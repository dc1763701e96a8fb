#include "client/report/figure_files.h"

#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/embedded.h"
#include "client/report/columns.h"
#include "client/report/figure.h"
#include "client/report/svg_chart.h"
#include "client/report/sweep.h"
#include "client/report/text_format.h"

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
    if (absl::StartsWith(line, ".chart ") && !absl::StartsWith(line, ".chart {")) absl::StrAppend(&style, line, "\n");
  }
  return absl::StrReplaceAll(style, values);
}

std::string StandaloneSvg(const std::string& chart) {
  const size_t end = chart.find('>') + 1;
  return absl::StrCat(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
      absl::StrReplaceAll(chart.substr(0, end), {{"<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" "}}), "<style>\n",
      ChartStyle(), "</style>", chart.substr(end));
}

struct FigureRow {
  const Series* series;
  const Point* point;
};

constexpr Column<FigureRow> kFigureColumns[] = {
    {"series", [](const FigureRow& row) -> Json { return row.series->label; }},
    {"x", [](const FigureRow& row) -> Json { return row.point->x; }},
    {"y", [](const FigureRow& row) -> Json { return row.point->y; }},
    {"low", [](const FigureRow& row) -> Json { return row.point->low; }},
    {"high", [](const FigureRow& row) -> Json { return row.point->high; }},
    {"extrapolated", [](const FigureRow& row) -> Json { return row.point->is_extrapolated; }},
    {"incomplete", [](const FigureRow& row) -> Json { return row.point->is_incomplete; }},
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
  const auto add = [&](const std::string& name, const Figure& figure, ChartSize size = {}) {
    const std::string chart = DrawChart(figure, name, size);
    if (chart.empty()) return;
    files.push_back({absl::StrCat(name, ".svg"), StandaloneSvg(chart)});
    files.push_back({absl::StrCat(name, ".csv"), FigureCsv(figure)});
  };
  if (data.tasks.size() > 1) add("difference", SuiteDifferenceFigure(data), {.width = 760, .height = 300});
  const std::vector<Sweep> sweeps = FindSweeps(data);
  if (!sweeps.empty()) {
    const std::vector<Figure> figures = SweepFigures(sweeps, data);
    for (size_t i = 0; i < figures.size(); ++i) add(absl::StrCat("sweep-", data.lengths[i]), figures[i]);
  }
  for (const Figure& figure : ScoreFigures(data)) add(absl::StrCat("score-", figure.title), figure);
  for (const Figure& figure : DifferenceFigures(data)) add(absl::StrCat("difference-", figure.title), figure);
  return files;
}

}  // namespace report
}  // namespace varifocal
