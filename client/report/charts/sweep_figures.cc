#include "client/report/charts/sweep_figures.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

// The candidate's mean, with the interval of its difference around it.
template <typename Row>
Point ComparedPoint(const std::string& name, const Row& row, double scale, std::optional<stats::Interval> bounds) {
  Point point;
  point.y = point.low = point.high = row.candidate_mean * scale;
  point.has_interval = row.HasInterval();
  if (point.has_interval) {
    point.low += (row.adjusted_low - row.difference) * scale;
    point.high += (row.adjusted_high - row.difference) * scale;
  }
  if (bounds.has_value()) {
    point.low = std::max(bounds->low, point.low);
    point.high = std::min(bounds->high, point.high);
  }
  point.is_incomplete = row.is_incomplete;
  point.is_hollow = row.is_incomplete || !point.has_interval;
  const std::string range = point.has_interval ? absl::StrCat(", ", Signed(row.adjusted_low * scale, 1), " to ",
                                                              Signed(row.adjusted_high * scale, 1))
                                               : "";
  point.tip = absl::StrCat(name, ": ", Unsigned(point.y, 1), " (", Signed(row.difference * scale, 1), range, "), ",
                           OutcomeLabel(row));
  return point;
}

std::vector<double> ValuesOf(const std::vector<const Sweep*>& sweeps) {
  std::set<double> values;
  for (const Sweep* sweep : sweeps) {
    for (const SweepPoint& point : sweep->points) values.insert(point.value);
  }
  return {values.begin(), values.end()};
}

// The score on one task at one length by value.
Series TaskSeries(const Sweep& sweep, const ReportData& data, const db::TaskMetricRecord& metric, int64_t length) {
  const double scale = IsShare(metric) ? 100 : 1;
  const std::optional<stats::Interval> bounds = IsShare(metric) ? std::optional(stats::Interval{0, 100}) : std::nullopt;
  const auto row_of = [&](const CandidateComparison& comparison) -> const stats::Comparison* {
    for (const stats::Comparison& row : comparison.report.comparisons) {
      if (row.is_primary_metric && row.task == metric.task && row.context_length == length) return &row;
    }
    return nullptr;
  };
  Series series;
  for (const SweepPoint& swept : sweep.points) {
    const std::string& name = data.variants[swept.variant_index].name;
    Point point;
    if (swept.variant_index == 0) {
      const stats::Comparison* row = nullptr;
      for (const CandidateComparison& comparison : data.comparisons) row = row == nullptr ? row_of(comparison) : row;
      if (row == nullptr) continue;
      point.y = point.low = point.high = row->baseline_mean * scale;
      point.tip = absl::StrCat(name, ", the baseline: ", Unsigned(point.y, 1));
    } else {
      const CandidateComparison* comparison = ComparisonFor(data, name);
      const stats::Comparison* row = comparison == nullptr ? nullptr : row_of(*comparison);
      if (row == nullptr) continue;
      point = ComparedPoint(name, *row, scale, bounds);
    }
    point.x = swept.value;
    series.points.push_back(std::move(point));
  }
  return series;
}

void AddSweepFigures(const std::vector<const Sweep*>& group, const std::vector<Sweep>& sweeps, const ReportData& data,
                     std::vector<Figure>& figures) {
  const OverrideInfo& setting = *group.front()->setting;
  for (int64_t length : data.lengths) {
    Figure figure;
    figure.kind = Figure::Kind::kLinesWithBars;
    figure.title = absl::StrCat("Score by ", setting.noun, " at ", data.Length("", length));
    figure.y_label = "mean over tasks, %";
    figure.x_label = AxisOf(setting);
    figure.x_ticks = ValuesOf(group);
    figure.x_is_length = false;
    figure.x_is_linear = HasLinearAxis(setting);
    if (const std::optional<double> mean = BaselineMean(data, length)) figure.reference_y = *mean * 100;
    // Where the baseline is a point of a sweep, its line needs no second name.
    const bool is_named =
        std::any_of(group.begin(), group.end(), [&](const Sweep* sweep) { return sweep->model == data.baseline; });
    figure.reference_label = is_named ? "" : data.baseline;
    for (const Sweep* of_group : group) {
      const Sweep& sweep = *of_group;
      const size_t s = of_group - sweeps.data();
      const stats::Choice* choice = s < data.choices.size() ? ChoiceAt(data.choices[s], length) : nullptr;
      const SweepPoint* chosen = choice == nullptr ? nullptr : PointOf(*choice, sweep, data);
      Series series{SweepLabel(sweep), SweepColor(sweeps, s, data), {}};
      for (const SweepPoint& swept : sweep.points) {
        const std::string& name = data.variants[swept.variant_index].name;
        Point point;
        point.x = swept.value;
        if (swept.variant_index == 0) {
          if (!figure.reference_y.has_value()) continue;
          point.y = point.low = point.high = *figure.reference_y;
          point.tip = absl::StrCat(name, ", the baseline: ", Unsigned(point.y, 1));
        } else {
          const stats::SuiteComparison* row = SuiteRow(data, name, length);
          if (row == nullptr) continue;
          point = ComparedPoint(name, *row, 100, stats::Interval{0, 100});
          point.x = swept.value;
        }
        if (&swept == chosen) {
          point.is_chosen = true;
          point.tip += ", chosen on half of the contexts";
        }
        series.points.push_back(std::move(point));
      }
      if (!series.points.empty()) figure.series.push_back(std::move(series));
    }
    FitY(figure, 10, 0, 100);
    figures.push_back(std::move(figure));
  }
}

void AddTaskFigures(const std::vector<const Sweep*>& group, const std::vector<Sweep>& sweeps, const ReportData& data,
                    std::vector<Figure>& figures) {
  const OverrideInfo& setting = *group.front()->setting;
  const bool by_length = group.size() == 1;
  for (const std::string& task : data.tasks) {
    const db::TaskMetricRecord* metric = data.primary_metric(task);
    if (metric == nullptr) continue;
    Figure figure;
    figure.kind = Figure::Kind::kLinesWithBars;
    figure.title = by_length ? task : absl::StrCat(task, " at ", data.Length(task, data.lengths.back()));
    figure.y_label = absl::StrCat(metric->metric, IsShare(*metric) ? ", %" : "");
    figure.x_label = AxisOf(setting);
    figure.x_ticks = ValuesOf(group);
    figure.x_is_length = false;
    figure.x_is_linear = HasLinearAxis(setting);
    for (size_t i = 0; i < (by_length ? data.lengths.size() : group.size()); ++i) {
      const int64_t length = by_length ? data.lengths[i] : data.lengths.back();
      Series series = TaskSeries(*group[by_length ? 0 : i], data, *metric, length);
      series.label = by_length ? data.Length(task, length) : SweepLabel(*group[i]);
      // Lengths have the colours that no model has.
      series.color_index = by_length ? static_cast<int>(data.variants.size() - data.swept.size() + i)
                                     : SweepColor(sweeps, group[i] - sweeps.data(), data);
      if (!series.points.empty()) figure.series.push_back(std::move(series));
    }
    if (IsShare(*metric)) {
      FitY(figure, 20, 0, 100);
    } else {
      FitY(figure, 1e-3);
    }
    figures.push_back(std::move(figure));
  }
}

}  // namespace

std::vector<Figure> SweepFigures(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::vector<Figure> figures;
  for (const std::vector<const Sweep*>& group : ByAxis(sweeps)) AddSweepFigures(group, sweeps, data, figures);
  ShareY(figures, ", %");
  return figures;
}

std::vector<Figure> SweepTaskFigures(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::vector<Figure> figures;
  if (data.lengths.empty()) return figures;
  for (const std::vector<const Sweep*>& group : ByAxis(sweeps)) AddTaskFigures(group, sweeps, data, figures);
  ShareY(figures, ", %");
  return figures;
}

}  // namespace varifocal::report
