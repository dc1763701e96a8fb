#include "client/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/report/text_format.h"

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
constexpr double kLabelFontSize = 11.5;

// Advance widths of bold DejaVu Sans in thousandths of an em, from space to tilde: the widest of the fonts that the page
// asks for, so that a label fits in any of them. Other characters count as an em.
constexpr int kAdvances[] = {349,  457, 521, 838, 696, 1002, 873, 307,  458, 458, 523, 838, 380, 416,  380, 366,
                             696,  696, 696, 696, 696, 696,  696, 696,  696, 696, 400, 400, 838, 838,  838, 581,
                             1000, 774, 763, 734, 831, 684,  684, 821,  837, 373, 373, 775, 638, 996,  837, 851,
                             733,  851, 771, 721, 683, 813,  774, 1104, 771, 725, 726, 458, 366, 458,  838, 500,
                             500,  675, 716, 593, 716, 679,  436, 716,  712, 343, 343, 666, 343, 1042, 712, 688,
                             716,  716, 494, 596, 479, 712,  652, 924,  646, 652, 583, 712, 366, 712,  838};

double TextWidth(absl::string_view label, double font_size = kLabelFontSize) {
  double thousandths = 0;
  for (unsigned char byte : label) {
    if ((byte & 0xC0) == 0x80) continue;  // the rest of a character already counted
    thousandths += byte >= ' ' && byte <= '~' ? kAdvances[byte - ' '] : 1000;
  }
  return thousandths / 1000 * font_size;
}

std::string Number(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.size() > 2 && text.substr(text.size() - 2) == ".0") text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

class Plot {
 public:
  Plot(const Figure& figure, std::string id, ChartSize size) : figure_(figure), id_(std::move(id)), size_(size) {
    double widest = 0;
    for (const Series& series : figure.series) widest = std::max(widest, TextWidth(series.label));
    if (figure.reference_y.has_value()) widest = std::max(widest, TextWidth(figure.reference_label));
    const double count = figure.series.size() + figure.reference_y.has_value();
    right_ = kLabelWidthMin + std::ceil(widest);
    if (right_ > size.width * kLabelShareMax || count * kLabelHeight > size.height - kPlotTop - kPlotBottom) {
      has_legend_ = true;
      right_ = 12;
      PlaceLegend();
    }
    inset_ = 10 + ShiftOf(figure.series.size() - 1) + (figure.kind == Figure::Kind::kPointsWithBars ? 4 : 0);
  }

  std::string Draw() {
    absl::StrAppend(&out_, "<svg class=\"chart\" viewBox=\"0 0 ", size_.width, " ",
                    Number(size_.height + legend_height_), "\" role=\"img\" aria-labelledby=\"", id_,
                    "-t\"><title id=\"", id_, "-t\">", EscapeHtml(figure_.title), "</title>\n");
    DrawTitles();
    DrawTrainedRegion();
    DrawAxes();
    DrawReference();
    const int count = figure_.series.size();
    for (int i = 0; i < count; ++i) {
      if (figure_.kind == Figure::Kind::kLinesWithBands) DrawBand(figure_.series[i], ShiftOf(i));
    }
    for (int i = 0; i < count; ++i) DrawSeries(figure_.series[i], ShiftOf(i));
    if (has_legend_) {
      DrawLegend();
    } else {
      DrawLabels();
    }
    return out_ + "</svg>\n";
  }

 private:
  // Pixels between the series at one x.
  double Step() const {
    switch (figure_.kind) {
      case Figure::Kind::kPointsWithBars:
        return kDodge;
      case Figure::Kind::kLinesWithBars:
      case Figure::Kind::kLinesWithBands:
        break;
    }
    return kDodge / 2;  // equal lines remain visible
  }
  double ShiftOf(int series) const { return Step() * (series - (figure_.series.size() - 1.0) / 2); }
  double Right() const { return size_.width - right_; }
  double Bottom() const { return size_.height - kPlotBottom; }
  double X(double x) const {
    const auto place = [&](double value) { return figure_.x_is_linear ? value : std::log2(value); };
    const double first = place(figure_.x_ticks.front()), last = place(figure_.x_ticks.back());
    const double left = kPlotLeft + inset_, right = Right() - inset_;
    return last > first ? left + (right - left) * (place(x) - first) / (last - first) : (left + right) / 2;
  }
  double Y(double y) const {
    const double share = (y - figure_.y_low) / (figure_.y_high - figure_.y_low);
    return Bottom() - (Bottom() - kPlotTop) * std::clamp(share, 0.0, 1.0);
  }
  static std::string ColorClass(const Series& series) {
    return absl::StrCat("c", series.color_index % kChartColorCount);
  }

  void DrawTitles() {
    absl::StrAppend(&out_, "<text class=\"title\" x=\"0\" y=\"13\">", EscapeHtml(figure_.title), "</text>\n");
    absl::StrAppend(&out_, "<text class=\"unit\" x=\"0\" y=\"27\">", EscapeHtml(figure_.y_label), "</text>\n");
  }

  // The part of the axis beyond the trained lengths of all models.
  void DrawTrainedRegion() {
    if (!figure_.trained_x.has_value()) return;
    // Right of the markers at the trained length.
    const double shift_max = ShiftOf(figure_.series.size() - 1);
    const double x = std::clamp(X(*figure_.trained_x) + shift_max + kMarkerRadius + 1, kPlotLeft + 0.0, Right());
    absl::StrAppend(&out_, "<rect class=\"beyond\" x=\"", Number(x), "\" y=\"", kPlotTop, "\" width=\"",
                    Number(Right() - x), "\" height=\"", Number(Bottom() - kPlotTop),
                    "\"/>\n<text class=\"beyond-label\" x=\"", Number(Right()), "\" y=\"", kPlotTop - 8,
                    "\" text-anchor=\"end\">beyond training</text>\n");
  }

  void DrawAxes() {
    const int decimals = figure_.y_step >= 1 ? 0 : static_cast<int>(std::ceil(-std::log10(figure_.y_step) - 1e-9));
    for (double y = figure_.y_low; y <= figure_.y_high + figure_.y_step * 1e-6; y += figure_.y_step) {
      const bool is_zero = figure_.has_zero_line && std::abs(y) < figure_.y_step * 1e-6;
      absl::StrAppend(&out_, "<line class=\"", is_zero ? "zero" : "grid", "\" x1=\"", kPlotLeft, "\" x2=\"",
                      Number(Right()), "\" y1=\"", Number(Y(y)), "\" y2=\"", Number(Y(y)),
                      "\"/><text class=\"tick\" x=\"", kPlotLeft - 6, "\" y=\"", Number(Y(y) + 4),
                      "\" text-anchor=\"end\">", figure_.has_zero_line ? Signed(y, decimals) : Unsigned(y, decimals),
                      "</text>\n");
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
      absl::StrAppend(&out_, "<text class=\"tick\" x=\"", Number(X(x)), "\" y=\"", Number(Bottom() + 17),
                      "\" text-anchor=\"middle\">", label, "</text>\n");
    }
    absl::StrAppend(&out_, "<text class=\"unit\" x=\"", Number((kPlotLeft + Right()) / 2), "\" y=\"",
                    Number(Bottom() + 33), "\" text-anchor=\"middle\">", EscapeHtml(figure_.x_label), "</text>\n");
  }

  // The reference line.
  void DrawReference() {
    if (!figure_.reference_y.has_value()) return;
    const double y = Y(*figure_.reference_y);
    absl::StrAppend(&out_, "<line class=\"reference\" x1=\"", kPlotLeft, "\" x2=\"", Number(Right()), "\" y1=\"",
                    Number(y), "\" y2=\"", Number(y), "\"><title>", EscapeHtml(figure_.reference_label), ": ",
                    Unsigned(*figure_.reference_y, 1), "</title></line>\n");
  }

  void DrawBand(const Series& series, double shift) {
    if (series.points.size() < 2) return;
    absl::StrAppend(&out_, "<polygon class=\"band ", ColorClass(series), "\" points=\"");
    for (const Point& point : series.points)
      absl::StrAppend(&out_, Number(X(point.x) + shift), ",", Number(Y(point.high)), " ");
    for (auto point = series.points.rbegin(); point != series.points.rend(); ++point) {
      absl::StrAppend(&out_, Number(X(point->x) + shift), ",", Number(Y(point->low)), " ");
    }
    out_.back() = '"';
    out_ += "/>\n";
  }

  // Dashed to and from incomplete points: the change between the two is not one of the same questions.
  void DrawLine(const std::vector<Point>& points, double shift) {
    for (size_t first = 0, last = 1; last < points.size(); first = last++) {
      const auto is_open = [&](size_t end) { return points[end - 1].is_incomplete || points[end].is_incomplete; };
      const bool is_dashed = is_open(last);
      while (last + 1 < points.size() && is_open(last + 1) == is_dashed) ++last;
      absl::StrAppend(&out_, "<polyline", is_dashed ? " class=\"open\"" : "", " points=\"");
      for (size_t i = first; i <= last; ++i)
        absl::StrAppend(&out_, Number(X(points[i].x) + shift), ",", Number(Y(points[i].y)), " ");
      out_.back() = '"';
      out_ += "/>";
    }
  }

  void DrawSeries(const Series& series, double shift) {
    absl::StrAppend(&out_, "<g class=\"series ", ColorClass(series), "\">");
    if (figure_.kind != Figure::Kind::kPointsWithBars) DrawLine(series.points, shift);
    for (const Point& point : series.points) {
      const double x = X(point.x) + shift;
      absl::StrAppend(&out_, "<g><title>", EscapeHtml(point.tip), "</title>");
      if (point.has_interval && (figure_.kind != Figure::Kind::kLinesWithBands || series.points.size() == 1)) {
        absl::StrAppend(&out_, "<line class=\"bar\" x1=\"", Number(x), "\" x2=\"", Number(x), "\" y1=\"",
                        Number(Y(point.low)), "\" y2=\"", Number(Y(point.high)), "\"/>");
      }
      if (point.is_chosen) {
        absl::StrAppend(&out_, "<circle class=\"chosen\" cx=\"", Number(x), "\" cy=\"", Number(Y(point.y)),
                        "\" r=\"8.5\"/>");
      }
      DrawMarker(series.color_index, x, Y(point.y), point.is_hollow);
      out_ += "</g>";
    }
    out_ += "</g>\n";
  }

  void DrawMarker(int index, double x, double y, bool is_hollow) {
    const char* style = is_hollow ? "mark hollow" : "mark";
    auto polygon = [&](std::initializer_list<std::pair<double, double>> corners) {
      absl::StrAppend(&out_, "<polygon class=\"", style, "\" points=\"");
      for (const auto& [dx, dy] : corners) absl::StrAppend(&out_, Number(x + dx), ",", Number(y + dy), " ");
      out_.back() = '"';
      out_ += "/>";
    };
    switch (index % 5) {
      case 0:
        absl::StrAppend(&out_, "<circle class=\"", style, "\" cx=\"", Number(x), "\" cy=\"", Number(y),
                        "\" r=\"3.8\"/>");
        break;
      case 1:
        polygon({{-3.5, -3.5}, {3.5, -3.5}, {3.5, 3.5}, {-3.5, 3.5}});
        break;
      case 2:
        polygon({{0, -4.8}, {4.4, 3.4}, {-4.4, 3.4}});
        break;
      case 3:
        polygon({{0, -5}, {5, 0}, {0, 5}, {-5, 0}});
        break;
      default:
        polygon({{0, 4.8}, {4.4, -3.4}, {-4.4, -3.4}});
        break;
    }
  }

  // Labels are at the height of their line's end, moved apart where lines meet.
  void DrawLabels() {
    struct Label {
      double y;
      const Series* series;  // none: the reference line
    };
    std::vector<Label> labels;
    for (const Series& series : figure_.series) labels.push_back({Y(series.points.back().y), &series});
    if (figure_.reference_y.has_value() && !figure_.reference_label.empty())
      labels.push_back({Y(*figure_.reference_y), nullptr});
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
    const double lowest = Bottom() - 2;
    for (size_t i = 1; i < labels.size(); ++i) labels[i].y = std::max(labels[i].y, labels[i - 1].y + kLabelHeight);
    for (size_t i = labels.size(); i-- > 0;) {
      labels[i].y = std::min(labels[i].y, lowest - kLabelHeight * (labels.size() - 1 - i));
    }
    for (const Label& label : labels) {
      if (label.series == nullptr) {
        absl::StrAppend(&out_, "<text x=\"", Number(Right() + 5), "\" y=\"", Number(label.y + 4), "\">",
                        EscapeHtml(figure_.reference_label), "</text>\n");
        continue;
      }
      absl::StrAppend(&out_, "<g class=\"series ", ColorClass(*label.series), "\">");
      DrawMarker(label.series->color_index, Right() + 8, label.y, false);
      absl::StrAppend(&out_, "<text class=\"label\" x=\"", Number(Right() + 17), "\" y=\"", Number(label.y + 4), "\">",
                      EscapeHtml(label.series->label), "</text></g>\n");
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
      legend_.push_back({x, row});
      x += width;
    };
    for (const Series& series : figure_.series) place(series.label);
    if (figure_.reference_y.has_value() && !figure_.reference_label.empty()) place(figure_.reference_label);
    legend_height_ = (row + 1) * kLegendRowHeight + 4;
  }

  void DrawLegend() {
    const auto y = [&](size_t i) { return size_.height + 8 + legend_[i].second * kLegendRowHeight; };
    for (size_t i = 0; i < figure_.series.size(); ++i) {
      absl::StrAppend(&out_, "<g class=\"series ", ColorClass(figure_.series[i]), "\">");
      DrawMarker(figure_.series[i].color_index, legend_[i].first + 6, y(i), false);
      absl::StrAppend(&out_, "<text class=\"label\" x=\"", Number(legend_[i].first + 15), "\" y=\"", Number(y(i) + 4),
                      "\">", EscapeHtml(figure_.series[i].label), "</text></g>\n");
    }
    if (legend_.size() == figure_.series.size()) return;
    const size_t last = figure_.series.size();
    const double x = legend_[last].first;
    absl::StrAppend(&out_, "<line class=\"reference\" x1=\"", Number(x), "\" x2=\"", Number(x + 12), "\" y1=\"",
                    Number(y(last)), "\" y2=\"", Number(y(last)), "\"/><text x=\"", Number(x + 15), "\" y=\"",
                    Number(y(last) + 4), "\">", EscapeHtml(figure_.reference_label), "</text>\n");
  }

  const Figure& figure_;
  const std::string id_;
  const ChartSize size_;
  double right_ = 0, inset_ = 0, legend_height_ = 0;
  bool has_legend_ = false;
  std::vector<std::pair<double, double>> legend_;  // x and row
  std::string out_;
};

}  // namespace

std::string DrawChart(const Figure& figure, const std::string& id, ChartSize size) {
  if (figure.x_ticks.empty() || figure.series.empty()) return "";
  return Plot(figure, id, size).Draw();
}

}  // namespace varifocal::report
