// A Figure as a plot: series over one axis, with intervals as bands or bars.
//
// Every series has its own marker and a label at the end of its line, or below the drawing where labels are wide or
// many, so that no information depends on colour alone.
#pragma once

#include <string>

#include "client/report/charts/figure.h"
#include "client/report/charts/plot.h"

namespace varifocal::report {

struct ChartSize {
  int width = 440;
  int height = 282;
};
inline constexpr ChartSize kSmallChart = {300, 220};  // one of small multiples
inline constexpr ChartSize kWideChart = {760, 300};
inline constexpr ChartSize kFirstChart = {570, 300};   // beside the verdicts
inline constexpr ChartSize kNarrowChart = {380, 250};  // for the screen of a phone

// `id` makes the ids inside unique within a page. No panels where there is nothing to draw.
Plot ChartPlot(const Figure& figure, const std::string& id, ChartSize size = {});

// Rendered; "" where there is nothing to draw.
std::string DrawChart(const Figure& figure, const std::string& id, ChartSize size = {});

}  // namespace varifocal::report
