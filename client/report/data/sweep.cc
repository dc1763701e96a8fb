#include "client/report/data/sweep.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "db/trained_temperature.h"

namespace varifocal::report {

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

namespace {

std::optional<double> TrainedTheta(const db::ModelRecord& model) {
  const std::string mark = " theta=", rope = RopeOf(model);
  const size_t at = rope.find(mark);
  double theta = 0;
  const std::vector<std::string> words =
      absl::StrSplit(at == rope.npos ? "" : rope.substr(at + mark.size()), absl::ByAnyChar(" ;"));
  return absl::SimpleAtod(words.front(), &theta) ? std::optional(theta) : std::nullopt;
}

// A number of an attention key of the checkpoint's config.
std::optional<double> TrainedNumber(const db::ModelRecord& model, const char* key, const char* name) {
  const auto attention = ParseJson(model.attention_json);
  if (!attention.ok() || !attention->is_object() || !attention->contains(key)) return std::nullopt;
  const Json& setting = (*attention)[key];
  if (!setting.is_object() || !setting.contains(name) || !setting[name].is_number()) return std::nullopt;
  return setting[name].get<double>();
}

// That of its config, or else of its architecture (Gemma 2).
std::optional<double> TrainedCap(const db::ModelRecord& model) {
  if (const std::optional<double> set = TrainedNumber(model, "score_soft_cap", "cap")) return set;
  const auto function = ParseJson(model.function_json.value_or(""));
  if (!function.ok() || !function->is_object() || !function->contains("blocks")) return std::nullopt;
  const Json& blocks = (*function)["blocks"];
  if (!blocks.is_object() || !blocks.contains("score_soft_cap")) return std::nullopt;
  return blocks["score_soft_cap"].get<double>();
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
    case OverrideKind::kScoreCap:
      return TrainedCap(model);
    case OverrideKind::kScores:
      return TrainedNumber(model, "attention_sink", "logit");
    case OverrideKind::kGroups:
    case OverrideKind::kChatSwitch:
      break;
  }
  return std::nullopt;
}

bool IsTemperature(const OverrideInfo& setting) { return setting.kind == OverrideKind::kTemperature; }

// How far a value is from that of the checkpoint as it was trained. Where that is no number, the value that changes
// least is the nearest: the largest cap, the lowest sink.
double DistanceOf(double value, const OverrideInfo& setting, std::optional<double> trained) {
  const double from = trained.value_or(setting.neutral);
  if (std::isinf(from)) return from > 0 ? -value : value;
  return HasLinearAxis(setting) ? std::abs(value - from) : std::abs(std::log(value / from));
}

}  // namespace

bool HasLinearAxis(const OverrideInfo& setting) { return setting.kind == OverrideKind::kScores; }

std::string SymbolOf(const OverrideInfo& setting) { return IsTemperature(setting) ? "t" : setting.name; }

int SweepColor(const std::vector<Sweep>& sweeps, size_t s, const ReportData& data) {
  std::set<int> taken;
  int next = std::ssize(data.variants) - std::ssize(data.swept), color = 0;
  for (size_t i = 0; i <= s; ++i) {
    const auto trained = std::find_if(sweeps[i].points.begin(), sweeps[i].points.end(), [&](const SweepPoint& point) {
      return !data.swept.contains(data.variants[point.variant_index].name);
    });
    color = trained == sweeps[i].points.end() ? next : data.ColorOf(data.variants[trained->variant_index].name);
    if (!taken.insert(color).second) color = next;
    if (color == next) taken.insert(next++);
  }
  return color;
}

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

std::optional<SweptValue> SweptValueOf(const db::VariantRecord& variant) {
  // Other run-time settings beside the one are not part of a sweep.
  const std::vector<std::string> parts = absl::StrSplit(variant.name, '@');
  if (parts.size() != 2) return std::nullopt;
  const std::pair<std::string, std::string> setting = absl::StrSplit(parts[1], absl::MaxSplits('=', 1));
  SweptValue run;
  run.setting = FindOverride(setting.first);
  if (run.setting != nullptr && *run.setting->noun == 0) return std::nullopt;
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

absl::Status ChooseValues(db::Reader& reader, ReportData& data) {
  stats::CompareOptions options;
  options.confidence = data.confidence;
  options.margin = data.margin;
  for (const Sweep& sweep : FindSweeps(data)) {
    // Of equal scores the value nearest to the trained one is chosen, and as trained before any other.
    std::vector<SweepPoint> points = sweep.points;
    const std::optional<double> trained = AsTrained(*sweep.setting, data.variants[points.front().variant_index].model);
    std::stable_sort(points.begin(), points.end(), [&](const SweepPoint& a, const SweepPoint& b) {
      return DistanceOf(a.value, *sweep.setting, trained) < DistanceOf(b.value, *sweep.setting, trained);
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

}  // namespace varifocal::report
