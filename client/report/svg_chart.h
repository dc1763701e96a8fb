// Draws a Figure as inline SVG.
//
// Colours come from the page's style sheet (classes c0, c1, ..), so that one drawing suits light, dark and print; every
// series also has its own marker and a label at the end of its line, or below the drawing where labels are wide or
// many, so that no information depends on colour alone.
#pragma once

#include <string>

#include "client/report/figure.h"

namespace varifocal::report {

struct ChartSize {
  int width = 440;
  int height = 282;
};

// `id` makes the ids inside unique within a page.
std::string DrawChart(const Figure& figure, const std::string& id, ChartSize size = {});

inline constexpr ChartSize kSmallChart = {300, 220};  // one of small multiples

}  // namespace varifocal::report
