#include "client/report/charts/depth_plot.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "client/report/data/depth_table.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr double kShadeMax = 0.55;  // as in page.css: text stays readable on it

}  // namespace

// Whether a cell, of one task or of all, has fewer questions or tasks than others of its map.
bool IsDepthIncomplete(const ReportData& data, size_t variant, const std::string& task, int64_t length, int quarter) {
  const std::set<std::string> here = data.depths.TasksOf(variant, length, quarter);
  return std::any_of(data.tasks.begin(), data.tasks.end(), [&](const std::string& other) {
    if (!data.depths.HasTask(other) || (!task.empty() && other != task)) return false;
    return here.count(other) == 0 || data.IsIncomplete(data.variants[variant].name, other, length);
  });
}

Plot DepthMapsPlot(const ReportData& data) {
  Plot plot;
  if (data.depths.IsEmpty()) return plot;
  constexpr int kLabelWidth = 84, kCellWidth = 46, kCellHeight = 26, kTop = 36, kMapsPerRow = 3;
  const int map_width = kLabelWidth + kCellWidth * data.lengths.size() + 24;
  const int map_height = kTop + kCellHeight * DepthTable::kQuarterCount + 24;
  const int map_count = data.variants.size();
  plot.width = map_width * std::min(map_count, kMapsPerRow);
  plot.height = map_height * ((map_count + kMapsPerRow - 1) / kMapsPerRow);
  plot.title = "Score by depth of the evidence, percent";
  plot.style = "chart strip";
  Panel map;
  for (int variant = 0; variant < map_count; ++variant) {
    const int left = variant % kMapsPerRow * map_width, top = variant / kMapsPerRow * map_height;
    const auto text = [&](const char* style, double x, double y, const std::string& value, const char* anchor) {
      map.marks.push_back(TextMark(style, {left + x, top + y}, value, anchor));
    };
    text("title", 0, 13, data.variants[variant].name, "");
    for (size_t i = 0; i < data.lengths.size(); ++i) {
      const int x = kLabelWidth + kCellWidth * i;
      text("tick", x + kCellWidth / 2, kTop - 6, data.Length("", data.lengths[i]), "middle");
      for (int quarter = 0; quarter < DepthTable::kQuarterCount; ++quarter) {
        const int y = kTop + kCellHeight * quarter;
        if (i == 0) text("tick", 0, y + kCellHeight / 2 + 4, kDepthQuarters[quarter], "");
        const std::optional<double> mean = data.depths.MeanOf(variant, "", data.lengths[i], quarter);
        const bool is_open = mean.has_value() && IsDepthIncomplete(data, variant, "", data.lengths[i], quarter);
        const double x0 = left + x + 1, y0 = top + y + 1;
        map.marks.push_back(CellMark(is_open ? "open" : "mass", {x0, y0}, {x0 + kCellWidth - 2, y0 + kCellHeight - 2},
                                     is_open ? 1 : mean.value_or(0) * kShadeMax));
        text("value", x + kCellWidth / 2, y + kCellHeight / 2 + 4,
             mean.has_value() ? Unsigned(*mean * 100, 0) : kNoValue, "middle");
      }
    }
  }
  plot.panels.push_back(std::move(map));
  return plot;
}

}  // namespace varifocal::report
