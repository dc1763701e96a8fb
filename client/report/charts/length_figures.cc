#include "client/report/charts/length_figures.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

constexpr size_t kBandSeriesMax = 2;  // more bands than these cover each other: intervals are bars then

std::optional<double> CommonTrainedLength(const ReportData& data) {
  std::set<std::optional<int64_t>> lengths;
  for (const db::VariantRecord& variant : data.variants) lengths.insert(variant.model.trained_context_length);
  if (lengths.size() != 1 || !lengths.begin()->has_value() || data.lengths.empty()) return std::nullopt;
  const int64_t trained = **lengths.begin();
  // Cells beyond it may hold shorter samples: then nothing is extrapolated and nothing is to be marked.
  const bool is_beyond = std::any_of(data.variants.begin(), data.variants.end(),
                                     [&](const auto& variant) { return data.answers.IsExtrapolated(variant.name); });
  if (trained >= data.lengths.back() || !is_beyond) return std::nullopt;
  return static_cast<double>(trained);
}

std::string Tip(const std::string& label, const std::string& length, const std::string& value, const std::string& low,
                const std::string& high, const Point& point) {
  const std::string range = point.has_interval ? absl::StrCat(" (", low, " to ", high, ")") : ", no interval";
  return absl::StrCat(label, " at ", length, ": ", value, range,
                      PointLabels(point.is_extrapolated, point.is_incomplete));
}

// A difference and its interval, where it has one.
Point DifferencePoint(const ReportData& data, const std::string& label, const std::string& task, int64_t length,
                      const stats::Inference& row, double scale, bool is_extrapolated, bool is_incomplete) {
  Point point;
  point.x = data.tested.At(task, length).Tokens();
  point.y = row.difference * scale;
  point.has_interval = row.HasInterval();
  point.low = point.has_interval ? row.adjusted_low * scale : point.y;
  point.high = point.has_interval ? row.adjusted_high * scale : point.y;
  point.is_extrapolated = is_extrapolated;
  point.is_incomplete = is_incomplete;
  point.is_hollow = is_incomplete || !point.has_interval;
  point.tip =
      Tip(label, data.Length(task, length), Signed(point.y, 1), Signed(point.low, 1), Signed(point.high, 1), point);
  return point;
}

// Of a task, or with an empty one of means over tasks. Where the prompts of all tasks are as long as their lengths, charts
// have the same ticks.
Figure Empty(const ReportData& data, Figure::Kind kind, const std::string& task) {
  Figure figure;
  figure.kind = kind;
  for (int64_t length : data.lengths) {
    if (data.tested.At("", length).is_reached || !data.tested.At(task, length).nominal.empty())
      figure.x_ticks.push_back(data.tested.At(task, length).Tokens());
  }
  figure.trained_x = CommonTrainedLength(data);
  return figure;
}

}  // namespace

Figure SuiteDifferenceFigure(const ReportData& data) {
  Figure figure = Empty(data, Figure::Kind::kPointsWithBars, "");
  figure.has_zero_line = true;
  figure.title = absl::StrCat("Difference to ", data.baseline,
                              data.tasks.size() == 1 ? absl::StrCat(" on ", data.tasks.front()) : ", mean over tasks");
  figure.y_label = "points";
  for (const CandidateComparison& comparison : data.comparisons) {
    if (data.swept.count(comparison.candidate) > 0) continue;
    Series series{comparison.candidate, data.ColorOf(comparison.candidate), {}};
    for (const stats::SuiteComparison& row : comparison.report.suite) {
      series.points.push_back(DifferencePoint(data, series.label, "", row.context_length, row, 100,
                                              data.answers.IsExtrapolated(comparison.candidate, "", row.context_length),
                                              row.is_incomplete));
    }
    if (!series.points.empty()) figure.series.push_back(std::move(series));
  }
  FitY(figure, 10);
  return figure;
}

std::vector<Figure> ScoreFigures(const ReportData& data) {
  std::vector<Figure> figures;
  for (const std::string& task : data.tasks) {
    const db::TaskMetricRecord* metric = data.primary_metric(task);
    if (metric == nullptr) continue;
    const double scale = IsShare(*metric) ? 100 : 1;
    Figure figure = Empty(data, Figure::Kind::kLinesWithBands, task);
    figure.title = task;
    figure.y_label = absl::StrCat(metric->metric, scale == 100 ? ", %" : "");
    for (const db::VariantRecord& variant : data.variants) {
      if (data.swept.count(variant.name) > 0) continue;
      Series series{variant.name, data.ColorOf(variant.name), {}};
      for (const stats::Estimate& estimate : data.estimates) {
        if (estimate.variant != variant.name || estimate.task != task || estimate.metric != metric->metric ||
            !estimate.mean.has_value()) {
          continue;
        }
        Point point;
        point.x = data.tested.At(task, estimate.context_length).Tokens();
        point.y = *estimate.mean * scale;
        point.has_interval = estimate.interval.has_value();
        point.low = point.has_interval ? estimate.interval->low * scale : point.y;
        point.high = point.has_interval ? estimate.interval->high * scale : point.y;
        point.is_extrapolated = data.answers.IsExtrapolated(variant.name, task, estimate.context_length);
        point.is_incomplete = data.IsIncomplete(variant.name, task, estimate.context_length);
        point.is_hollow = point.is_incomplete || !point.has_interval;
        point.tip = Tip(series.label, data.Length(task, estimate.context_length), Unsigned(point.y, 1),
                        Unsigned(point.low, 1), Unsigned(point.high, 1), point);
        series.points.push_back(point);
      }
      std::sort(series.points.begin(), series.points.end(), [](const Point& a, const Point& b) { return a.x < b.x; });
      if (!series.points.empty()) figure.series.push_back(std::move(series));
    }
    if (scale == 100) {
      FitY(figure, 20, 0, 100);
    } else {
      FitY(figure, 1e-3);
    }
    if (figure.series.size() > kBandSeriesMax) figure.kind = Figure::Kind::kLinesWithBars;
    figures.push_back(std::move(figure));
  }
  ShareY(figures, ", %");
  return figures;
}

std::vector<Figure> DifferenceFigures(const ReportData& data) {
  std::vector<Figure> figures;
  for (const std::string& task : data.tasks) {
    const db::TaskMetricRecord* metric = data.primary_metric(task);
    if (metric == nullptr) continue;
    const double scale = IsShare(*metric) ? 100 : 1;
    Figure figure = Empty(data, Figure::Kind::kPointsWithBars, task);
    figure.has_zero_line = true;
    figure.title = task;
    figure.y_label = absl::StrCat(metric->metric, scale == 100 ? ", points" : "");
    for (const CandidateComparison& comparison : data.comparisons) {
      if (data.swept.count(comparison.candidate) > 0) continue;
      Series series{comparison.candidate, data.ColorOf(comparison.candidate), {}};
      for (const stats::Comparison& row : comparison.report.comparisons) {
        if (row.task != task || !row.is_primary_metric) continue;
        series.points.push_back(DifferencePoint(
            data, series.label, task, row.context_length, row, scale,
            data.answers.IsExtrapolated(comparison.candidate, task, row.context_length), row.is_incomplete));
      }
      if (!series.points.empty()) figure.series.push_back(std::move(series));
    }
    if (figure.series.empty()) continue;
    FitY(figure, scale == 100 ? 10 : 1e-3);
    figures.push_back(std::move(figure));
  }
  ShareY(figures, ", points");
  return figures;
}

}  // namespace varifocal::report
