#include "eval_tasks/job_spec.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/suggest.h"
#include "eval_tasks/task.h"

namespace varifocal {
namespace {

constexpr size_t kNameSizeMax = 63;
constexpr size_t kTaskCountMax = 64;
constexpr size_t kLengthCountMax = 64;
constexpr size_t kVariantCountMax = 64;
constexpr absl::string_view kTemperatureMark = "@t=";

bool IsName(absl::string_view text) {
  if (text.empty() || text.size() > kNameSizeMax || !absl::ascii_isalpha(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

absl::Status CheckRange(absl::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(key, " is ", value, "; it must be from ", low, " to ", high));
}

std::string Temperatures(const std::vector<double>& temperatures) {
  return absl::StrJoin(temperatures, ",", [](std::string* out, double t) { out->append(FormatNumber(t)); });
}

absl::Status ValidateLengths(std::vector<int>& lengths) {
  if (lengths.empty() || lengths.size() > kLengthCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("lengths has ", lengths.size(), " values; it must have from 1 to ", kLengthCountMax));
  }
  std::sort(lengths.begin(), lengths.end());
  for (size_t i = 0; i < lengths.size(); ++i) {
    RETURN_IF_ERROR(CheckRange("lengths", lengths[i], 1, kContextLengthMax));
    if (i > 0 && lengths[i] == lengths[i - 1]) {
      return absl::InvalidArgumentError(absl::StrCat("lengths has ", lengths[i], " twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateMetrics(const TaskKind& kind, TaskSpec& task) {
  if (task.metrics.empty()) task.metrics = kind.default_metrics(task.parameters);
  const bool scores_continuations = kind.scores_continuations(task.parameters);
  std::set<std::string> seen;
  for (const std::string& name : task.metrics) {
    const Metric* metric = FindMetric(name);
    if (metric == nullptr) {
      std::vector<std::string> names;
      for (const Metric& known : Metrics()) names.push_back(known.name);
      return absl::InvalidArgumentError(
          absl::StrCat("task \"", task.name, "\": unknown metric \"", name, "\"", DidYouMean(name, names)));
    }
    if (metric->needs_continuations != scores_continuations) {
      return absl::InvalidArgumentError(absl::StrCat("task \"", task.name, "\": the metric \"", name, "\" scores ",
                                                     metric->needs_continuations ? "choices" : "written answers",
                                                     ", and this task has none"));
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("task \"", task.name, "\": the metric \"", name, "\" is given twice"));
    }
  }
  if (IsGoldMetric(task.metrics[0])) {
    return absl::InvalidArgumentError(absl::StrCat("task \"", task.name,
                                                   "\": the first metric is the primary one, which \"", task.metrics[0],
                                                   "\" cannot be: it is of the gold answer, not of the one written"));
  }
  return absl::OkStatus();
}

absl::Status CheckShard(const Shard& shard) {
  RETURN_IF_ERROR(CheckRange("the number of shards", shard.count, 1, kShardCountMax));
  return CheckRange("the shard", shard.index, 1, shard.count);
}

absl::Status CheckSamplesAt(const SuiteSpec& suite, absl::string_view where, const std::map<int, int>& samples_at) {
  for (const auto& [length, samples] : samples_at) {
    if (std::find(suite.lengths.begin(), suite.lengths.end(), length) == suite.lengths.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "samples_at names ", length, ", which is not one of the lengths"));
    }
    RETURN_IF_ERROR(CheckRange(absl::StrCat(where, "samples_at ", length), samples, 1, kSampleCountMax));
  }
  return absl::OkStatus();
}

absl::Status ValidateTask(const SuiteSpec& suite, TaskSpec& task) {
  if (task.kind.empty()) task.kind = task.name;
  if (task.name.empty()) task.name = task.kind;
  const TaskKind* kind = FindTaskKind(task.kind);
  if (kind == nullptr) {
    std::vector<std::string> names;
    for (const TaskKind& known : TaskKinds()) names.push_back(known.name);
    return absl::InvalidArgumentError(absl::StrCat("unknown task \"", task.kind, "\"", DidYouMean(task.kind, names)));
  }
  RETURN_IF_ERROR(CheckName("task", task.name));
  ASSIGN_OR_RETURN(task.parameters, ValidateParameters(task.name, kind->parameters, task.parameters));
  RETURN_IF_ERROR(ValidateMetrics(*kind, task));
  if (task.samples == 0 && task.samples_at.empty() && kind->native) task.samples_at = suite.samples_at;
  if (task.samples == 0 && kind->native) task.samples = suite.samples;
  RETURN_IF_ERROR(CheckSamplesAt(suite, absl::StrCat("task \"", task.name, "\": "), task.samples_at));
  return CheckRange(absl::StrCat("task \"", task.name, "\": samples"), task.samples, kind->native ? 1 : 0,
                    kSampleCountMax);
}

}  // namespace

std::string Variant::Name() const {
  std::string name = model;
  if (!focal_temperatures.empty()) absl::StrAppend(&name, kTemperatureMark, Temperatures(focal_temperatures));
  for (const auto& [key, value] : attention_overrides) absl::StrAppend(&name, "@", key, "=", FormatNumber(value));
  return name;
}

absl::StatusOr<Shard> ParseShard(absl::string_view text) {
  Shard shard;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shard.index) || !absl::SimpleAtoi(parts[1], &shard.count)) {
    return absl::InvalidArgumentError(absl::StrCat("the shard is \"", text, "\"; it must be I/N, such as 2/8"));
  }
  RETURN_IF_ERROR(CheckShard(shard));
  return shard;
}

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the ", what, " name \"", name, "\" must be a letter and at most ",
                                                 kNameSizeMax - 1, " more letters, digits, \"_\", \"-\" or \".\""));
}

absl::Status CheckFocalTemperature(double temperature) {
  if (std::isfinite(temperature) && temperature > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the focal temperature is ", temperature, "; it must be a finite number above 0"));
}

absl::StatusOr<std::vector<double>> ParseFocalTemperatures(absl::string_view text) {
  std::vector<double> temperatures;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const absl::StatusOr<double> temperature = ParseNumber(piece);
    if (!temperature.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the focal temperature is \"", piece, "\"; it must be a finite number above 0"));
    }
    RETURN_IF_ERROR(CheckFocalTemperature(*temperature));
    temperatures.push_back(*temperature);
  }
  return temperatures;
}

// The names are checked with the model; here they only have to round-trip through Variant::Name().
absl::Status CheckOverrideNames(const Variant& variant) {
  for (const auto& [key, value] : variant.attention_overrides) {
    const bool is_word = std::all_of(
        key.begin(), key.end(), [](char c) { return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-'; });
    if (key.empty() || key == "t" || key.size() > kNameSizeMax || !is_word || !std::isfinite(value)) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", variant.model, "\" has the attention setting \"", key, "\" = ", value,
                       "; a name has lower-case letters, digits and \"-\", and the value must be finite"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Variant> ParseVariant(absl::string_view text) {
  Variant variant;
  const size_t at = text.find('@');
  variant.model = std::string(text.substr(0, at));
  RETURN_IF_ERROR(CheckName("model", variant.model));
  if (at == absl::string_view::npos) return variant;
  for (absl::string_view setting : absl::StrSplit(text.substr(at + 1), '@')) {
    const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(setting, absl::MaxSplits('=', 1));
    const auto [key, value] = parts;
    if (key.size() == setting.size() || key.empty() || value.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the variant \"", text, "\" must be NAME, or NAME with settings such as NAME@t=0.7"));
    }
    if (key == "t" ? !variant.focal_temperatures.empty() : variant.attention_overrides.contains(std::string(key))) {
      return absl::InvalidArgumentError(absl::StrCat("the variant \"", text, "\" sets ", key, " twice"));
    }
    if (key == "t") {
      absl::StatusOr<std::vector<double>> temperatures = ParseFocalTemperatures(value);
      if (!temperatures.ok()) return Annotate(temperatures.status(), absl::StrCat("\"", text, "\""));
      variant.focal_temperatures = *std::move(temperatures);
      continue;
    }
    const absl::StatusOr<double> number = ParseNumber(value);
    if (!number.ok() || !std::isfinite(*number)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the variant \"", text, "\" sets ", key, " to \"", value, "\"; it must be a finite number"));
    }
    variant.attention_overrides.emplace(key, *number);
  }
  RETURN_IF_ERROR(CheckOverrideNames(variant));
  return variant;
}

absl::StatusOr<std::vector<Variant>> ParseVariantList(absl::string_view text) {
  std::vector<std::string> pieces;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const bool is_name = !piece.empty() && absl::ascii_isalpha(piece[0]) && piece != "inf" && piece != "nan";
    if (is_name || pieces.empty() || !absl::StrContains(pieces.back(), kTemperatureMark)) {
      pieces.emplace_back(piece);
    } else {
      absl::StrAppend(&pieces.back(), ",", piece);
    }
  }
  std::vector<Variant> variants;
  for (const std::string& piece : pieces) {
    ASSIGN_OR_RETURN(Variant variant, ParseVariant(piece));
    variants.push_back(std::move(variant));
  }
  return variants;
}

std::vector<Variant> WithTemperatures(const std::vector<Variant>& variants, const std::vector<double>& temperatures) {
  std::vector<Variant> all;
  auto add = [&](const Variant& variant) {
    if (std::find(all.begin(), all.end(), variant) == all.end()) all.push_back(variant);
  };
  for (const Variant& variant : variants) {
    add(variant);
    if (!variant.focal_temperatures.empty()) continue;
    for (double temperature : temperatures) {
      Variant at_temperature = variant;
      at_temperature.focal_temperatures = {temperature};
      add(at_temperature);
    }
  }
  return all;
}

absl::StatusOr<SuiteSpec> ValidateSuiteSpec(SuiteSpec suite) {
  RETURN_IF_ERROR(CheckName("suite", suite.name));
  if (suite.description.size() > kDescriptionBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("the description of the suite has ", suite.description.size(),
                                                   " bytes, the limit is ", kDescriptionBytesMax));
  }
  RETURN_IF_ERROR(CheckRange("samples", suite.samples, 1, kSampleCountMax));
  RETURN_IF_ERROR(CheckRange("seeds", suite.seeds, 0, kSeedCountMax));
  if (suite.seeds == 1) suite.seeds = 0;
  RETURN_IF_ERROR(CheckRange("seed", suite.seed, INT64_MIN, INT64_MAX - kSeedCountMax));
  RETURN_IF_ERROR(ValidateLengths(suite.lengths));
  RETURN_IF_ERROR(CheckSamplesAt(suite, "", suite.samples_at));
  if (suite.tasks.empty() || suite.tasks.size() > kTaskCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("tasks has ", suite.tasks.size(), " entries; it must have from 1 to ", kTaskCountMax));
  }
  std::set<std::string> names;
  for (TaskSpec& task : suite.tasks) {
    RETURN_IF_ERROR(ValidateTask(suite, task));
    if (!names.insert(task.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two tasks are named \"", task.name, "\"; give one another name"));
    }
  }
  return suite;
}

absl::StatusOr<JobSpec> ValidateJobSpec(JobSpec spec) {
  ASSIGN_OR_RETURN(spec.suite, ValidateSuiteSpec(std::move(spec.suite)));
  if (spec.variants.empty() || spec.variants.size() > kVariantCountMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("variants has ", spec.variants.size(), " entries; it must have from 1 to ", kVariantCountMax));
  }
  std::set<std::string> names;
  for (const Variant& variant : spec.variants) {
    RETURN_IF_ERROR(CheckName("model", variant.model));
    for (double temperature : variant.focal_temperatures) {
      const absl::Status status = CheckFocalTemperature(temperature);
      if (!status.ok()) return Annotate(status, absl::StrCat("\"", variant.model, "\""));
    }
    RETURN_IF_ERROR(CheckOverrideNames(variant));
    if (!names.insert(variant.Name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("the variant \"", variant.Name(), "\" is given twice"));
    }
  }
  RETURN_IF_ERROR(CheckRange("limit", spec.limit, 0, kSampleCountMax));
  RETURN_IF_ERROR(CheckRange("in_flight", spec.in_flight, 1, kInFlightMax));
  ASSIGN_OR_RETURN(spec.inspected_rows, ValidateInspectedRows(spec.inspected_rows));
  if (!spec.inspected_rows.empty() && !spec.inspect) {
    return absl::InvalidArgumentError(
        absl::StrCat("inspected_rows is \"", spec.inspected_rows, "\", but inspect is not set"));
  }
  if (!(spec.shard == Shard{})) RETURN_IF_ERROR(CheckShard(spec.shard));
  const double temperature = spec.decode.sampling_temperature.value_or(0);
  if (!std::isfinite(temperature) || temperature < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sampling_temperature is ", temperature, "; it must be a finite number, 0 or above"));
  }
  const double top_p = spec.decode.top_p.value_or(1);
  if (!(top_p > 0 && top_p <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("top_p is ", top_p, "; it must be above 0 and at most 1"));
  }
  return spec;
}

absl::StatusOr<SuiteSpec> SelectFromSuite(SuiteSpec suite, const std::vector<std::string>& tasks,
                                          const std::vector<int>& lengths) {
  if (!lengths.empty()) {
    suite.lengths = lengths;
    const auto is_dropped = [&](const auto& entry) {
      return std::find(lengths.begin(), lengths.end(), entry.first) == lengths.end();
    };
    std::erase_if(suite.samples_at, is_dropped);
    for (TaskSpec& task : suite.tasks) std::erase_if(task.samples_at, is_dropped);
  }
  if (tasks.empty()) return suite;
  std::vector<TaskSpec> kept;
  std::vector<std::string> names;
  for (const TaskSpec& task : suite.tasks) names.push_back(task.name.empty() ? task.kind : task.name);
  for (const std::string& name : tasks) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the suite \"", suite.name, "\" has no task \"", name, "\"", DidYouMean(name, names)));
    }
    kept.push_back(suite.tasks[found - names.begin()]);
  }
  suite.tasks = std::move(kept);
  return suite;
}

}  // namespace varifocal
