#include "client/report/charts/stacked_bars.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "client/report/charts/plot.h"
#include "client/report/data/text_format.h"

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

// The parts of a bar, from x to x + width of the panel's axis.
void AddBar(const StackedFigure& figure, const StackedBar& bar, double x, double width, std::vector<Mark>& marks) {
  double below = 0;
  for (size_t i = 0; i < bar.shares.size(); ++i) {
    const double share = bar.shares[i];
    if (share <= 0) continue;
    marks.push_back(CellMark(
        absl::StrCat("part c", i), {x, below}, {x + width, below + share}, /*opacity=*/1,
        absl::StrCat(bar.label, ", ", figure.classes[i], ": ", PercentOfBar(share / HeightOf(bar)), " of the bar")));
    below += share;
  }
}

// Bars at 0, 1, .. of the x axis, which is a unit for each.
Panel MakePanel(const StackedFigure& figure, const StackedPanel& panel, const ShareAxis& axis, double left, double top,
                std::vector<Mark>& texts) {
  const double x0 = left + kPanelLeft, x1 = left + kPanelWidth - kMargin;
  const double y0 = top + kPanelTop, y1 = top + kPanelHeight - kPanelBottom;
  const double bar_count = std::max<size_t>(1, panel.bars.size());
  Panel made{{0, bar_count, x0, x1}, {0, axis.high, y1, y0}, {}};
  texts.push_back(TextMark("head", {left, top + 13}, panel.title));
  texts.push_back(TextMark("", {left, top + 29}, panel.subtitle));
  for (double y = 0; y <= axis.high + 1e-9; y += axis.step) {
    made.marks.push_back(SegmentMark("grid", {0, y}, {bar_count, y}));
    texts.push_back(TextMark("", {x0 - 6, made.y.At(y) + 4}, absl::StrCat(Unsigned(y * 100, 0), " %"), "end"));
  }
  for (size_t i = 0; i < panel.bars.size(); ++i) {
    const double x = i;
    AddBar(figure, panel.bars[i], x + (1 - kBarShare) / 2, kBarShare, made.marks);
    texts.push_back(TextMark("", {made.x.At(x + 0.5), y1 + 16}, panel.bars[i].label, "middle"));
  }
  return made;
}

}  // namespace

std::string DrawStackedBars(const StackedFigure& figure) {
  if (figure.panels.empty()) return "";
  VF_CHECK(figure.classes.size() <= kStackedClassesMax, "a class has a colour");
  const ShareAxis axis(figure);
  const size_t columns = std::min<size_t>(kPanelColumns, figure.panels.size());
  const size_t rows = (figure.panels.size() + columns - 1) / columns;
  Plot plot;
  plot.width = 2 * kMargin + kPanelWidth * kPanelColumns;
  const size_t in_a_row = static_cast<size_t>((plot.width - 2 * kMargin) / kLegendWidth);
  const double legend_top = kPanelsTop + kPanelHeight * rows + 12;
  const double legend_rows = std::ceil(static_cast<double>(figure.classes.size()) / in_a_row);
  plot.height = legend_top + kLegendRow * legend_rows + kCaption;
  plot.title = figure.title;
  plot.style_sheet = kBarStyle;
  Panel paper, texts;
  paper.marks.push_back(CellMark("paper", {0, 0}, {plot.width, plot.height}));
  plot.panels.push_back(std::move(paper));
  texts.marks.push_back(TextMark("title", {kMargin, 24}, figure.title));
  texts.marks.push_back(TextMark("", {kMargin, 42}, figure.y_label));
  for (size_t i = 0; i < figure.panels.size(); ++i) {
    const size_t column = i % columns, row = i / columns;
    plot.panels.push_back(MakePanel(figure, figure.panels[i], axis, kMargin + kPanelWidth * column,
                                    kPanelsTop + kPanelHeight * row, texts.marks));
  }
  for (size_t i = 0; i < figure.classes.size(); ++i) {
    const size_t column = i % in_a_row, row = i / in_a_row;
    const double x = kMargin + kLegendWidth * column, y = legend_top + kLegendRow * row;
    texts.marks.push_back(CellMark(absl::StrCat("c", i), {x, y}, {x + 11, y + 11}));
    texts.marks.push_back(TextMark("", {x + 16, y + 10}, figure.classes[i]));
  }
  texts.marks.push_back(TextMark("", {kMargin, plot.height - 10}, figure.caption));
  plot.panels.push_back(std::move(texts));
  return Draw(plot);
}

}  // namespace varifocal::report
