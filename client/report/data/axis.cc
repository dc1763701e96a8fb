#include "client/report/data/axis.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/report/data/text_format.h"
#include "db/trained_temperature.h"
#include "eval_tasks/overrides.h"

namespace varifocal::report {
namespace {

// The single softmax temperature that a variant ran with: that of the run, or the one it was trained with, which is 1
// without focal attention. None for learned temperatures, those of single layers, and other run-time settings.
std::optional<double> RunTemperature(const db::VariantRecord& variant) {
  if (variant.focal_temperature_json.has_value()) {
    const auto run = ParseJson(*variant.focal_temperature_json);
    if (!run.ok()) return std::nullopt;
    if (run->is_number()) return run->get<double>();
    return run->is_array() && run->size() == 1 && run->front().is_number() ? std::optional(run->front().get<double>())
                                                                           : std::nullopt;
  }
  if (variant.name.find('@') != std::string::npos) return std::nullopt;
  return db::TrainedTemperature(variant.model.attention_json);
}

// As stats::Arm compares sizes of two arms.
constexpr double kParameterRatioMax = 1.05;

std::optional<double> AsDouble(const std::optional<int64_t>& value) {
  return value.has_value() ? std::optional<double>(*value) : std::nullopt;
}

// The one layer whose temperature differs from that of all others.
std::optional<double> OnlyOtherLayer(const db::VariantRecord& variant) {
  const auto run = ParseJson(variant.focal_temperature_json.value_or("null"));
  if (!run.ok() || !run->is_array() || run->size() < 3) return std::nullopt;
  std::optional<double> layer;
  const Json& usual = (*run)[0] == (*run)[1] ? (*run)[0] : (*run)[2];
  for (size_t i = 0; i < run->size(); ++i) {
    if ((*run)[i] == usual) continue;
    if (layer.has_value()) return std::nullopt;
    layer = i;
  }
  return layer;
}

// The arm's name without its run-time temperature.
std::string NameWithoutTemperature(const std::string& name) {
  std::vector<std::string> kept;
  for (absl::string_view part : absl::StrSplit(name, '@')) {
    const OverrideInfo* info = kept.empty() ? nullptr : OverrideOfSetting(part);
    if (info == nullptr || !info->may_be_list) kept.emplace_back(part);
  }
  return absl::StrJoin(kept, "@");
}

using Facts = std::array<std::string, kFactCount>;

Facts FactsOf(const stats::Arm& arm) {
  const db::ModelRecord& model = arm.first.model;
  const auto text = [](const std::optional<int64_t>& value) { return value.has_value() ? absl::StrCat(*value) : ""; };
  Facts facts;
  facts[static_cast<size_t>(Fact::kArm)] = NameWithoutTemperature(arm.name);
  facts[static_cast<size_t>(Fact::kTemperature)] =
      absl::StrCat(model.attention_json, arm.first.focal_temperature_json.value_or(""));
  facts[static_cast<size_t>(Fact::kTokens)] = text(model.training_tokens);
  facts[static_cast<size_t>(Fact::kParameters)] = text(model.parameter_count);
  facts[static_cast<size_t>(Fact::kTrainedLength)] = text(model.trained_context_length);
  return facts;
}

struct Group {
  Facts facts;  // with that of the axis empty
  std::string arm;
  std::vector<std::pair<double, const stats::Arm*>> members;  // by place
};

std::vector<Group> GroupArms(const stats::ArmTable& table, const Axis& axis) {
  std::vector<Group> groups;
  for (const stats::Arm& arm : table.arms().arms) {
    const std::optional<double> x = axis.value(arm.first);
    if (!x.has_value()) continue;
    Facts facts = FactsOf(arm);
    facts[static_cast<size_t>(axis.fact)].clear();
    auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& known) { return known.facts == facts; });
    if (group == groups.end())
      group = groups.insert(groups.end(), {facts, axis.fact == Fact::kTemperature ? facts[0] : arm.name, {}});
    group->members.push_back({*x, &arm});
  }
  for (Group& group : groups) {
    std::stable_sort(group.members.begin(), group.members.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    // Two arms at one place cannot be two points of a line.
    const auto last = std::unique(group.members.begin(), group.members.end(),
                                  [](const auto& a, const auto& b) { return a.first == b.first; });
    group.members.erase(last, group.members.end());
  }
  std::erase_if(groups, [](const Group& group) { return group.members.size() < 2; });
  return groups;
}

// The arm's name, with whatever distinguishes it from other groups of the same name.
std::vector<std::string> LabelsOf(const std::vector<Group>& groups) {
  std::vector<std::string> labels;
  for (const Group& group : groups) {
    std::vector<std::string> parts = {group.arm};
    const db::ModelRecord& model = group.members.front().second->first.model;
    const auto differs = [&](Fact fact) {
      return std::any_of(groups.begin(), groups.end(), [&](const Group& other) {
        return other.arm == group.arm &&
               other.facts[static_cast<size_t>(fact)] != group.facts[static_cast<size_t>(fact)];
      });
    };
    if (differs(Fact::kParameters) && model.parameter_count)
      parts.push_back(absl::StrCat(QuantityLabel(*model.parameter_count), " parameters"));
    if (differs(Fact::kTokens) && model.training_tokens)
      parts.push_back(absl::StrCat(QuantityLabel(*model.training_tokens), " tokens"));
    if (differs(Fact::kTrainedLength) && model.trained_context_length)
      parts.push_back(absl::StrCat("trained at ", LengthLabel(*model.trained_context_length)));
    if (differs(Fact::kTemperature)) parts.push_back(model.attention_json);
    labels.push_back(absl::StrJoin(parts, ", "));
  }
  return labels;
}

// Equal in everything but arm and attention; sizes may differ a little.
bool IsComparable(const Group& a, const Group& b, const Axis& axis) {
  for (const Fact fact : {Fact::kTokens, Fact::kTrainedLength}) {
    if (a.facts[static_cast<size_t>(fact)] != b.facts[static_cast<size_t>(fact)]) return false;
  }
  if (axis.fact == Fact::kParameters) return true;
  const auto size = [](const Group& group) {
    return static_cast<double>(group.members.front().second->first.model.parameter_count.value_or(1));
  };
  return std::max(size(a) / size(b), size(b) / size(a)) <= kParameterRatioMax;
}

EqualLossRow RatioAt(const stats::ArmTable& table, const Group& baseline,
                     const std::pair<double, const stats::Arm*>& candidate, const stats::ArmMeasure& measure,
                     int64_t length, double confidence) {
  EqualLossRow row{"", "", "", measure, length, candidate.first, true, {}, {}};
  for (const stats::ArmRun& run : candidate.second->runs) {
    const bool in_all = std::all_of(baseline.members.begin(), baseline.members.end(), [&](const auto& member) {
      const std::vector<stats::ArmRun>& runs = member.second->runs;
      return std::any_of(runs.begin(), runs.end(), [&](const stats::ArmRun& other) { return other.seed == run.seed; });
    });
    if (in_all) row.seeds.push_back(run.seed);
  }
  row.is_paired = !row.seeds.empty();
  // All runs together, so that every mean is over the same questions: of each place of the baseline, then the candidate's.
  std::vector<stats::ArmRun> runs;
  std::vector<size_t> counts;
  const auto add = [&](const stats::Arm& arm) {
    const size_t before = runs.size();
    for (const stats::ArmRun& run : arm.runs) {
      if (!row.is_paired || std::find(row.seeds.begin(), row.seeds.end(), run.seed) != row.seeds.end())
        runs.push_back(run);
    }
    counts.push_back(runs.size() - before);
  };
  for (const auto& member : baseline.members) add(*member.second);
  add(*candidate.second);
  const std::vector<double> means = table.RunMeans(runs, measure, length);
  if (means.empty()) return row;
  const auto average = [&](size_t first, size_t count) {
    double sum = 0;
    for (size_t i = first; i < first + count; ++i) sum += means[i];
    return sum / count;
  };
  std::vector<stats::EqualLossSeed> seeds(row.is_paired ? row.seeds.size() : 1);
  for (size_t s = 0; s < seeds.size(); ++s) {
    size_t first = 0;
    for (size_t place = 0; place < baseline.members.size(); ++place) {
      seeds[s].baseline.push_back(
          {baseline.members[place].first, row.is_paired ? means[first + s] : average(first, counts[place])});
      first += counts[place];
    }
    seeds[s].candidate = row.is_paired ? means[first + s] : average(first, counts.back());
  }
  const db::TaskMetricRecord& metric = measure.parts.front();
  const bool up =
      measure.IsSuite() || !metric.worst_value || !metric.best_value || *metric.best_value > *metric.worst_value;
  row.ratio = stats::InferEqualLoss(seeds, candidate.first, up, confidence);
  return row;
}

}  // namespace

const std::vector<Axis>& Axes() {
  static const std::vector<Axis>* const axes = new std::vector<Axis>{
      {"tokens", "training tokens", Fact::kTokens,
       [](const db::VariantRecord& variant) { return AsDouble(variant.model.training_tokens); }, true, false, true},
      {"parameters", "parameters", Fact::kParameters,
       [](const db::VariantRecord& variant) { return AsDouble(variant.model.parameter_count); }, true, false, true},
      {"trained-length", "trained context length, tokens", Fact::kTrainedLength,
       [](const db::VariantRecord& variant) { return AsDouble(variant.model.trained_context_length); }, false, false,
       true},
      {"temperature", "softmax temperature at run time", Fact::kTemperature, &RunTemperature, false, false, false},
      {"layer", "layer whose temperature differs", Fact::kTemperature, &OnlyOtherLayer, false, true, true},
  };
  return *axes;
}

absl::StatusOr<const Axis*> FindAxis(absl::string_view name) {
  std::vector<std::string> names;
  for (const Axis& axis : Axes()) {
    if (axis.name == name) return &axis;
    names.push_back(axis.name);
  }
  return InvalidArgument("the axis \"", name, "\" is not one of ", absl::StrJoin(names, ", "));
}

AxisReport MakeAxisReport(const stats::ArmTable& table, const Axis& axis, const std::string& baseline_arm,
                          double confidence) {
  AxisReport report{&axis, {}, {}};
  const std::vector<Group> groups = GroupArms(table, axis);
  const std::vector<std::string> labels = LabelsOf(groups);
  for (const stats::ArmMeasure& measure : table.measures()) {
    for (int64_t length : table.lengths()) {
      AxisCurves curves{measure, length, {}};
      for (size_t g = 0; g < groups.size(); ++g) {
        AxisSeries series{groups[g].arm, labels[g], {}};
        for (const auto& [x, arm] : groups[g].members) {
          if (const auto mean = table.MeanOf(*arm, measure, length, confidence))
            series.points.push_back({x, arm, *mean});
        }
        if (!series.points.empty()) curves.series.push_back(std::move(series));
      }
      if (!curves.series.empty()) report.curves.push_back(std::move(curves));
      if (!axis.has_ratio) continue;
      for (size_t b = 0; b < groups.size(); ++b) {
        if (groups[b].arm != baseline_arm) continue;
        for (size_t c = 0; c < groups.size(); ++c) {
          if (groups[c].arm == baseline_arm || !IsComparable(groups[b], groups[c], axis)) continue;
          for (const auto& member : groups[c].members) {
            EqualLossRow row = RatioAt(table, groups[b], member, measure, length, confidence);
            row.baseline = labels[b];
            row.candidate = labels[c];
            row.candidate_arm = groups[c].arm;
            if (row.ratio.seed_count > 0) report.ratios.push_back(std::move(row));
          }
        }
      }
    }
  }
  return report;
}

bool IsLoss(const stats::ArmMeasure& measure) { return absl::StrContains(measure.metric, "log_likelihood"); }

bool IsMainMeasure(const stats::ArmMeasure& measure, const stats::ArmTable& table) {
  if (measure.IsSuite()) return true;
  if (!IsLoss(measure) || absl::EndsWith(measure.metric, "_per_token")) return false;
  // Several tasks are represented by their mean.
  return measure.task.empty() ||
         std::none_of(table.measures().begin(), table.measures().end(), [&](const stats::ArmMeasure& other) {
           return other.task.empty() && other.metric == measure.metric;
         });
}

std::string MeasureLabel(const stats::ArmMeasure& measure) {
  if (measure.IsSuite()) return "mean over tasks";
  return absl::StrCat(measure.task.empty() ? "mean over tasks" : measure.task, ", ", measure.metric);
}

std::string RatioLabel(const stats::EqualLossRatio& ratio, bool is_paired) {
  const auto times = [](double value) { return absl::StrCat("×", absl::StrFormat("%.3g", value)); };
  if (ratio.problem == stats::EqualLossProblem::kCensored) {
    std::vector<std::string> parts;
    const std::string of = is_paired ? absl::StrCat(" of ", ratio.seed_count, " seeds") : " of the mean curves";
    if (ratio.above_count > 0)
      parts.push_back(absl::StrCat("above the measured range in ", is_paired ? ratio.above_count : 1, of));
    if (ratio.below_count > 0)
      parts.push_back(absl::StrCat(ratio.above_count > 0 ? "below it in " : "below the measured range in ",
                                   is_paired ? ratio.below_count : 1, of));
    if (ratio.at_least.has_value()) parts.push_back(absl::StrCat("at least ", times(*ratio.at_least)));
    if (ratio.at_most.has_value()) parts.push_back(absl::StrCat("at most ", times(*ratio.at_most)));
    return absl::StrJoin(parts, ", ");
  }
  if (ratio.low.has_value())
    return absl::StrCat(times(*ratio.ratio), " (", absl::StrFormat("%.3g", *ratio.low), " to ",
                        absl::StrFormat("%.3g", *ratio.high), ")");
  return absl::StrCat(times(*ratio.ratio), !is_paired ? " of the mean curves: the arms have no seed in common"
                                           : ratio.seed_count == 1 ? " of one seed: no interval"
                                                                   : " in every seed: no interval");
}

}  // namespace varifocal::report
