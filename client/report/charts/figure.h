// A figure as data, independent of its rendering: axes, series and a caption.
//
// Context lengths and temperatures are on logarithmic axes, because they are multiplied. A point carries its interval; what it rests on
// (failures, lengths beyond training) travels with it, so that every drawing shows it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace varifocal::report {

struct Point {
  double x = 0;  // context length in tokens, or a temperature
  double y = 0, low = 0, high = 0;
  bool has_interval = true;      // else nothing can be inferred, and low and high are y
  bool is_extrapolated = false;  // beyond the length its model was trained at
  bool is_incomplete = false;    // samples failed or are missing
  bool is_hollow = false;  // incomplete, or there are too few contexts or training seeds for its interval; else filled
  bool is_chosen = false;  // of kLinesWithBars: chosen among the series' points
  std::string tip;         // tooltip
};

struct Series {
  std::string label;
  int color_index = 0;  // the variant's place in the report, so that a variant keeps its colour in all figures
  std::vector<Point> points;
};

struct Figure {
  enum class Kind { kLinesWithBands, kPointsWithBars, kLinesWithBars };
  Kind kind = Kind::kLinesWithBands;
  std::string title, y_label, caption;
  std::string x_label = "context length, tokens";
  std::vector<double> x_ticks;  // the lengths or temperatures there are
  bool x_is_length = true;
  std::vector<std::string> x_tick_labels;  // of the ticks, where they are neither lengths nor plain numbers
  bool x_is_linear = false;
  double y_low = 0, y_high = 1, y_step = 0.25;
  bool has_zero_line = false;         // differences
  std::optional<double> reference_y;  // a line across, and what it is
  std::string reference_label;
  std::optional<double> trained_x;  // the length that all models were trained at, when it is one
  std::vector<Series> series;
};

// The colours repeat after this many variants.
inline constexpr int kChartColorCount = 12;

// The figure itself; with more series than colours, one for each of them instead, on the same axes: with the series
// `baseline`, where there is one.
std::vector<Figure> SmallMultiples(Figure figure, const std::string& baseline);

// Sets the y axis so that it holds every interval and is at least `least_span` long, within `floor` and `ceiling`.
void FitY(Figure& figure, double least_span, std::optional<double> floor = {}, std::optional<double> ceiling = {});

// Gives those figures whose y label ends with `unit` the range of all of them, so that they can be compared.
void ShareY(std::vector<Figure>& figures, const std::string& unit);

// A sentence on points without interval, "" where there are none.
bool LacksInterval(const std::vector<Figure>& figures);

}  // namespace varifocal::report
