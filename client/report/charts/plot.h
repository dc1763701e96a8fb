// A drawing as data, and its rendering as SVG: the one place that writes the SVG of charts.
//
// A plot has panels; a panel has two scales and marks in its coordinates: lines, areas, segments (an interval, a grid
// line), cells, points, texts. Whoever draws something makes marks; axes are marks too. Colours are classes of a style
// sheet, that of the page or the plot's own, so that one drawing suits light, dark and print.
//
// Threads: pure functions; the same plot gives the same bytes.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::report {

// From values to pixels. The default leaves them as they are.
struct Scale {
  double low = 0, high = 1;   // values
  double begin = 0, end = 1;  // their pixels; of a y axis the begin is the bottom, below the end
  bool is_log = false;
  bool is_clamped = false;  // values beyond the ends are drawn at the ends

  double At(double value) const;
};

struct Place {
  double x = 0, y = 0;
};

struct Mark {
  enum class Kind {
    kLine,     // through all places
    kArea,     // between them
    kSegment,  // from one place to another
    kCell,     // a rectangle of two opposite corners
    kPoint,    // one place; a shape
    kRing,     // around one
    kText,
    kGroup,  // of parts, with one style and one tip
  };
  Kind kind = Kind::kLine;
  std::string style;  // classes of the style sheet
  std::vector<Place> places;
  double shift = 0;         // pixels to the right, for what would cover another mark
  std::string text;         // of kText
  const char* anchor = "";  // "middle" or "end" of the text at the place; else its start
  std::string tip;          // shown beside the pointer
  int shape = 0;            // of a point: circle, square, triangle, diamond, triangle upside down, and again
  double opacity = 1;       // of a cell's colour
  std::vector<Mark> parts;  // of a group
};

// What a plot is made of.
Mark LineMark(std::string style, std::vector<Place> places, double shift = 0);
Mark AreaMark(std::string style, std::vector<Place> places, double shift = 0);
Mark SegmentMark(std::string style, Place from, Place to, double shift = 0);
Mark CellMark(std::string style, Place corner, Place opposite, double opacity = 1, std::string tip = "");
Mark PointMark(int shape, bool is_hollow, Place place, double shift = 0);
Mark RingMark(std::string style, Place place, double shift = 0);
Mark TextMark(std::string style, Place place, std::string text, const char* anchor = "");
Mark GroupMark(std::string style, std::string tip, std::vector<Mark> parts);

struct Panel {
  Scale x, y;
  std::vector<Mark> marks;
};

struct Plot {
  double width = 0, height = 0;
  std::string title;            // for those who hear it
  std::string id;               // makes ids unique within a page; "" without a page
  std::string style = "chart";  // classes of the whole
  std::string style_sheet;      // makes it a file of its own; "" for the page's
  std::vector<Panel> panels;
};

std::string Draw(const Plot& plot);

// Wide enough for the label in any of the fonts that the style sheets ask for.
double TextWidth(absl::string_view label);

}  // namespace varifocal::report
