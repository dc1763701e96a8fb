#include "client/report/charts/axis_figure.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

std::vector<Figure> AxisFigures(const AxisReport& report, const stats::ArmTable& table) {
  std::vector<Figure> figures;
  std::vector<std::string> names = table.arms().Names();
  for (const AxisCurves& curves : report.curves) {
    if (!IsMainMeasure(curves.measure, table)) continue;
    const bool is_loss = IsLoss(curves.measure);
    const double scale = curves.measure.IsSuite() ? 100 : is_loss ? -1 : 1;
    const int decimals = curves.measure.IsSuite() ? 1 : 3;
    Figure figure;
    figure.kind = Figure::Kind::kLinesWithBars;
    figure.title = absl::StrCat(curves.measure.IsSuite() ? "Score, mean over tasks" : "Loss", " at ",
                                LengthLabel(table.tested(), curves.measure.task, curves.context_length));
    figure.y_label = curves.measure.IsSuite()
                         ? "%"
                         : absl::StrCat("−", curves.measure.metric, ", ",
                                        curves.measure.task.empty() ? "mean over tasks" : curves.measure.task);
    figure.x_label = report.axis->title;
    figure.x_is_linear = report.axis->is_linear;
    std::set<double> ticks;
    for (const AxisSeries& series : curves.series) {
      const auto place = std::find(names.begin(), names.end(), series.arm);
      if (place == names.end()) names.push_back(series.arm);
      Series line{
          series.label, static_cast<int>(std::find(names.begin(), names.end(), series.arm) - names.begin()), {}};
      for (const AxisPoint& point : series.points) {
        const bool has_interval = !std::isinf(point.mean.high);  // equal values without bounds have none
        const double a = (has_interval ? point.mean.low : point.mean.difference) * scale;
        const double b = (has_interval ? point.mean.high : point.mean.difference) * scale;
        Point drawn{point.x, point.mean.difference * scale, std::min(a, b), std::max(a, b)};
        drawn.has_interval = has_interval;
        drawn.is_incomplete = point.mean.is_unfinished;
        drawn.is_hollow = drawn.is_incomplete || !point.mean.is_over_seeds;
        drawn.tip = absl::StrCat(series.label, " at ", QuantityLabel(point.x), ": ", Unsigned(drawn.y, decimals),
                                 has_interval ? absl::StrCat(" (", Unsigned(drawn.low, decimals), " to ",
                                                             Unsigned(drawn.high, decimals), ")")
                                              : "",
                                 ", ", point.arm->runs.size(), point.mean.is_over_seeds ? " seeds" : " training run");
        line.points.push_back(std::move(drawn));
        ticks.insert(point.x);
      }
      figure.series.push_back(std::move(line));
    }
    for (double x : ticks) {
      figure.x_ticks.push_back(x);
      figure.x_tick_labels.push_back(QuantityLabel(x));
    }
    if (curves.measure.IsSuite()) {
      FitY(figure, 20, 0, 100);
    } else {
      FitY(figure, 1e-3);
    }
    figures.push_back(std::move(figure));
  }
  return figures;
}

}  // namespace varifocal::report
