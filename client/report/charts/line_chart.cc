#include "client/report/charts/line_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr int kPlotLeft = 46, kPlotTop = 46, kPlotBottom = 40;
constexpr int kLabelWidthMin = 24;
constexpr double kLabelHeight = 13;
constexpr double kDodge = 9;             // pixels between candidates at one length
constexpr double kLabelShareMax = 0.36;  // of the width; wider labels, or too many, go below the drawing
constexpr double kMarkerRadius = 5;
constexpr double kLegendRowHeight = 17;
constexpr double kTickGap = 6;

// Makes the panels: one of pixels for titles and labels, one of values for the series.
class Builder {
 public:
  Builder(const Figure& figure, ChartSize size) : figure_(figure), size_(size) {
    double widest = 0;
    for (const Series& series : figure.series) widest = std::max(widest, TextWidth(series.label));
    if (figure.reference_y.has_value()) widest = std::max(widest, TextWidth(figure.reference_label));
    const double count = figure.series.size() + figure.reference_y.has_value();
    right_ = size.width - kLabelWidthMin - std::ceil(widest);
    if (size.width - right_ > size.width * kLabelShareMax ||
        count * kLabelHeight > size.height - kPlotTop - kPlotBottom) {
      has_legend_ = true;
      right_ = size.width - 12;
      PlaceLegend();
    }
    bottom_ = size.height - kPlotBottom;
    const double inset =
        10 + ShiftOf(figure.series.size() - 1) + (figure.kind == Figure::Kind::kPointsWithBars ? 4 : 0);
    values_.x = {figure.x_ticks.front(), figure.x_ticks.back(), kPlotLeft + inset, right_ - inset, !figure.x_is_linear};
    values_.y = {figure.y_low, figure.y_high, bottom_, kPlotTop, /*is_log=*/false, /*is_clamped=*/true};
  }

  Plot Build(const std::string& id) {
    AddTitles();
    AddTrainedRegion();
    AddAxes();
    AddReference();
    const int count = figure_.series.size();
    for (int i = 0; i < count; ++i) {
      if (figure_.kind == Figure::Kind::kLinesWithBands) AddBand(figure_.series[i], ShiftOf(i));
    }
    for (int i = 0; i < count; ++i) AddSeries(figure_.series[i], ShiftOf(i));
    if (has_legend_) {
      AddLegend();
    } else {
      AddLabels();
    }
    Plot plot;
    plot.width = size_.width;
    plot.height = size_.height + legend_height_;
    plot.title = figure_.title;
    plot.id = id;
    plot.panels = {std::move(behind_), std::move(values_), std::move(labels_)};
    return plot;
  }

 private:
  // Pixels between the series at one x.
  double ShiftOf(int series) const {
    // Half of it leaves equal lines visible.
    const double step = figure_.kind == Figure::Kind::kPointsWithBars ? kDodge : kDodge / 2;
    return step * (series - (figure_.series.size() - 1.0) / 2);
  }
  double X(double x) const { return values_.x.At(x); }
  double Y(double y) const { return values_.y.At(y); }
  static std::string ColorClass(const Series& series) {
    return absl::StrCat("c", series.color_index % kChartColorCount);
  }
  bool HasReferenceLabel() const { return figure_.reference_y.has_value() && !figure_.reference_label.empty(); }

  void AddTitles() {
    behind_.marks.push_back(TextMark("title", {0, 13}, figure_.title));
    behind_.marks.push_back(TextMark("unit", {0, 27}, figure_.y_label));
  }

  // The part of the axis beyond the trained lengths of all models.
  void AddTrainedRegion() {
    if (!figure_.trained_x.has_value()) return;
    const auto is_beyond = [&](const Point& point) { return point.x > *figure_.trained_x; };
    const bool is_all = std::all_of(figure_.series.begin(), figure_.series.end(), [&](const Series& series) {
      return std::all_of(series.points.begin(), series.points.end(), is_beyond);
    });
    // Right of the markers at the trained length, or, without any, from the left on.
    const double shift_max = ShiftOf(figure_.series.size() - 1);
    const double x = is_all
                         ? kPlotLeft + 0.0
                         : std::clamp(X(*figure_.trained_x) + shift_max + kMarkerRadius + 1, kPlotLeft + 0.0, right_);
    behind_.marks.push_back(CellMark("beyond", {x, kPlotTop}, {right_, bottom_}));
    behind_.marks.push_back(TextMark("beyond-label", {right_, kPlotTop - 8}, "beyond training", "end"));
  }

  void AddAxes() {
    const int decimals = figure_.y_step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(figure_.y_step) - 1e-9));
    for (double y = figure_.y_low; y <= figure_.y_high + figure_.y_step * 1e-6; y += figure_.y_step) {
      const bool is_zero = figure_.has_zero_line && std::abs(y) < figure_.y_step * 1e-6;
      behind_.marks.push_back(SegmentMark(is_zero ? "zero" : "grid", {kPlotLeft, Y(y)}, {right_, Y(y)}));
      behind_.marks.push_back(TextMark("tick", {kPlotLeft - 6, Y(y) + 4},
                                       figure_.has_zero_line ? Signed(y, decimals) : Unsigned(y, decimals), "end"));
    }
    double free_from = -1e9;  // the right end of the tick before, so that no two overlap
    for (size_t i = 0; i < figure_.x_ticks.size(); ++i) {
      const double x = figure_.x_ticks[i];
      const std::string label = !figure_.x_tick_labels.empty() ? figure_.x_tick_labels[i]
                                : figure_.x_is_length          ? LengthLabel(static_cast<int64_t>(x))
                                                               : absl::StrCat(x);
      const double half = TextWidth(label) / 2;
      if (X(x) - half < free_from) continue;
      free_from = X(x) + half + kTickGap;
      behind_.marks.push_back(TextMark("tick", {X(x), bottom_ + 17}, label, "middle"));
    }
    behind_.marks.push_back(TextMark("unit", {(kPlotLeft + right_) / 2, bottom_ + 33}, figure_.x_label, "middle"));
  }

  void AddReference() {
    if (!figure_.reference_y.has_value()) return;
    const double y = Y(*figure_.reference_y);
    Mark line = SegmentMark("reference", {kPlotLeft, y}, {right_, y});
    line.tip = absl::StrCat(figure_.reference_label, ": ", Unsigned(*figure_.reference_y, 1));
    behind_.marks.push_back(std::move(line));
  }

  void AddBand(const Series& series, double shift) {
    if (series.points.size() < 2) return;
    std::vector<Place> outline;
    for (const Point& point : series.points) outline.push_back({point.x, point.high});
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point)
      outline.push_back({point->x, point->low});
    values_.marks.push_back(AreaMark(absl::StrCat("band ", ColorClass(series)), std::move(outline), shift));
  }

  // Dashed to and from incomplete points: the change between the two is not one of the same questions.
  static void AddLine(const std::vector<Point>& points, double shift, std::vector<Mark>& marks) {
    for (size_t first = 0, last = 1; last < points.size(); first = last++) {
      const auto is_open = [&](size_t end) { return points[end - 1].is_incomplete || points[end].is_incomplete; };
      const bool is_dashed = is_open(last);
      while (last + 1 < points.size() && is_open(last + 1) == is_dashed) ++last;
      std::vector<Place> places;
      for (size_t i = first; i <= last; ++i) places.push_back({points[i].x, points[i].y});
      marks.push_back(LineMark(is_dashed ? "open" : "", std::move(places), shift));
    }
  }

  void AddSeries(const Series& series, double shift) {
    std::vector<Mark> marks;
    if (figure_.kind != Figure::Kind::kPointsWithBars) AddLine(series.points, shift, marks);
    for (const Point& point : series.points) {
      std::vector<Mark> parts;
      if (point.has_interval && (figure_.kind != Figure::Kind::kLinesWithBands || series.points.size() == 1))
        parts.push_back(SegmentMark("bar", {point.x, point.low}, {point.x, point.high}, shift));
      if (point.is_chosen) parts.push_back(RingMark("chosen", {point.x, point.y}, shift));
      parts.push_back(PointMark(series.color_index, point.is_hollow, {point.x, point.y}, shift));
      marks.push_back(GroupMark("", point.tip, std::move(parts)));
    }
    values_.marks.push_back(GroupMark(absl::StrCat("series ", ColorClass(series)), "", std::move(marks)));
  }

  void AddLabel(const Series& series, double marker_x, double text_x, double y) {
    labels_.marks.push_back(GroupMark(
        absl::StrCat("series ", ColorClass(series)), "",
        {PointMark(series.color_index, false, {marker_x, y}), TextMark("label", {text_x, y + 4}, series.label)}));
  }

  // Labels are at the height of their line's end, moved apart where lines meet.
  void AddLabels() {
    struct Label {
      double y;
      const Series* series;  // none: the reference line
    };
    std::vector<Label> labels;
    for (const Series& series : figure_.series) labels.push_back({Y(series.points.back().y), &series});
    if (HasReferenceLabel()) labels.push_back({Y(*figure_.reference_y), nullptr});
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
    const double lowest = bottom_ - 2;
    for (size_t i = 1; i < labels.size(); ++i) labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLabelHeight);
    for (size_t i = labels.size(); i-- > 0;)
      labels[i].y = std::min(labels[i].y, lowest - kLabelHeight * (labels.size() - 1 - i));
    for (const Label& label : labels) {
      if (label.series == nullptr) {
        labels_.marks.push_back(TextMark("", {right_ + 5, label.y + 4}, figure_.reference_label));
      } else {
        AddLabel(*label.series, right_ + 8, right_ + 17, label.y);
      }
    }
  }

  // Of every series and the reference line, where its label begins: rows from the left, as wide as the drawing.
  void PlaceLegend() {
    double x = 0, row = 0;
    const auto place = [&](const std::string& label) {
      const double width = 17 + TextWidth(label) + 16;
      if (x > 0 && x + width > size_.width) {
        x = 0;
        ++row;
      }
      legend_.push_back({x, size_.height + 8 + row * kLegendRowHeight});
      x += width;
    };
    for (const Series& series : figure_.series) place(series.label);
    if (HasReferenceLabel()) place(figure_.reference_label);
    legend_height_ = (row + 1) * kLegendRowHeight + 4;
  }

  void AddLegend() {
    for (size_t i = 0; i < figure_.series.size(); ++i)
      AddLabel(figure_.series[i], legend_[i].x + 6, legend_[i].x + 15, legend_[i].y);
    if (legend_.size() == figure_.series.size()) return;
    const Place at = legend_.back();
    labels_.marks.push_back(SegmentMark("reference", at, {at.x + 12, at.y}));
    labels_.marks.push_back(TextMark("", {at.x + 15, at.y + 4}, figure_.reference_label));
  }

  const Figure& figure_;
  const ChartSize size_;
  double right_ = 0, bottom_ = 0, legend_height_ = 0;
  bool has_legend_ = false;
  std::vector<Place> legend_;
  Panel behind_, values_, labels_;
};

}  // namespace

Plot ChartPlot(const Figure& figure, const std::string& id, ChartSize size) {
  return figure.x_ticks.empty() || figure.series.empty() ? Plot() : Builder(figure, size).Build(id);
}

std::string DrawChart(const Figure& figure, const std::string& id, ChartSize size) {
  const Plot plot = ChartPlot(figure, id, size);
  return plot.panels.empty() ? "" : Draw(plot);
}

}  // namespace varifocal::report
