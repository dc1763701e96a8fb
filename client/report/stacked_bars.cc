#include "client/report/stacked_bars.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/check.h"
#include "client/report/text_format.h"

namespace varifocal::report {
namespace {

constexpr int kPanelColumns = 2;
constexpr double kPanelWidth = 430, kPanelHeight = 250, kMargin = 16, kPanelsTop = 54;
constexpr double kPanelLeft = 44, kPanelTop = 42, kPanelBottom = 24;  // inside a panel
constexpr double kLegendWidth = 170, kLegendRow = 18, kCaption = 26;
constexpr double kBarShare = 0.78;  // of a bar's place

constexpr char kBarStyle[] =
    "svg{--paper:#fff;--ink:#1b1f24;--soft:#5b6470;--faint:#d9dde2;background:var(--paper);"
    "font-family:\"Source Sans 3\",\"Segoe UI\",system-ui,\"DejaVu Sans\",sans-serif}"
    "@media (prefers-color-scheme:dark){svg{--paper:#14171b;--ink:#e7eaee;--soft:#9aa4b0;--faint:#343a42}}"
    ".paper{fill:var(--paper)}text{font-size:11.5px;fill:var(--soft)}"
    ".title{font-size:15px;font-weight:600;fill:var(--ink)}.head{font-size:13px;font-weight:600;fill:var(--ink)}"
    ".grid{stroke:var(--faint)}.part{stroke:var(--paper);stroke-width:.8}"
    ".c0{fill:#0072b2}.c1{fill:#56b4e9}.c2{fill:#009e73}.c3{fill:#e6b422}.c4{fill:#d55e00}.c5{fill:#7a5195}"
    ".c6{fill:#c8649c}.c7{fill:#4d545c}.c8{fill:#8fb3a3}.c9{fill:#b8bfc7}"
    "@media (prefers-color-scheme:dark){.c7{fill:#8a929c}.c9{fill:#4b535d}}";

std::string Coordinate(double value) { return absl::StrFormat("%.1f", value); }
std::string PercentOfBar(double share) { return absl::StrCat(Unsigned(share * 100, 1), " %"); }

double HeightOf(const StackedBar& bar) { return std::accumulate(bar.shares.begin(), bar.shares.end(), 0.0); }

// The end of the axis: the highest bar, rounded up to a step.
struct ShareAxis {
  double step = 0.1, high = 0.1;

  explicit ShareAxis(const StackedFigure& figure) {
    double highest = 0;
    for (const StackedPanel& panel : figure.panels) {
      for (const StackedBar& bar : panel.bars) highest = std::max(highest, HeightOf(bar));
    }
    step = highest > 0.5 ? 0.2 : highest > 0.2 ? 0.1 : 0.05;
    high = std::max(step, step * std::ceil(highest / step - 1e-9));
  }
};

std::string BarText(const char* style, double x, double y, const char* anchor, const std::string& text) {
  return absl::StrCat("<text class=\"", style, "\" x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" text-anchor=\"",
                      anchor, "\">", EscapeHtml(text), "</text>\n");
}

std::string DrawBar(const StackedFigure& figure, const StackedBar& bar, double x, double width, double bottom,
                    double scale) {
  std::string out;
  double y = bottom;
  for (size_t i = 0; i < bar.shares.size(); ++i) {
    const double height = bar.shares[i] * scale;
    y -= height;
    if (height <= 0) continue;
    absl::StrAppend(&out, "<rect class=\"part c", i, "\" x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" width=\"",
                    Coordinate(width), "\" height=\"", Coordinate(height), "\"><title>", EscapeHtml(bar.label), ", ",
                    EscapeHtml(figure.classes[i]), ": ", PercentOfBar(bar.shares[i] / HeightOf(bar)),
                    " of the bar</title></rect>\n");
  }
  return out;
}

std::string DrawPanel(const StackedFigure& figure, const StackedPanel& panel, const ShareAxis& axis, double left,
                      double top) {
  const double x0 = left + kPanelLeft, x1 = left + kPanelWidth - kMargin;
  const double y0 = top + kPanelTop, y1 = top + kPanelHeight - kPanelBottom;
  const double scale = (y1 - y0) / axis.high;
  std::string out =
      BarText("head", left, top + 13, "start", panel.title) + BarText("", left, top + 29, "start", panel.subtitle);
  for (double y = 0; y <= axis.high + 1e-9; y += axis.step) {
    absl::StrAppend(&out, "<line class=\"grid\" x1=\"", Coordinate(x0), "\" x2=\"", Coordinate(x1), "\" y1=\"",
                    Coordinate(y1 - y * scale), "\" y2=\"", Coordinate(y1 - y * scale), "\"/>\n",
                    BarText("", x0 - 6, y1 - y * scale + 4, "end", absl::StrCat(Unsigned(y * 100, 0), " %")));
  }
  const double place = (x1 - x0) / std::max<size_t>(1, panel.bars.size());
  for (size_t i = 0; i < panel.bars.size(); ++i) {
    const double x = x0 + place * i;
    out += DrawBar(figure, panel.bars[i], x + place * (1 - kBarShare) / 2, place * kBarShare, y1, scale);
    out += BarText("", x + place / 2, y1 + 16, "middle", panel.bars[i].label);
  }
  return out;
}

}  // namespace

std::string DrawStackedBars(const StackedFigure& figure) {
  if (figure.panels.empty()) return "";
  VF_CHECK(figure.classes.size() <= kStackedClassesMax, "a class has a colour");
  const ShareAxis axis(figure);
  const size_t columns = std::min<size_t>(kPanelColumns, figure.panels.size());
  const size_t rows = (figure.panels.size() + columns - 1) / columns;
  const double width = 2 * kMargin + kPanelWidth * kPanelColumns;
  const size_t in_a_row = static_cast<size_t>((width - 2 * kMargin) / kLegendWidth);
  const double legend_top = kPanelsTop + kPanelHeight * rows + 12;
  const double legend_rows = std::ceil(static_cast<double>(figure.classes.size()) / in_a_row);
  const double height = legend_top + kLegendRow * legend_rows + kCaption;
  std::string out = absl::StrCat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Coordinate(width), " ", Coordinate(height),
      "\" width=\"", Coordinate(width), "\" height=\"", Coordinate(height), "\" role=\"img\">\n<title>",
      EscapeHtml(figure.title), "</title>\n<style>", kBarStyle,
      "</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n",
      BarText("title", kMargin, 24, "start", figure.title), BarText("", kMargin, 42, "start", figure.y_label));
  for (size_t i = 0; i < figure.panels.size(); ++i) {
    const size_t column = i % columns, row = i / columns;
    out += DrawPanel(figure, figure.panels[i], axis, kMargin + kPanelWidth * column, kPanelsTop + kPanelHeight * row);
  }
  for (size_t i = 0; i < figure.classes.size(); ++i) {
    const double x = kMargin + kLegendWidth * (i % in_a_row);
    const size_t row = i / in_a_row;
    const double y = legend_top + kLegendRow * row;
    absl::StrAppend(&out, "<rect class=\"c", i, "\" x=\"", Coordinate(x), "\" y=\"", Coordinate(y),
                    "\" width=\"11\" height=\"11\"/>\n", BarText("", x + 16, y + 10, "start", figure.classes[i]));
  }
  return absl::StrCat(out, BarText("", kMargin, height - 10, "start", figure.caption), "</svg>\n");
}

}  // namespace varifocal::report
