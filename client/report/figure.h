// A figure as data: axes, series and a caption, before anybody draws it.
//
// Context lengths stand on a logarithmic axis, because they double. A point carries its interval; what it stands on
// (failures, lengths beyond training) travels with it, so that a drawing cannot forget to say so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/report/report_data.h"

namespace varifocal::report {

struct Point {
  double x = 0;  // context length in tokens
  double y = 0, low = 0, high = 0;
  bool is_extrapolated = false;  // beyond the length its model was trained at
  bool is_incomplete = false;    // samples failed or are missing
  std::string tip;               // what a pointer over it says
};

struct Series {
  std::string label;
  int color_index = 0;  // the variant's place in the report, so that a variant keeps its colour in all figures
  std::vector<Point> points;
};

struct Figure {
  enum class Kind { kLinesWithBands, kPointsWithBars };
  Kind kind = Kind::kLinesWithBands;
  std::string title, y_label, caption;
  std::vector<double> x_ticks;  // the lengths there are
  double y_low = 0, y_high = 1, y_step = 0.25;
  bool has_zero_line = false;       // differences
  std::optional<double> trained_x;  // the length that all models were trained at, when it is one
  std::vector<Series> series;
};

// The mean over tasks of candidate minus baseline: the primary result.
Figure SuiteDifferenceFigure(const ReportData& data);
// One per task, of its primary metric.
std::vector<Figure> ScoreFigures(const ReportData& data);
std::vector<Figure> DifferenceFigures(const ReportData& data);

}  // namespace varifocal::report
