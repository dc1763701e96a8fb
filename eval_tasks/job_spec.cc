#include "eval_tasks/job_spec.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/attention_inspection.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/parameters.h"
#include "eval_tasks/task.h"
#include "tokenizer/thinking.h"

namespace varifocal {
namespace {

constexpr size_t kNameSizeMax = 63;
constexpr size_t kTaskCountMax = 64;
constexpr size_t kLengthCountMax = 64;
constexpr size_t kVariantCountMax = 64;

bool IsName(absl::string_view text) {
  if (text.empty() || text.size() > kNameSizeMax || !absl::ascii_isalpha(text[0])) return false;
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; });
}

// The status with its field (base/reason.h) inside `place`: "depth" inside "parameters" is "parameters.depth".
absl::Status Within(absl::string_view place, const absl::Status& status) {
  if (status.ok()) return status;
  const std::string field = FieldOf(status);
  return WithField(status, absl::StrCat(place, field.empty() || field[0] == '[' ? "" : ".", field));
}

absl::Status CheckRange(absl::string_view key, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument(key, " is ", value, "; it must be from ", low, " to ", high);
}

absl::Status CheckLengths(const std::vector<int>& lengths) {
  if (lengths.empty() || lengths.size() > kLengthCountMax) {
    return InvalidArgument("lengths has ", lengths.size(), " values; it must have from 1 to ", kLengthCountMax);
  }
  std::set<int> seen;
  for (size_t i = 0; i < lengths.size(); ++i) {
    absl::Status status = CheckRange("lengths", lengths[i], 1, kContextLengthMax);
    if (status.ok() && !seen.insert(lengths[i]).second) {
      status = InvalidArgument("lengths has ", lengths[i], " twice");
    }
    RETURN_IF_ERROR(Within(absl::StrCat("[", i, "]"), status));
  }
  return absl::OkStatus();
}

absl::Status CheckMetric(const std::string& name, bool scores_continuations, std::set<std::string>* seen) {
  const Metric* metric = FindMetric(name);
  if (metric == nullptr) {
    return InvalidArgument("unknown metric \"", name, "\"", DidYouMean(name, NamesOf(Metrics())));
  }
  if (metric->needs_continuations != scores_continuations) {
    return InvalidArgument("the metric \"", name, "\" scores ",
                           metric->needs_continuations ? "choices" : "written answers", ", and this task has none");
  }
  if (!seen->insert(name).second) return InvalidArgument("the metric \"", name, "\" is given twice");
  return absl::OkStatus();
}

absl::Status ValidateMetrics(const TaskKind& kind, TaskSpec& task) {
  if (task.metrics.empty()) task.metrics = kind.default_metrics(task.parameters);
  const bool scores_continuations = kind.scores_continuations(task.parameters);
  std::set<std::string> seen;
  for (size_t i = 0; i < task.metrics.size(); ++i) {
    RETURN_IF_ERROR(Within(absl::StrCat("[", i, "]"), CheckMetric(task.metrics[i], scores_continuations, &seen)));
  }
  if (IsGoldMetric(task.metrics[0])) {
    return Within("[0]", InvalidArgument("the first metric is the primary one, which \"", task.metrics[0],
                                         "\" cannot be: it is of the gold answer, not of the one written"));
  }
  return absl::OkStatus();
}

absl::Status CheckShard(const Shard& shard) {
  RETURN_IF_ERROR(CheckRange("the number of shards", shard.count, 1, kShardCountMax));
  return CheckRange("the shard", shard.index, 1, shard.count);
}

absl::Status CheckSamplesAt(const SuiteSpec& suite, const std::map<int, int>& samples_at) {
  for (const auto& [length, samples] : samples_at) {
    absl::Status status = CheckRange(absl::StrCat("samples_at ", length), samples, 1, kSampleCountMax);
    if (std::find(suite.lengths.begin(), suite.lengths.end(), length) == suite.lengths.end()) {
      status = InvalidArgument("samples_at names ", length, ", which is not one of the lengths");
    }
    RETURN_IF_ERROR(Within("samples_at", WithField(status, absl::StrCat(length))));
  }
  return absl::OkStatus();
}

absl::Status CheckAnswer(const AnswerSpec& answer) {
  RETURN_IF_ERROR(Within("max_new_tokens", CheckRange("max_new_tokens", answer.max_new_tokens, 0, kAnswerTokensMax)));
  return Within("thinking_max_tokens",
                CheckRange("thinking_max_tokens", answer.thinking_max_tokens, 0, kAnswerTokensMax));
}

absl::Status ValidateAnswer(const SuiteSpec& suite, const TaskKind& kind, TaskSpec& task) {
  if (kind.scores_continuations(task.parameters)) {
    if (!task.answer.is_given()) return absl::OkStatus();
    return InvalidArgument("answer is given, and this task scores choices, it writes none");
  }
  if (task.answer.max_new_tokens == 0) task.answer.max_new_tokens = suite.answer.max_new_tokens;
  if (task.answer.thinking_max_tokens == 0) task.answer.thinking_max_tokens = suite.answer.thinking_max_tokens;
  return CheckAnswer(task.answer);
}

absl::Status CheckForm(const std::string& form) {
  if (form.empty() || form == kChatForm || form == kCompletionForm) return absl::OkStatus();
  return InvalidArgument("form is \"", form, "\"; it must be ", kCompletionForm, " or ", kChatForm,
                         DidYouMean(form, {kCompletionForm, kChatForm}));
}

// Before the parameters have their defaults: in chat form rows have no stop strings, and answers kChatAnswerTokens, unless
// stated.
absl::Status ValidateForm(const SuiteSpec& suite, TaskSpec& task) {
  if (task.form.empty()) task.form = suite.form;
  RETURN_IF_ERROR(CheckForm(task.form));
  if (!task.is_chat_form()) {
    if (suite.form.empty()) task.form.clear();
    return absl::OkStatus();
  }
  task.chat = true;
  if (task.kind == "jsonl") task.parameters.emplace("stop", "[]");
  if (task.answer.max_new_tokens == 0 && suite.answer.max_new_tokens == 0 &&
      task.parameters.count("max_new_tokens") == 0) {
    task.answer.max_new_tokens = kChatAnswerTokens;
  }
  return absl::OkStatus();
}

absl::Status CheckHasChatForm(const TaskKind& kind, const TaskSpec& task) {
  if (!task.is_chat_form()) return absl::OkStatus();
  const auto gold = std::find_if(task.metrics.begin(), task.metrics.end(), IsGoldMetric);
  if (kind.native && gold != task.metrics.end()) {
    return InvalidArgument("form is chat, and the metric \"", *gold,
                           "\" is of the gold answer right after the prompt, where a reply in "
                           "chat form does not have it");
  }
  if (kind.scores_continuations(task.parameters)) {
    return InvalidArgument("form is chat, and this task scores choices, it writes no answers");
  }
  if (kind.has_chat_form) return absl::OkStatus();
  return InvalidArgument("form is chat, and the prompts of ", kind.name, " are its own; `chat: true` wraps them");
}

absl::Status ValidateFilters(const TaskKind& kind, TaskSpec& task) {
  if (kind.scores_continuations(task.parameters)) {
    if (task.filters.empty()) return absl::OkStatus();
    return InvalidArgument("filters are given, and this task scores choices, it writes no answers");
  }
  if (task.filters.size() > kFilterCountMax) {
    return InvalidArgument("filters has ", task.filters.size(), " entries; the limit is ", kFilterCountMax);
  }
  if (task.filters.empty() && task.is_chat_form() && kind.native) task.filters = {AnswerLineFilter()};
  for (size_t i = 0; i < task.filters.size(); ++i) {
    absl::StatusOr<FilterSpec> filter = ValidateFilter(std::move(task.filters[i]));
    if (!filter.ok()) return Within(absl::StrCat("[", i, "]"), filter.status());
    task.filters[i] = *std::move(filter);
  }
  return absl::OkStatus();
}

absl::Status ValidateThinking(const SuiteSpec& suite) {
  const ThinkingSpec& thinking = suite.thinking;
  if (thinking.begin.empty() != thinking.end.empty()) {
    return InvalidArgument("thinking has a marker of its ", thinking.end.empty() ? "begin" : "end",
                           " alone; it needs both, or none for the model's own");
  }
  if (!thinking.begin.empty()) RETURN_IF_ERROR(CheckThinkingMarkers({thinking.begin, thinking.end}));
  if (thinking.answer_prefix.size() > kDescriptionBytesMax) {
    return InvalidArgument("answer_prefix has ", thinking.answer_prefix.size(), " bytes, the limit is ",
                           kDescriptionBytesMax);
  }
  if (!thinking.force && !thinking.answer_prefix.empty()) {
    return InvalidArgument("answer_prefix is given, and only force: true writes it");
  }
  const bool any_bound = std::any_of(suite.tasks.begin(), suite.tasks.end(),
                                     [](const TaskSpec& task) { return task.answer.thinking_max_tokens > 0; });
  if (!thinking.force || any_bound) return absl::OkStatus();
  return InvalidArgument("thinking is to be forced to an end, and no task has answer.thinking_max_tokens");
}

// Of a task whose kind and name are known.
absl::Status ValidateSettings(const SuiteSpec& suite, const TaskKind& kind, TaskSpec& task) {
  RETURN_IF_ERROR(Within("form", CheckHasChatForm(kind, task)));
  RETURN_IF_ERROR(Within("filters", ValidateFilters(kind, task)));
  RETURN_IF_ERROR(Within("metrics", ValidateMetrics(kind, task)));
  if (task.samples == 0 && task.samples_at.empty() && kind.native) task.samples_at = suite.samples_at;
  if (task.samples == 0 && kind.native) task.samples = suite.samples;
  RETURN_IF_ERROR(CheckSamplesAt(suite, task.samples_at));
  RETURN_IF_ERROR(Within("answer", ValidateAnswer(suite, kind, task)));
  return Within("samples", CheckRange("samples", task.samples, kind.native ? 1 : 0, kSampleCountMax));
}

absl::Status ValidateTask(const SuiteSpec& suite, TaskSpec& task, std::set<std::string>* names) {
  if (task.kind.empty()) task.kind = task.name;
  if (task.name.empty()) task.name = task.kind;
  const TaskKind* kind = FindTaskKind(task.kind);
  if (kind == nullptr) {
    return Within("kind",
                  InvalidArgument("unknown task \"", task.kind, "\"", DidYouMean(task.kind, NamesOf(TaskKinds()))));
  }
  RETURN_IF_ERROR(Within("name", CheckName("task", task.name)));
  RETURN_IF_ERROR(Within("form", ValidateForm(suite, task)));
  absl::StatusOr<Parameters> parameters = ValidateParameters(task.name, kind->parameters, task.parameters);
  if (!parameters.ok()) return Within("parameters", parameters.status());
  task.parameters = *std::move(parameters);
  if (kind->check != nullptr) {
    RETURN_IF_ERROR(Within("parameters", Annotate(kind->check(task), absl::StrCat("task \"", task.name, "\""))));
  }
  RETURN_IF_ERROR(Annotate(ValidateSettings(suite, *kind, task), absl::StrCat("task \"", task.name, "\"")));
  if (names->insert(task.name).second) return absl::OkStatus();
  return Within("name", InvalidArgument("two tasks are named \"", task.name, "\"; give one another name"));
}

}  // namespace

std::string Variant::Name() const { return absl::StrCat(model, OverridesText(overrides)); }

absl::StatusOr<Shard> ParseShard(absl::string_view text) {
  Shard shard;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, '/');
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &shard.index) || !absl::SimpleAtoi(parts[1], &shard.count)) {
    return InvalidArgument("the shard is \"", text, "\"; it must be I/N, such as 2/8");
  }
  RETURN_IF_ERROR(CheckShard(shard));
  return shard;
}

absl::Status CheckName(absl::string_view what, absl::string_view name) {
  if (IsName(name)) return absl::OkStatus();
  return InvalidArgument("the ", what, " name \"", name, "\" must be a letter and at most ", kNameSizeMax - 1,
                         " more letters, digits, \"_\", \"-\" or \".\"");
}

absl::StatusOr<Variant> ParseVariant(absl::string_view text) {
  Variant variant;
  const size_t at = text.find('@');
  variant.model = std::string(text.substr(0, at));
  RETURN_IF_ERROR(CheckName("model", variant.model));
  if (at == absl::string_view::npos) return variant;
  ASSIGN_OR_RETURN(variant.overrides,
                   Annotate(ParseOverrides(text.substr(at + 1)), absl::StrCat("the variant \"", text, "\"")));
  return variant;
}

absl::StatusOr<std::vector<Variant>> ParseVariantList(absl::string_view text) {
  std::vector<std::string> pieces;
  for (absl::string_view piece : absl::StrSplit(text, ',')) {
    const bool is_name = !piece.empty() && absl::ascii_isalpha(piece[0]) && piece != "inf" && piece != "nan";
    if (is_name || pieces.empty() || !absl::StrContains(pieces.back(), '@')) {
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

std::vector<Variant> WithTemperatures(const std::vector<Variant>& variants, const std::vector<double>& temperatures,
                                      const std::vector<std::string>& names) {
  std::vector<Variant> all;
  auto add = [&](const Variant& variant) {
    if (std::find(all.begin(), all.end(), variant) == all.end()) all.push_back(variant);
  };
  for (const Variant& variant : variants) {
    add(variant);
    if (std::any_of(variant.overrides.begin(), variant.overrides.end(), [](const auto& override) {
          const OverrideInfo* info = FindOverride(override.first);
          return info != nullptr && info->may_be_list;  // of all layers
        })) {
      continue;
    }
    for (const std::string& name : names) {
      for (double temperature : temperatures) {
        Variant at_temperature = variant;
        at_temperature.overrides[name] = {temperature};
        add(at_temperature);
      }
    }
  }
  return all;
}

absl::StatusOr<SuiteSpec> ValidateSuiteSpec(SuiteSpec suite) {
  RETURN_IF_ERROR(Within("name", CheckName("suite", suite.name)));
  if (suite.description.size() > kDescriptionBytesMax) {
    return Within("description", InvalidArgument("the description of the suite has ", suite.description.size(),
                                                 " bytes, the limit is ", kDescriptionBytesMax));
  }
  RETURN_IF_ERROR(Within("samples", CheckRange("samples", suite.samples, 1, kSampleCountMax)));
  RETURN_IF_ERROR(Within("seeds", CheckRange("seeds", suite.seeds, 0, kSeedCountMax)));
  if (suite.seeds == 1) suite.seeds = 0;
  RETURN_IF_ERROR(Within("epochs", CheckRange("epochs", suite.epochs, 0, kEpochCountMax)));
  if (suite.epochs == 1) suite.epochs = 0;
  RETURN_IF_ERROR(Within("seed", CheckRange("seed", suite.seed, INT64_MIN, INT64_MAX - kSeedCountMax)));
  RETURN_IF_ERROR(Within("lengths", CheckLengths(suite.lengths)));
  std::sort(suite.lengths.begin(), suite.lengths.end());
  RETURN_IF_ERROR(CheckSamplesAt(suite, suite.samples_at));
  RETURN_IF_ERROR(Within("answer", CheckAnswer(suite.answer)));
  RETURN_IF_ERROR(Within("form", CheckForm(suite.form)));
  if (suite.form == kCompletionForm) suite.form.clear();
  if (suite.tasks.empty() || suite.tasks.size() > kTaskCountMax) {
    return Within(
        "tasks", InvalidArgument("tasks has ", suite.tasks.size(), " entries; it must have from 1 to ", kTaskCountMax));
  }
  std::set<std::string> names;
  for (size_t i = 0; i < suite.tasks.size(); ++i) {
    RETURN_IF_ERROR(Within(absl::StrCat("tasks[", i, "]"), ValidateTask(suite, suite.tasks[i], &names)));
  }
  RETURN_IF_ERROR(Within("thinking", ValidateThinking(suite)));
  return suite;
}

absl::StatusOr<JobSpec> ValidateJobSpec(JobSpec spec) {
  absl::StatusOr<SuiteSpec> suite = ValidateSuiteSpec(std::move(spec.suite));
  if (!suite.ok()) return Within("suite", suite.status());
  spec.suite = *std::move(suite);
  if (spec.variants.empty() || spec.variants.size() > kVariantCountMax) {
    return InvalidArgument("variants has ", spec.variants.size(), " entries; it must have from 1 to ",
                           kVariantCountMax);
  }
  std::set<std::string> names;
  for (const Variant& variant : spec.variants) {
    RETURN_IF_ERROR(CheckName("model", variant.model));
    RETURN_IF_ERROR(Annotate(CheckOverrides(variant.overrides), absl::StrCat("the variant \"", variant.model, "\"")));
    if (!names.insert(variant.Name()).second) {
      return InvalidArgument("the variant \"", variant.Name(), "\" is given twice");
    }
  }
  RETURN_IF_ERROR(CheckRange("limit", spec.limit, 0, kSampleCountMax));
  RETURN_IF_ERROR(CheckRange("in_flight", spec.in_flight, 1, kInFlightMax));
  ASSIGN_OR_RETURN(spec.inspected_rows, ValidateInspectedRows(spec.inspected_rows));
  if (!spec.inspected_rows.empty() && !spec.inspect) {
    return InvalidArgument("inspected_rows is \"", spec.inspected_rows, "\", but inspect is not set");
  }
  if (!(spec.shard == Shard{})) RETURN_IF_ERROR(CheckShard(spec.shard));
  RETURN_IF_ERROR(CheckSampling(spec.decode.ToSampling()));
  return spec;
}

absl::Status CheckEpochs(const JobSpec& spec) {
  const int epochs = EpochCount(spec.suite);
  if (epochs == 1) return absl::OkStatus();
  if (spec.decode.sampling_temperature.value_or(0) == 0) {
    return WithField(
        InvalidArgument("epochs is ", epochs, " and the sampling temperature is 0, so that all ", epochs,
                        " answers of a question would be the same; set one above 0 (--sampling-temperature)"),
        "suite.epochs");
  }
  for (const TaskSpec& task : spec.suite.tasks) {
    if (!FindTaskKind(task.kind)->scores_continuations(task.parameters)) continue;
    return WithField(
        InvalidArgument(
            "epochs is ", epochs, " and task \"", task.name,
            "\" scores choices, which are the same in every epoch; select the other tasks (--tasks), or ask it as a job "
            "of its own"),
        "suite.epochs");
  }
  return absl::OkStatus();
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
      return InvalidArgument("the suite \"", suite.name, "\" has no task \"", name, "\"", DidYouMean(name, names));
    }
    kept.push_back(suite.tasks[found - names.begin()]);
  }
  suite.tasks = std::move(kept);
  return suite;
}

}  // namespace varifocal
