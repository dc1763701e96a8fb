#include "client/report/sweep.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "client/report/result_rows.h"
#include "client/report/template.h"
#include "client/report/text_format.h"

namespace varifocal::report {
namespace {

const CandidateComparison* VersusOf(const ReportData& data, const std::string& candidate) {
  for (const CandidateComparison& versus : data.versus) {
    if (versus.candidate == candidate) return &versus;
  }
  return nullptr;
}

const stats::SuiteComparison* SuiteRow(const ReportData& data, const std::string& candidate, int64_t length) {
  const CandidateComparison* versus = VersusOf(data, candidate);
  if (versus == nullptr) return nullptr;
  for (const stats::SuiteComparison& row : versus->report.suite) {
    if (row.context_length == length) return &row;
  }
  return nullptr;
}

// The baseline's mean over tasks, as any comparison with it has it.
std::optional<double> BaselineMean(const ReportData& data, int64_t length) {
  for (const CandidateComparison& versus : data.versus) {
    for (const stats::SuiteComparison& row : versus.report.suite) {
      if (row.context_length == length) return row.baseline_mean;
    }
  }
  return std::nullopt;
}

std::string TemperatureLabel(double temperature) { return Json(temperature).dump(); }

}  // namespace

std::vector<Sweep> FindSweeps(const ReportData& data) {
  std::vector<Sweep> sweeps;
  for (size_t i = 0; i < data.variants.size(); ++i) {
    const db::VariantRecord& variant = data.variants[i];
    // Other run-time settings beside the temperature are not part of a sweep.
    if (std::count(variant.name.begin(), variant.name.end(), '@') > 1) continue;
    const std::optional<double> temperature = RunTemperature(variant);
    if (!temperature.has_value()) continue;
    const std::string key =
        absl::StrCat(variant.model.name,
                     data.keys[i].job_id == data.job.job_id ? "" : absl::StrCat(" of job ", data.keys[i].job_id));
    auto sweep = std::find_if(sweeps.begin(), sweeps.end(), [&](const Sweep& known) { return known.model == key; });
    if (sweep == sweeps.end()) sweep = sweeps.insert(sweeps.end(), {key, {}});
    sweep->points.push_back({*temperature, i, !variant.focal_temperature_json.has_value()});
  }
  std::erase_if(sweeps, [](const Sweep& sweep) { return sweep.points.size() < kSweepPointCountMin; });
  for (Sweep& sweep : sweeps) {
    std::stable_sort(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& a, const SweepPoint& b) { return a.temperature < b.temperature; });
  }
  return sweeps;
}

std::set<std::string> SweptCandidates(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::set<std::string> names;
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      if (!point.is_as_trained && point.variant_index > 0) names.insert(data.variants[point.variant_index].name);
    }
  }
  return names;
}

std::vector<Figure> SweepFigures(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::set<double> temperatures;
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) temperatures.insert(point.temperature);
  }
  std::vector<Figure> figures;
  for (int64_t length : data.lengths) {
    Figure figure;
    figure.kind = Figure::Kind::kLinesWithBars;
    figure.title = absl::StrCat("Score by temperature at ", LengthLabel(length));
    figure.y_label = "mean over tasks, %";
    figure.x_label = "softmax temperature t at run time";
    figure.x_ticks.assign(temperatures.begin(), temperatures.end());
    figure.x_is_length = false;
    if (const std::optional<double> mean = BaselineMean(data, length)) figure.reference_y = *mean * 100;
    // Where the baseline is a point of a sweep, its line needs no second name.
    const bool is_named =
        std::any_of(sweeps.begin(), sweeps.end(), [&](const Sweep& sweep) { return sweep.model == data.baseline; });
    figure.reference_label = is_named ? "" : data.baseline;
    for (const Sweep& sweep : sweeps) {
      Series series{sweep.model, static_cast<int>(sweep.points.front().variant_index), {}};
      for (const SweepPoint& swept : sweep.points)
        series.color_index = std::min(series.color_index, static_cast<int>(swept.variant_index));
      for (const SweepPoint& swept : sweep.points) {
        const std::string& name = data.variants[swept.variant_index].name;
        Point point;
        point.x = swept.temperature;
        if (swept.variant_index == 0) {
          if (!figure.reference_y.has_value()) continue;
          point.y = point.low = point.high = *figure.reference_y;
          point.tip = absl::StrCat(name, ", the baseline: ", Unsigned(point.y, 1));
        } else {
          const stats::SuiteComparison* row = SuiteRow(data, name, length);
          if (row == nullptr) continue;
          point.y = row->candidate_mean * 100;
          point.low = std::max(0.0, point.y + (row->low - row->difference) * 100);
          point.high = std::min(100.0, point.y + (row->high - row->difference) * 100);
          point.is_incomplete = row->is_incomplete;
          point.is_marked = row->outcome == stats::Outcome::kBetter || row->outcome == stats::Outcome::kWorse;
          point.tip =
              absl::StrCat(name, ": ", Unsigned(point.y, 1), " (", Signed(row->difference * 100, 1), ", ",
                           Signed(row->low * 100, 1), " to ", Signed(row->high * 100, 1), "), ", OutcomeLabel(*row));
        }
        series.points.push_back(std::move(point));
      }
      if (!series.points.empty()) figure.series.push_back(std::move(series));
    }
    FitY(figure, 10, 0, 100);
    figures.push_back(std::move(figure));
  }
  return figures;
}

std::string SweepHeadline(const Sweep& sweep, const ReportData& data) {
  std::map<std::string, int> outcomes;
  std::set<int64_t> lengths;
  for (const SweepPoint& point : sweep.points) {
    const CandidateComparison* versus = VersusOf(data, data.variants[point.variant_index].name);
    if (versus == nullptr) continue;
    for (const stats::SuiteComparison& row : versus->report.suite) {
      ++outcomes[OutcomeLabel(row)];
      lengths.insert(row.context_length);
    }
  }
  std::vector<std::string> counts;
  for (const char* outcome : {"better", "worse", "equivalent", "undecided", "no verdict"}) {
    if (outcomes.count(outcome) > 0) counts.push_back(absl::StrCat(outcomes[outcome], " ", outcome));
  }
  return absl::StrCat(sweep.model, " at ", sweep.points.size(), " temperatures from ",
                      TemperatureLabel(sweep.points.front().temperature), " to ",
                      TemperatureLabel(sweep.points.back().temperature), ", against ", data.baseline, " at ",
                      lengths.size(), lengths.size() == 1 ? " length: " : " lengths: ",
                      counts.empty() ? "no answers yet" : absl::StrJoin(counts, ", "), ".");
}

std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data) {
  Json values = {{"lengths", Json::array()}, {"rows", Json::array()}};
  for (int64_t length : data.lengths) values["lengths"].push_back(LengthLabel(length));
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const std::string& name = data.variants[point.variant_index].name;
      Json row = {{"model", sweep.model},
                  {"first", &point == &sweep.points.front()},
                  {"temperature", TemperatureLabel(point.temperature)},
                  {"note", point.is_as_trained ? "as trained" : ""},
                  {"cells", Json::array()}};
      for (int64_t length : data.lengths) {
        Json cell = {{"mean", "\u2014"}};
        const stats::SuiteComparison* found = SuiteRow(data, name, length);
        if (point.variant_index == 0) {
          if (const std::optional<double> mean = BaselineMean(data, length)) cell["mean"] = Unsigned(*mean * 100, 1);
          cell["outcome"] = "baseline";
        } else if (found != nullptr) {
          cell["mean"] = Unsigned(found->candidate_mean * 100, 1);
          cell["difference"] = Signed(found->difference * 100, 1);
          cell["outcome"] = OutcomeLabel(*found);
          cell["strong"] = found->outcome == stats::Outcome::kBetter || found->outcome == stats::Outcome::kWorse;
          if (found->can_infer)
            cell["range"] = absl::StrCat(Signed(found->low * 100, 1), " to ", Signed(found->high * 100, 1));
          cell["counts"] = CountsNote(data.answers.Of(name, "", length));
        }
        row["cells"].push_back(std::move(cell));
      }
      values["rows"].push_back(std::move(row));
    }
  }
  return FillTemplate("sweep_table.html", values);
}

}  // namespace varifocal::report
