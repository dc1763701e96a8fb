#include "client/report/charts/figure.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace varifocal::report {
namespace {

// A step of 1, 2 or 5 times a power of ten that gives about four ticks.
double NiceStep(double span) {
  const double rough = span / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

// The axis from `low` to `high`, at least `least_span` long, rounded outwards to ticks.
void SetY(Figure& figure, double low, double high, double least_span) {
  if (high - low < least_span) {
    const double middle = (low + high) / 2;
    low = middle - least_span / 2;
    high = middle + least_span / 2;
  }
  figure.y_step = NiceStep(high - low);
  figure.y_low = std::floor(low / figure.y_step + 1e-9) * figure.y_step;
  figure.y_high = std::ceil(high / figure.y_step - 1e-9) * figure.y_step;
}

// The range of all intervals, with zero where differences are drawn.
stats::Interval RangeOf(const Figure& figure) {
  if (figure.series.empty()) return {0, 0};
  stats::Interval range{1e300, -1e300};
  if (figure.has_zero_line) range = {0, 0};
  if (figure.reference_y.has_value()) range = {*figure.reference_y, *figure.reference_y};
  for (const Series& series : figure.series) {
    for (const Point& point : series.points) {
      range.low = std::min(range.low, point.low);
      range.high = std::max(range.high, point.high);
    }
  }
  return range;
}

}  // namespace

void FitY(Figure& figure, double least_span, std::optional<double> floor, std::optional<double> ceiling) {
  const stats::Interval range = RangeOf(figure);
  SetY(figure, range.low, range.high, least_span);
  // A range moved back inside keeps its length.
  if (floor.has_value() && figure.y_low < *floor) {
    figure.y_high = std::max(range.high, figure.y_high + *floor - figure.y_low);
    figure.y_low = *floor;
  }
  if (ceiling.has_value() && figure.y_high > *ceiling) {
    figure.y_low -= figure.y_high - *ceiling;
    figure.y_high = *ceiling;
  }
  if (floor.has_value()) figure.y_low = std::max(figure.y_low, *floor);
}

void ShareY(std::vector<Figure>& figures, const std::string& unit) {
  double low = 1e300, high = -1e300;
  const auto is_shared = [&](const Figure& figure) { return absl::EndsWith(figure.y_label, unit); };
  for (const Figure& figure : figures) {
    if (!is_shared(figure)) continue;
    low = std::min(low, figure.y_low);
    high = std::max(high, figure.y_high);
  }
  for (Figure& figure : figures) {
    if (is_shared(figure)) SetY(figure, low, high, 0);
  }
}

std::vector<Figure> SmallMultiples(Figure figure, const std::string& baseline) {
  if (std::ssize(figure.series) <= kChartColorCount) return {std::move(figure)};
  const std::vector<Series> all = std::exchange(figure.series, {});
  const auto reference =
      std::find_if(all.begin(), all.end(), [&](const Series& series) { return series.label == baseline; });
  std::vector<Figure> figures;
  for (const Series& series : all) {
    if (series.label == baseline) continue;
    Figure& one = figures.emplace_back(figure);
    one.title = series.label;
    one.y_label = absl::StrCat(figure.title, ": ", figure.y_label);
    if (reference != all.end()) one.series.push_back(*reference);
    one.series.push_back(series);
    one.series.back().color_index = 1;
  }
  return figures;
}

bool LacksInterval(const std::vector<Figure>& figures) {
  for (const Figure& figure : figures) {
    for (const Series& series : figure.series) {
      if (std::any_of(series.points.begin(), series.points.end(),
                      [](const Point& point) { return !point.has_interval; }))
        return true;
    }
  }
  return false;
}

}  // namespace varifocal::report
