#include "client/report/data/sweep.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "db/trained_temperature.h"

namespace varifocal::report {
namespace {

const CandidateComparison* ComparisonFor(const ReportData& data, const std::string& candidate) {
  for (const CandidateComparison& comparison : data.comparisons) {
    if (comparison.candidate == candidate) return &comparison;
  }
  return nullptr;
}

const stats::SuiteComparison* SuiteRow(const ReportData& data, const std::string& candidate, int64_t length) {
  const CandidateComparison* comparison = ComparisonFor(data, candidate);
  if (comparison == nullptr) return nullptr;
  for (const stats::SuiteComparison& row : comparison->report.suite) {
    if (row.context_length == length) return &row;
  }
  return nullptr;
}

// The baseline's mean over tasks, as any comparison with it has it.
std::optional<double> BaselineMean(const ReportData& data, int64_t length) {
  for (const CandidateComparison& comparison : data.comparisons) {
    for (const stats::SuiteComparison& row : comparison.report.suite) {
      if (row.context_length == length) return row.baseline_mean;
    }
  }
  return std::nullopt;
}

std::string ValueLabel(double value) { return absl::StrCat(value); }

std::optional<double> TrainedTheta(const db::ModelRecord& model) {
  const std::string mark = " theta=", rope = RopeOf(model);
  const size_t at = rope.find(mark);
  double theta = 0;
  const std::vector<std::string> words =
      absl::StrSplit(at == rope.npos ? "" : rope.substr(at + mark.size()), absl::ByAnyChar(" ;"));
  return absl::SimpleAtod(words.front(), &theta) ? std::optional(theta) : std::nullopt;
}

// The value of a checkpoint as it was trained; none where there is no single one, or the setting is not swept.
std::optional<double> AsTrained(const OverrideInfo& setting, const db::ModelRecord& model) {
  switch (setting.kind) {
    case OverrideKind::kTemperature: {
      const std::optional<double> trained = db::TrainedTemperature(model.attention_json);
      return setting.resets_other_layers && trained != 1.0 ? std::nullopt : trained;
    }
    case OverrideKind::kRopeFactor:
      return absl::StartsWith(RopeOf(model), "default ") ? std::optional(1.0) : std::nullopt;
    case OverrideKind::kRopeBase:
      return TrainedTheta(model);
    case OverrideKind::kScores:
    case OverrideKind::kGroups:
      break;
  }
  return std::nullopt;
}

bool IsTemperature(const OverrideInfo& setting) { return setting.kind == OverrideKind::kTemperature; }

std::string SymbolOf(const OverrideInfo& setting) { return IsTemperature(setting) ? "t" : setting.name; }

// Settings of one axis are drawn together.
std::string AxisOf(const OverrideInfo& setting) {
  return IsTemperature(setting) ? "softmax temperature t at run time" : absl::StrCat(setting.noun, " at run time");
}

// "baseline", "baseline, early layers".
std::string SweptModel(const Sweep& sweep) {
  return absl::StrCat(sweep.model, *sweep.setting->layers != 0 ? ", " : "", sweep.setting->layers);
}
// The same, unique among sweeps: "baseline, yarn".
std::string SweepLabel(const Sweep& sweep) {
  return absl::StrCat(SweptModel(sweep), IsTemperature(*sweep.setting) ? "" : absl::StrCat(", ", sweep.setting->name));
}

// The sweeps of each axis, in the order of the sweeps.
std::vector<std::vector<const Sweep*>> ByAxis(const std::vector<Sweep>& sweeps) {
  std::vector<std::vector<const Sweep*>> groups;
  for (const Sweep& sweep : sweeps) {
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& known) {
      return AxisOf(*known.front()->setting) == AxisOf(*sweep.setting);
    });
    (group == groups.end() ? groups.emplace_back() : *group).push_back(&sweep);
  }
  return groups;
}

// The choice at this length among the points of the sweep, if any.
const stats::Choice* ChoiceAt(const std::vector<stats::Choice>& choices, int64_t length) {
  for (const stats::Choice& choice : choices) {
    if (choice.confirmation.context_length == length) return &choice;
  }
  return nullptr;
}

const SweepPoint* PointOf(const stats::Choice& choice, const Sweep& sweep, const ReportData& data) {
  for (const SweepPoint& point : sweep.points) {
    const db::JobVariant& key = data.keys[point.variant_index];
    if (key.job_id == choice.candidate.job_id && key.name == choice.candidate.name) return &point;
  }
  return nullptr;
}

// The candidate's mean, with the interval of its difference around it.
template <typename Row>
Point ComparedPoint(const std::string& name, const Row& row, double scale, std::optional<stats::Interval> bounds) {
  Point point;
  point.y = point.low = point.high = row.candidate_mean * scale;
  point.has_interval = row.can_infer;
  if (row.can_infer) {
    point.low += (row.low - row.difference) * scale;
    point.high += (row.high - row.difference) * scale;
  }
  if (bounds.has_value()) {
    point.low = std::max(bounds->low, point.low);
    point.high = std::min(bounds->high, point.high);
  }
  point.is_incomplete = row.is_incomplete;
  point.is_hollow = row.is_incomplete || !row.can_infer;
  const std::string range =
      row.can_infer ? absl::StrCat(", ", Signed(row.low * scale, 1), " to ", Signed(row.high * scale, 1)) : "";
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

}  // namespace

std::optional<SweptValue> SweptValueOf(const db::VariantRecord& variant) {
  // Other run-time settings beside the one are not part of a sweep.
  const std::vector<std::string> parts = absl::StrSplit(variant.name, '@');
  if (parts.size() != 2) return std::nullopt;
  const std::pair<std::string, std::string> setting = absl::StrSplit(parts[1], absl::MaxSplits('=', 1));
  SweptValue run;
  run.setting = FindOverride(setting.first);
  if (run.setting != nullptr && !IsTemperature(*run.setting) && !IsRotation(*run.setting)) return std::nullopt;
  if (run.setting == nullptr || !absl::SimpleAtod(setting.second, &run.value)) return std::nullopt;
  return run;
}

std::vector<Sweep> FindSweeps(const ReportData& data) {
  const auto model_of = [&](size_t i) {
    return absl::StrCat(data.variants[i].model.name,
                        data.keys[i].job_id == data.job.job_id ? "" : absl::StrCat(" of job ", data.keys[i].job_id));
  };
  std::vector<Sweep> sweeps;
  for (size_t i = 0; i < data.variants.size(); ++i) {
    const std::optional<SweptValue> run = SweptValueOf(data.variants[i]);
    if (!run.has_value()) continue;
    const std::string model = model_of(i);
    auto sweep = std::find_if(sweeps.begin(), sweeps.end(), [&](const Sweep& known) {
      return known.model == model && known.setting == run->setting;
    });
    if (sweep == sweeps.end()) sweep = sweeps.insert(sweeps.end(), {model, run->setting, {}});
    sweep->points.push_back({run->value, i, false});
  }
  for (size_t i = 0; i < data.variants.size(); ++i) {
    if (IsRunTime(data.variants[i])) continue;
    for (Sweep& sweep : sweeps) {
      const std::optional<double> trained = AsTrained(*sweep.setting, data.variants[i].model);
      if (trained.has_value() && sweep.model == model_of(i)) sweep.points.push_back({*trained, i, true});
    }
  }
  std::erase_if(sweeps, [](const Sweep& sweep) { return sweep.points.size() < kSweepPointCountMin; });
  for (Sweep& sweep : sweeps) {
    std::stable_sort(sweep.points.begin(), sweep.points.end(),
                     [](const SweepPoint& a, const SweepPoint& b) { return a.value < b.value; });
  }
  return sweeps;
}

std::string SweptNoun(const std::vector<Sweep>& sweeps) {
  const bool is_temperature =
      std::all_of(sweeps.begin(), sweeps.end(), [](const Sweep& sweep) { return IsTemperature(*sweep.setting); });
  return is_temperature ? "temperature" : "value";
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

namespace {

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
    if (const std::optional<double> mean = BaselineMean(data, length)) figure.reference_y = *mean * 100;
    // Where the baseline is a point of a sweep, its line needs no second name.
    const bool is_named =
        std::any_of(group.begin(), group.end(), [&](const Sweep* sweep) { return sweep->model == data.baseline; });
    figure.reference_label = is_named ? "" : data.baseline;
    std::set<int> colors;
    for (const Sweep* of_group : group) {
      const Sweep& sweep = *of_group;
      const size_t s = of_group - sweeps.data();
      const stats::Choice* choice = s < data.choices.size() ? ChoiceAt(data.choices[s], length) : nullptr;
      const SweepPoint* chosen = choice == nullptr ? nullptr : PointOf(*choice, sweep, data);
      Series series{SweepLabel(sweep), static_cast<int>(sweep.points.front().variant_index), {}};
      for (const SweepPoint& swept : sweep.points)
        series.color_index = std::min<int>(series.color_index, swept.variant_index);
      // Sweeps of other layers of a model share its point as trained, but no colour.
      while (!colors.insert(series.color_index % kChartColorCount).second && std::ssize(colors) < kChartColorCount)
        ++series.color_index;
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

void AddTaskFigures(const std::vector<const Sweep*>& group, const ReportData& data, std::vector<Figure>& figures) {
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
    for (size_t i = 0; i < (by_length ? data.lengths.size() : group.size()); ++i) {
      const int64_t length = by_length ? data.lengths[i] : data.lengths.back();
      Series series = TaskSeries(*group[by_length ? 0 : i], data, *metric, length);
      series.label = by_length ? data.Length(task, length) : SweepLabel(*group[i]);
      series.color_index = i;
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
  return figures;
}

std::vector<Figure> SweepTaskFigures(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::vector<Figure> figures;
  if (data.lengths.empty()) return figures;
  for (const std::vector<const Sweep*>& group : ByAxis(sweeps)) AddTaskFigures(group, data, figures);
  return figures;
}

std::string SweepHeadline(const Sweep& sweep, const ReportData& data) {
  std::vector<std::string> outcomes;
  std::set<int64_t> lengths;
  bool is_any_finished = false;
  int64_t rest_count = 0;
  std::set<std::string> kinds;  // of answers that outcomes rest on
  const std::string yet = data.IsEnded() ? "" : " yet";
  for (const SweepPoint& point : sweep.points) {
    const CandidateComparison* comparison = ComparisonFor(data, data.variants[point.variant_index].name);
    if (comparison == nullptr) continue;
    for (const stats::SuiteComparison& row : comparison->report.suite) {
      outcomes.push_back(OutcomeLabel(row));
      lengths.insert(row.context_length);
      is_any_finished |= !row.is_unfinished;
      const std::vector<AnswersBehind> behind = KindsBehind(row, SidesOf(row, data.answers, data.tested));
      rest_count += !behind.empty();
      for (const AnswersBehind& kind : behind) kinds.insert(kind.answers);
    }
  }
  return absl::StrCat(
      SweptModel(sweep), " at ", sweep.points.size(), " ", sweep.setting->plural, " from ",
      ValueLabel(sweep.points.front().value), " to ", ValueLabel(sweep.points.back().value), ", against ",
      data.baseline, " at ", lengths.size(), lengths.size() == 1 ? " length: " : " lengths: ",
      outcomes.empty()   ? absl::StrCat("no answers", yet)
      : !is_any_finished ? absl::StrCat("no verdict", yet)
                         : OutcomeCounts(outcomes),
      rest_count == 0 ? ""
                      : absl::StrCat("; ", rest_count, rest_count == 1 ? " of them rests on " : " of them rest on ",
                                     absl::StrJoin(kinds, " or ")),
      ".");
}

std::string SweepTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data) {
  Json values = {{"lengths", Json::array()},
                 {"rows", Json::array()},
                 {"has_models", sweeps.size() > 1},
                 {"symbol", sweeps.empty() || ByAxis(sweeps).size() > 1 ? "value" : SymbolOf(*sweeps.front().setting)}};
  for (int64_t length : data.lengths) values["lengths"].push_back(data.Length("", length));
  for (const Sweep& sweep : sweeps) {
    for (const SweepPoint& point : sweep.points) {
      const std::string& name = data.variants[point.variant_index].name;
      Json row = {{"model", SweepLabel(sweep)},
                  {"first", &point == &sweep.points.front()},
                  {"has_models", sweeps.size() > 1},
                  {"value", ValueLabel(point.value)},
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

absl::Status ChooseValues(db::Reader& reader, ReportData& data) {
  stats::CompareOptions options;
  options.confidence = data.confidence;
  options.margin = data.margin;
  for (const Sweep& sweep : FindSweeps(data)) {
    // Of equal scores the value nearest to the trained one is chosen, and as trained before any other.
    std::vector<SweepPoint> points = sweep.points;
    const double trained = AsTrained(*sweep.setting, data.variants[points.front().variant_index].model).value_or(1);
    std::stable_sort(points.begin(), points.end(), [&](const SweepPoint& a, const SweepPoint& b) {
      return std::abs(std::log(a.value / trained)) < std::abs(std::log(b.value / trained));
    });
    std::vector<db::JobVariant> candidates;
    bool has_baseline = false;
    for (const SweepPoint& point : points) {
      has_baseline |= point.variant_index == 0;
      if (point.variant_index > 0) candidates.push_back(data.keys[point.variant_index]);
    }
    ASSIGN_OR_RETURN(data.choices.emplace_back(),
                     stats::ChooseAndConfirm(reader, data.keys[0], candidates, has_baseline, options));
  }
  return absl::OkStatus();
}

std::string ChoiceSentence(const std::vector<stats::Choice>& choices, const Sweep& sweep, const ReportData& data) {
  std::vector<std::string> parts, kept;
  int64_t test_count = 0;
  for (const stats::Choice& choice : choices) {
    const SweepPoint* point = PointOf(choice, sweep, data);
    const stats::SuiteComparison& row = choice.confirmation;
    if (choice.is_baseline) kept.push_back(data.Length("", row.context_length));
    if (point == nullptr || row.is_unfinished || !row.can_infer) continue;
    test_count = row.test_count;
    parts.push_back(absl::StrCat(SymbolOf(*sweep.setting), " = ", ValueLabel(point->value),
                                 point->is_as_trained ? " (as trained)" : "", " at ",
                                 data.Length("", row.context_length), " is ",
                                 row.failures_decide ? "undecided, since failures decide" : OutcomeLabel(row), " (",
                                 Signed(row.difference * 100, 1), ", ", Signed(row.low * 100, 1), " to ",
                                 Signed(row.high * 100, 1), ", ", DecidingP(row, data.confidence), ")"));
  }
  std::string sentence;
  if (!parts.empty()) {
    sentence = absl::StrCat("Chosen on one half of the contexts and tested against ", data.baseline,
                            " on the other half: ", JoinWithAnd(parts),
                            test_count > 1 ? absl::StrCat("; p adjusted for ", test_count, " lengths") : "", ".");
  }
  if (!kept.empty()) {
    absl::StrAppend(&sentence, sentence.empty() ? "" : " ", "At ", JoinWithAnd(kept), " no ", sweep.setting->noun,
                    " scored higher than ", data.baseline, " on the half that chooses.");
  }
  return sentence;
}

std::string ChoiceTableHtml(const std::vector<Sweep>& sweeps, const ReportData& data) {
  std::string rows;
  for (size_t s = 0; s < std::min(sweeps.size(), data.choices.size()); ++s) {
    for (const stats::Choice& choice : data.choices[s]) {
      const SweepPoint* point = PointOf(choice, sweeps[s], data);
      if (point == nullptr) continue;
      const stats::SuiteComparison& row = choice.confirmation;
      absl::StrAppend(
          &rows, "<tr><td>", EscapeHtml(SweepLabel(sweeps[s])), "</td><td>", data.Length("", row.context_length),
          "</td><td class=\"n\">", ValueLabel(point->value), point->is_as_trained ? "<small>as trained</small>" : "",
          "</td><td class=\"n minor\">", Signed(choice.choice_difference * 100, 1), "<small>",
          CountLabel(choice.choice_cluster_count), choice.choice_cluster_count == 1 ? " cluster" : " clusters",
          "</small></td>",
          choice.is_baseline
              ? absl::StrCat("<td colspan=\"5\">no ", sweeps[s].setting->noun, " scored higher: not tested</td>")
              : absl::StrCat(InferenceHtml(MakeInferenceCells(row, 100, 1)), "<td class=\"n minor\">",
                             CountLabel(row.cluster_count), "</td>"),
          "</tr>\n");
    }
  }
  if (rows.empty()) return "";
  return absl::StrCat(
      "<h3>Chosen on one half, tested on the other</h3>\n<div class=\"wide\"><table class=\"data\">"
      "<thead><tr><th>Model</th><th>Length</th><th class=\"n\">Chosen</th><th class=\"n minor\">"
      "Difference<small>where chosen</small></th>",
      InferenceHeads(data.confidence, "Tested"), "<th class=\"n minor\">Clusters</th></tr></thead><tbody>\n", rows,
      "</tbody></table></div>\n<p class=\"note\">Every second context of a task chooses the value with the highest "
      "mean over tasks, of equal ones the nearest to the trained one; the others test it once. p is adjusted over the "
      "lengths of a sweep, not over its values, since the test uses other contexts than the choice.</p>\n");
}

}  // namespace varifocal::report
