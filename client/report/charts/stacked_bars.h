// A stacked bar chart as a plot of its own style, rendered: adjacent panels, each with one bar per group, divided into
// classes.
//
// The file contains its light and dark colours; parts of bars have tooltips.
#pragma once

#include <string>
#include <vector>

namespace varifocal::report {

struct StackedBar {
  std::string label;
  std::vector<double> shares;  // one for each class; they need not sum to 1
};

struct StackedPanel {
  std::string title, subtitle;
  std::vector<StackedBar> bars;
};

struct StackedFigure {
  std::string title, y_label, caption;
  std::vector<std::string> classes;  // from the bottom of a bar upwards; at most kStackedClassesMax
  std::vector<StackedPanel> panels;
};

inline constexpr size_t kStackedClassesMax = 10;

// "" without panels. All panels have the same axis.
std::string DrawStackedBars(const StackedFigure& figure);

}  // namespace varifocal::report
