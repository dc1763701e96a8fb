#include "client/job_flags.h"

#include <algorithm>
#include <map>
#include <ostream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "client/models.h"
#include "client/suite_file.h"
#include "client/usage.h"
#include "db/trained_temperature.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/metrics/gold_metrics.h"
#include "eval_tasks/overrides.h"
#include "eval_tasks/task.h"
#include "wire/job_spec.h"

namespace varifocal::client {

void SuiteFlags::AddTo(FlagSet& flags, bool is_required) {
  flags.AddPositional("SUITE", &suite, "a built-in suite (`varifocal suites`) or the path of a YAML file").required =
      is_required;
  flags.Add("lengths", &lengths, "N,N,..", "context lengths in tokens instead of the suite's; 8K is 8192");
  flags.Add("tasks", &tasks, "NAME,..", "only these tasks of the suite");
  flags
      .Add("limit", &limit, "N",
           "only the first N questions of every task and length; four share a context, so 4 allow no verdict and "
           "32 have 8 contexts")
      .AtLeast(1);
  flags.Add("seed", &seed, "N", "data seed instead of the suite's: other questions");
  flags
      .Add("seeds", &seeds, "N",
           "replication: the questions of N data seeds, from --seed on, as one job whose results are pooled; rows of a "
           "user's file, which no seed changes, are asked once")
      .AtLeast(1)
      .AtMost(kSeedCountMax);
  flags.Add(
      "form", &form, "FORM",
      "chat: tasks without a form of their own ask in the user's turn of the models' chat format, for an answer on "
      "the last line of the reply; completion: as a text to go on with");
  flags
      .Add("epochs", &epochs, "N",
           "answers to every question, each sampled with a seed of its own; needs a sampling temperature above 0")
      .AtLeast(1)
      .AtMost(kEpochCountMax);
  flags
      .Add("answer-tokens", &answer_tokens, "N",
           "tokens of every written answer, beside the context length, which is then that of the prompt alone")
      .AtLeast(1)
      .AtMost(kAnswerTokensMax);
  flags
      .Add(
          "thinking-tokens", &thinking_tokens, "N",
          "tokens of thinking before every written answer, beside the context length; the blocks are left out of scores")
      .AtLeast(1)
      .AtMost(kAnswerTokensMax);
  flags.Add("thinking-markers", &thinking_markers, "BEGIN,END",
            "markers of thinking blocks instead of the models' own, such as <think>,</think>");
  flags.Add(
      "force-thinking-end", &force_thinking_end,
      "at --thinking-tokens the end of the block is forced, and the answer follows; else it is unfinished, and wrong");
}

absl::Status SuiteFlags::SetAnswers(SuiteSpec& spec) const {
  if (thinking_markers.has_value()) {
    const std::pair<std::string, std::string> markers = absl::StrSplit(*thinking_markers, absl::MaxSplits(',', 1));
    std::tie(spec.thinking.begin, spec.thinking.end) = markers;
    if (spec.thinking.begin.empty() || spec.thinking.end.empty()) {
      return UsageError("--thinking-markers=", *thinking_markers, ": must be two markers, such as <think>,</think>.");
    }
  }
  if (force_thinking_end) spec.thinking.force = true;
  bool any_written = false;
  const auto set = [&](AnswerSpec& answer) {
    if (answer_tokens.has_value()) answer.max_new_tokens = static_cast<int>(*answer_tokens);
    if (thinking_tokens.has_value()) answer.thinking_max_tokens = static_cast<int>(*thinking_tokens);
  };
  for (TaskSpec& task : spec.tasks) {
    if (FindTaskKind(task.kind)->scores_continuations(task.parameters)) continue;
    any_written = true;
    set(task.answer);
  }
  if (!any_written && (answer_tokens.has_value() || thinking_tokens.has_value())) {
    return UsageError(answer_tokens.has_value() ? "--answer-tokens" : "--thinking-tokens", ": no task of the suite \"",
                      spec.name, "\" writes answers.");
  }
  const absl::Status valid = ValidateSuiteSpec(spec).status();
  return valid.ok() ? valid : AsUsageError(valid);
}

absl::StatusOr<SuiteSpec> SuiteFlags::Read() const {
  ASSIGN_OR_RETURN(const v1::SuiteConfig config, ReadSuite(suite));
  SuiteSpec spec = FromProto(config);
  if (form.has_value()) spec.form = *form;  // it decides on defaults, and on what the chosen tasks can be
  if (!form.has_value()) {
    ASSIGN_OR_RETURN(spec, ToSuiteSpec(config));
  }
  std::vector<int> chosen_lengths;
  for (const std::string& text : SplitList(lengths.value_or(""))) {
    const absl::StatusOr<int> length = ParseContextLength(text);
    if (!length.ok()) return UsageError("--lengths: ", length.status().message());
    chosen_lengths.push_back(*length);
  }
  if (lengths.has_value() && chosen_lengths.empty()) {
    return UsageError("--lengths is empty; leave it out for the suite's own.");
  }
  const std::vector<std::string> chosen_tasks = SplitList(tasks.value_or(""));
  if (tasks.has_value() && chosen_tasks.empty()) return UsageError("--tasks is empty; leave it out for all.");
  absl::StatusOr<SuiteSpec> selected = SelectFromSuite(std::move(spec), chosen_tasks, chosen_lengths);
  if (!selected.ok()) return AsUsageError(selected.status());
  if (form.has_value()) {
    selected = ValidateSuiteSpec(*std::move(selected));
    if (!selected.ok()) return AsUsageError(selected.status());
  }
  if (seed.has_value()) selected->seed = *seed;
  if (seeds.has_value()) selected->seeds = static_cast<int>(*seeds);
  if (epochs.has_value()) selected->epochs = static_cast<int>(*epochs);
  RETURN_IF_ERROR(SetAnswers(*selected));
  return selected;
}

namespace {

// Values of --focal-layers.
std::vector<std::string> LayersFlags() {
  std::vector<std::string> names;
  for (const OverrideInfo& info : OverrideTable()) {
    if (info.layers_flag != nullptr) names.emplace_back(info.layers_flag);
  }
  return names;
}

// The overrides that they name.
absl::StatusOr<std::vector<std::string>> ReadFocalLayers(absl::string_view text) {
  std::vector<std::string> settings;
  for (const std::string& name : SplitList(text)) {
    const auto table = OverrideTable();
    const auto row = std::find_if(table.begin(), table.end(), [&](const OverrideInfo& info) {
      return info.layers_flag != nullptr && name == info.layers_flag;
    });
    if (row == table.end()) {
      return UsageError("--focal-layers: \"", name, "\" is not one of ", absl::StrJoin(LayersFlags(), ", "), ".");
    }
    settings.emplace_back(row->name);
  }
  if (settings.empty()) return UsageError("--focal-layers is empty; leave it out for all layers.");
  return settings;
}

// Adds each of `variants` at each value of one setting, "yarn=2,4", unless it has that setting.
absl::Status AddSweep(const std::vector<Variant>& variants, absl::string_view sweep, std::vector<Variant>& all) {
  const size_t equals = sweep.find('=');
  if (equals == 0 || equals == absl::string_view::npos || equals + 1 == sweep.size())
    return UsageError("--sweep=", sweep, ": must be a setting and its values, such as yarn=2,4,8.");
  const std::string name(sweep.substr(0, equals));
  for (const Variant& variant : variants) {
    if (variant.overrides.contains(name)) continue;
    for (absl::string_view value : absl::StrSplit(sweep.substr(equals + 1), ',')) {
      const absl::StatusOr<Variant> swept = ParseVariant(absl::StrCat(variant.Name(), "@", name, "=", value));
      if (!swept.ok()) return UsageError("--sweep=", sweep, ": ", swept.status().message(), ".");
      if (std::find(all.begin(), all.end(), *swept) == all.end()) all.push_back(*swept);
    }
  }
  return absl::OkStatus();
}

// Each of `variants` at each of "on", "off" or "on,off", unless it has the setting.
absl::Status SetThinking(const std::string& values, std::vector<Variant>& variants) {
  std::vector<Variant> all;
  for (const Variant& variant : variants) {
    if (variant.overrides.contains(kThinking)) {
      all.push_back(variant);
      continue;
    }
    for (absl::string_view value : absl::StrSplit(values, ',')) {
      const absl::StatusOr<Variant> set = ParseVariant(absl::StrCat(variant.Name(), "@", kThinking, "=", value));
      if (!set.ok()) return UsageError("--thinking=", values, ": must be on, off or on,off.");
      if (std::find(all.begin(), all.end(), *set) == all.end()) all.push_back(*set);
    }
  }
  variants = std::move(all);
  return absl::OkStatus();
}

// Whether the variant has one override, a temperature equal to the one its model was trained with.
bool IsSameAsTrained(const Variant& variant, const std::optional<double>& trained) {
  if (!trained.has_value() || variant.overrides.size() != 1) return false;
  const auto& [name, values] = *variant.overrides.begin();
  const OverrideInfo* info = FindOverride(name);
  if (info == nullptr || info->kind != OverrideKind::kTemperature) return false;
  return values == std::vector<double>{*trained} && (!info->resets_other_layers || *trained == 1);
}

}  // namespace

void JobFlags::AddTo(FlagSet& flags) {
  flags.Add("focal-temperatures", &focal_temperatures, "T,T,..",
            "adds every model without @t= at each of these temperatures");
  flags.Add(
      "focal-layers", &focal_layers, absl::StrCat(absl::StrJoin(LayersFlags(), "|"), ",.."),
      "of --focal-temperatures: all layers (default), those without a window, or a third of them; each named is a "
      "sweep of its own");
  flags.Add("sweep", &sweeps, "NAME=X,X,..",
            "adds every model without this run-time setting at each of these values, such as yarn=2,4,8; repeatable");
  flags.Add("keep-prompts", &keep_prompts, "store whole prompts (by default they are regenerated when needed)");
  flags.Add("score-gold", &score_gold,
            "also the log-likelihood of the gold answer after each prompt, for tasks with written answers");
  flags.Add("inspect", &inspect,
            "also store what the last row of each prompt attends to, per layer and head; does not affect answers");
  flags.Add("inspected-rows", &inspected_rows, "last|question|N",
            "of --inspect: the mean over all rows of the question, or over the last N, at most 64");
  flags.Add("in-flight", &in_flight, "N", "concurrent samples; does not affect answers")
      .AtLeast(1)
      .AtMost(kInFlightMax);
  sampling.AddTo(flags);
  flags.Add("thinking", &thinking, "on|off|on,off",
            "sets the switch of the models' chat templates, of models without @thinking=; both: each model twice");
}

absl::StatusOr<v1::JobSpec> MakeJobSpec(const SuiteFlags& suite, const JobFlags& job, absl::string_view models) {
  JobSpec spec;
  ASSIGN_OR_RETURN(spec.suite, suite.Read());
  if (job.score_gold) {
    const absl::Status added = AddGoldMetrics(spec.suite);
    if (!added.ok()) return UsageError("--score-gold: ", added.message(), ".");
  }
  absl::StatusOr<std::vector<Variant>> variants = ParseVariantList(models);
  if (!variants.ok()) return AsUsageError(variants.status());
  spec.variants = *std::move(variants);
  if (job.focal_temperatures.has_value()) {
    ASSIGN_OR_RETURN(const std::vector<double> temperatures,
                     ReadFocalTemperatures("focal-temperatures", *job.focal_temperatures));
    ASSIGN_OR_RETURN(const std::vector<std::string> settings, ReadFocalLayers(job.focal_layers.value_or("all")));
    spec.variants = WithTemperatures(spec.variants, temperatures, settings);
  } else if (job.focal_layers.has_value()) {
    return UsageError("--focal-layers needs --focal-temperatures.");
  }
  if (job.thinking.has_value()) RETURN_IF_ERROR(SetThinking(*job.thinking, spec.variants));
  const std::vector<Variant> unswept = spec.variants;
  for (const std::string& sweep : job.sweeps) {
    RETURN_IF_ERROR(AddSweep(unswept, sweep, spec.variants));
  }
  spec.limit = std::min<int64_t>(suite.limit, kSampleCountMax);
  spec.keep_prompts = job.keep_prompts;
  spec.inspect = job.inspect;
  if (job.inspected_rows.has_value()) {
    if (!job.inspect) return UsageError("--inspected-rows needs --inspect.");
    absl::StatusOr<std::string> rows = ValidateInspectedRows(*job.inspected_rows);
    if (!rows.ok()) return AsUsageError(rows.status());
    spec.inspected_rows = *std::move(rows);
  }
  spec.in_flight = job.in_flight.value_or(0);  // 0: the daemon's setting
  ASSIGN_OR_RETURN(spec.decode, job.sampling.Read());
  return ToProto(spec);
}

absl::Status DropSameAsTrained(Daemon& daemon, absl::string_view models, v1::JobSpec& spec, Console& console) {
  ASSIGN_OR_RETURN(const std::vector<Variant> named, ParseVariantList(models));
  std::map<std::string, std::optional<double>> trained;
  RETURN_IF_ERROR(EachModel(daemon, [&](const v1::Model& model) {
    trained[model.name()] = db::TrainedTemperature(model.attention_json());
    return absl::OkStatus();
  }));
  ASSIGN_OR_RETURN(const JobSpec domain, FromProto(spec));  // for the names
  google::protobuf::RepeatedPtrField<v1::Variant> kept;
  std::vector<std::string> dropped;
  for (int i = 0; i < spec.variants_size(); ++i) {
    const bool is_named = std::find(named.begin(), named.end(), domain.variants[i]) != named.end();
    if (is_named || !IsSameAsTrained(domain.variants[i], trained[spec.variants(i).model()])) {
      *kept.Add() = spec.variants(i);
    } else {
      dropped.push_back(absl::StrCat(domain.variants[i].Name(), " is ", domain.variants[i].model));
    }
  }
  if (dropped.empty()) return absl::OkStatus();
  spec.mutable_variants()->Swap(&kept);
  console.err << "Asked once: " << absl::StrJoin(dropped, ", ") << " as trained.\n";
  return absl::OkStatus();
}

}  // namespace varifocal::client
