#include "server/jobs/resolved_job.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/answer.h"
#include "eval_tasks/token_counter.h"
#include "server/jobs/job_records.h"

namespace varifocal {
namespace {

absl::Status CheckVariant(const Variant& variant, const HostedModel& model) {
  if (model.tokenizer == nullptr) {
    return WithReason(
        FailedPrecondition("model \"", model.name, "\" has no tokenizer: its directory holds no tokenizer.json",
                           Tokenizer::OtherFormatHint(CheckpointOf(model.directory).directory)),
        ErrorReason::kModelWithoutTokenizer, {{"model", model.name}});
  }
  RETURN_IF_ERROR(
      Annotate(ChatFormatOf(model, variant.overrides).status(), absl::StrCat("variant \"", variant.Name(), "\"")));
  const bool any_attention = std::any_of(variant.overrides.begin(), variant.overrides.end(),
                                         [](const auto& given) { return given.first != kThinking; });
  if (any_attention) {
    const std::string why_not = model.engine->Describe().why_no_attention_settings;
    if (!why_not.empty()) {
      return WithReason(InvalidArgument("variant \"", variant.Name(), "\": ", why_not),
                        ErrorReason::kBadAttentionOverride, {{"variant", variant.Name()}, {"field", "spec.variants"}});
    }
  }
  const absl::Status status = ToAttentionOverrides(model.config, variant.overrides).status();
  if (status.ok()) return status;
  const ErrorReason reason = HasReason(status, ErrorReason::kBadFocalTemperature) ? ErrorReason::kBadFocalTemperature
                                                                                  : ErrorReason::kBadAttentionOverride;
  return WithReason(Annotate(status, absl::StrCat("variant \"", variant.Name(), "\"")), reason,
                    {{"variant", variant.Name()}, {"field", "spec.variants"}});
}

// What the job asks for and the model's engine cannot do, at the first task that needs it.
absl::Status CheckAbilities(const JobSpec& spec, const HostedModel& model) {
  const EngineDescription engine = model.engine->Describe();
  if (spec.inspect && !engine.why_no_inspection.empty()) {
    return WithReason(FailedPrecondition("model \"", model.name, "\": ", engine.why_no_inspection),
                      ErrorReason::kEndpointWithoutAttention, {{"model", model.name}});
  }
  const Sampling sampling = spec.decode.ToSampling();
  for (const auto& [is_asked, why_not, field] : {std::tuple(sampling.top_k > 0, engine.why_no_top_k, "top_k"),
                                                 std::tuple(sampling.min_p > 0, engine.why_no_min_p, "min_p")}) {
    if (!is_asked || sampling.temperature == 0 || why_not.empty()) continue;
    return WithReason(FailedPrecondition("the job sets ", field, ": ", why_not), ErrorReason::kEndpointWithoutSampling,
                      {{"model", model.name}, {"field", absl::StrCat("spec.", field)}});
  }
  for (const TaskSpec& task : spec.suite.tasks) {
    if (task.chat || engine.why_no_plain_prompts.empty()) continue;
    return WithReason(FailedPrecondition("task \"", task.name, "\" needs `chat: true`: ", engine.why_no_plain_prompts),
                      ErrorReason::kBadChat, {{"model", model.name}, {"task", task.name}});
  }
  const auto thinks = std::find_if(spec.suite.tasks.begin(), spec.suite.tasks.end(),
                                   [](const TaskSpec& task) { return task.answer.thinking_max_tokens > 0; });
  if (spec.suite.thinking.force && thinks != spec.suite.tasks.end() && !engine.why_no_forced_end.empty()) {
    return WithReason(FailedPrecondition("task \"", thinks->name,
                                         "\" forces the ends of thinking blocks (`force: true`), and model \"",
                                         model.name, "\" cannot: ", engine.why_no_forced_end),
                      ErrorReason::kBadThinking,
                      {{"model", model.name}, {"task", thinks->name}, {"field", "spec.suite.thinking.force"}});
  }
  if (engine.why_no_scores.empty()) return absl::OkStatus();
  for (const TaskSpec& task : spec.suite.tasks) {
    const bool scores_gold = std::any_of(task.metrics.begin(), task.metrics.end(), IsGoldMetric);
    if (!scores_gold && !FindTaskKind(task.kind)->scores_continuations(task.parameters)) continue;
    return WithReason(FailedPrecondition("task \"", task.name, "\" needs log-likelihoods: ", engine.why_no_scores),
                      ErrorReason::kEndpointWithoutLogprobs, {{"model", model.name}, {"task", task.name}});
  }
  return absl::OkStatus();
}

// Rows' messages need texts of the format for each role.
absl::Status CheckTakesTurns(const Task::TurnRoles& roles, const HostedModel& model) {
  const ChatFormat& format = *model.chat_format;
  const auto refused = [&](absl::string_view why) {
    return WithReason(FailedPrecondition("model \"", model.name, "\": ", why), ErrorReason::kBadChat,
                      {{"model", model.name}});
  };
  if (roles.system && !format.with_system.has_value())
    return refused("rows have a system message, which its chat_format.json has no texts for");
  if (roles.assistant && !format.turns.has_value()) {
    return refused(
        "rows have messages of the assistant, and its chat_format.json has no \"turns\"; "
        "`recipes/chat_format.py DIRECTORY` writes them where the chat template has them");
  }
  return absl::OkStatus();
}

// Chat tasks need a format of every model, and the same format for all that share a tokenizer, because such variants
// share their samples. The format is written into the spec; a resumed job must find the same format.
absl::Status PinChatFormats(const std::vector<std::shared_ptr<HostedModel>>& models, const Grid& grid, JobSpec& spec) {
  const bool any_chat =
      std::any_of(spec.suite.tasks.begin(), spec.suite.tasks.end(), [](const TaskSpec& task) { return task.chat; });
  for (const Variant& variant : spec.variants) {
    if (any_chat || !ThinkingOf(variant.overrides).has_value()) continue;
    return WithReason(
        InvalidArgument("variant \"", variant.Name(),
                        "\" sets the switch of its chat template, and no task of this suite asks in it, so no "
                        "prompt would change; --form=chat asks the suite's tasks in it"),
        ErrorReason::kBadThinking, {{"model", variant.Name()}, {"field", "spec.suite.form"}});
  }
  const bool any_system = std::any_of(grid.tasks.begin(), grid.tasks.end(), [](const std::unique_ptr<Task>& task) {
    return task->system_message().has_value();
  });
  Task::TurnRoles roles;
  for (const std::unique_ptr<Task>& task : grid.tasks) {
    roles.system |= task->turn_roles().system;
    roles.assistant |= task->turn_roles().assistant;
  }
  std::map<std::string, std::string> templates;
  std::map<std::string, const HostedModel*> by_tokenizer;
  for (const std::shared_ptr<HostedModel>& model : models) {
    if (!any_chat) break;
    RETURN_IF_ERROR(CheckHasChatFormat(*model));
    RETURN_IF_ERROR(CheckTakesTurns(roles, *model));
    templates[model->name] = model->chat_format->Identity();
    const HostedModel& first = *by_tokenizer.try_emplace(model->provenance.tokenizer_sha256, model.get()).first->second;
    if (!(first.chat_format->without_system == model->chat_format->without_system) ||
        (roles.assistant && !(first.chat_format->turns == model->chat_format->turns)) ||
        ((any_system || roles.system) && !(first.chat_format->with_system == model->chat_format->with_system))) {
      return WithReason(
          InvalidArgument("models \"", first.name, "\" and \"", model->name,
                          "\" share a tokenizer but not a chat_format.json; submit them in separate jobs"),
          ErrorReason::kChatFormatsDiffer, {{"field", "spec.variants"}});
    }
  }
  if (!spec.chat_templates.empty() && spec.chat_templates != templates) {
    return WithReason(
        FailedPrecondition("the chat_format.json of a model is not the one that this job's prompts were made with"),
        ErrorReason::kChatFormatChanged);
  }
  spec.chat_templates = std::move(templates);
  return absl::OkStatus();
}

absl::Status CheckLengthFits(int length, const Variant& variant, const HostedModel& model) {
  ASSIGN_OR_RETURN(const AttentionOverrides overrides, ToAttentionOverrides(model.config, variant.overrides));
  ASSIGN_OR_RETURN(const int64_t limit, PositionLimit(model.config, overrides));
  if (length > limit) {
    return WithReason(InvalidArgument("context length ", length, " exceeds the limit of model \"", variant.Name(),
                                      "\", ", limit, " tokens"),
                      ErrorReason::kContextTooLong,
                      {{"model", model.name}, {"limit", absl::StrCat(limit)}, {"field", "spec.suite.lengths"}});
  }
  const EngineDescription engine = model.engine->Describe();
  const int64_t room = length > model.config.max_position ? engine.cache_tokens_max : engine.context_tokens_max;
  if (length > room) {
    return WithReason(
        ResourceExhausted("context length ", length, " is more than the keys and values of model \"", model.name,
                          "\" have room for: the limit is ", room, " tokens in ", engine.kv_cache_bytes, " bytes"),
        ErrorReason::kKvCacheTooSmall, {{"model", model.name}, {"limit", absl::StrCat(room)}});
  }
  return absl::OkStatus();
}

// Prompt, thinking and answer together, of tasks whose answers' tokens are beside the context length.
absl::Status CheckBudgetFits(const JobSpec& spec, const TaskSpec& task_spec, const Sample& sample,
                             const Variant& variant, const HostedModel& model) {
  ASSIGN_OR_RETURN(const AttentionOverrides overrides, ToAttentionOverrides(model.config, variant.overrides));
  ASSIGN_OR_RETURN(const int64_t limit, PositionLimit(model.config, overrides));
  const int length = spec.suite.lengths.back();
  const int64_t needed = int64_t{length} + sample.later_tokens_max();
  const EngineDescription engine = model.engine->Describe();
  const int64_t room = needed > model.config.max_position ? engine.cache_tokens_max : engine.context_tokens_max;
  if (needed <= limit && needed <= room) return absl::OkStatus();
  const std::string sum =
      absl::StrCat("a prompt of ", length, " tokens and an answer of ", sample.later_tokens_max(), " (",
                   sample.thinking_max_tokens, " of them for thinking) need ", needed, " tokens");
  const std::string place = absl::StrCat("task \"", task_spec.name, "\": ", sum, "; ");
  if (needed > limit) {
    return WithReason(InvalidArgument(place, "the limit of model \"", variant.Name(), "\" is ", limit),
                      ErrorReason::kContextTooLong,
                      {{"model", model.name}, {"limit", absl::StrCat(limit)}, {"field", "spec.suite.answer"}});
  }
  return WithReason(ResourceExhausted(place, "the keys and values of model \"", model.name, "\" have room for ", room,
                                      " in ", engine.kv_cache_bytes, " bytes"),
                    ErrorReason::kKvCacheTooSmall, {{"model", model.name}, {"limit", absl::StrCat(room)}});
}

// The answers' tokens, and the markers of thinking, which are written into the spec; a resumed job must find the same.
absl::Status PinThinking(const std::vector<std::shared_ptr<HostedModel>>& models, const Grid& grid, JobSpec& spec) {
  std::map<std::string, std::string> markers_of, of_tokenizer;
  for (size_t t = 0; t < grid.tasks.size(); ++t) {
    const TaskSpec& task = spec.suite.tasks[t];
    if (!task.answer.is_given() && !Thinks(spec.suite, task)) continue;
    for (size_t v = 0; v < models.size(); ++v) {
      const HostedModel& model = *models[v];
      Sample sample = grid.tasks[t]->Identify({spec.suite.seed, spec.suite.lengths.back(), /*index=*/0});
      if (!sample.continuations.empty()) continue;
      const auto counter =
          MakeVariantCounter(model.tokenizer, model.chat_format, task.chat, ThinkingOf(spec.variants[v].overrides));
      const absl::Status added = AddThinking(spec.suite, task, *counter, sample);
      if (!added.ok()) {
        return WithReason(Annotate(added, absl::StrCat("model \"", model.name, "\"")), ErrorReason::kBadThinking,
                          {{"model", model.name}, {"task", task.name}});
      }
      if (sample.thinking.has_value()) {
        const ThinkingMarkers& markers = sample.thinking->rule.markers;
        const absl::Status can_write =
            CheckCanWrite(*model.tokenizer, markers, absl::StrCat("model \"", model.name, "\""));
        if (!can_write.ok()) {
          return WithReason(can_write, ErrorReason::kBadThinking,
                            {{"model", model.name}, {"field", "spec.suite.thinking"}});
        }
        ASSIGN_OR_RETURN(const std::string pair, DumpJson(Json({markers.begin, markers.end})));
        markers_of[spec.variants[v].Name()] = pair;
        // Samples, with their markers, are shared by what has one tokenizer.
        if (of_tokenizer.try_emplace(counter->sha256(), pair).first->second != pair) {
          return WithReason(
              InvalidArgument("variant \"", spec.variants[v].Name(),
                              "\" shares a tokenizer with another variant and marks its thinking otherwise; "
                              "state thinking: {begin, end}, or submit them as separate jobs"),
              ErrorReason::kChatFormatsDiffer, {{"field", "spec.variants"}});
        }
      }
      // Otherwise the answer is inside the context length, which fits.
      if (task.answer.is_given()) RETURN_IF_ERROR(CheckBudgetFits(spec, task, sample, spec.variants[v], model));
    }
  }
  if (!spec.thinking_markers.empty() && spec.thinking_markers != markers_of) {
    return WithReason(
        FailedPrecondition(
            "a model marks its thinking otherwise than when this job began: its chat_format.json has changed"),
        ErrorReason::kChatFormatChanged);
  }
  spec.thinking_markers = std::move(markers_of);
  return absl::OkStatus();
}

// With the path of the field in the request.
absl::Status BadJobSpec(const absl::Status& status) {
  const std::string field = FieldOf(status);
  const absl::Status bad = WithReason(status, ErrorReason::kBadJobSpec);
  return field.empty() ? bad : WithField(bad, absl::StrCat("spec.", field));
}

}  // namespace

absl::StatusOr<ResolvedJob> ResolveJob(JobSpec spec, const ModelHost& host, int in_flight) {
  if (spec.in_flight == 0) spec.in_flight = in_flight;
  const bool is_scaled = spec.in_flight == 0;
  if (is_scaled) spec.in_flight = kInFlightOfCopy;
  ResolvedJob job;
  absl::StatusOr<JobSpec> valid = ValidateJobSpec(std::move(spec));
  if (!valid.ok()) return BadJobSpec(valid.status());
  job.spec = *std::move(valid);
  if (const absl::Status epochs = CheckEpochs(job.spec); !epochs.ok()) return BadJobSpec(epochs);
  for (const Variant& variant : job.spec.variants) {
    ASSIGN_OR_RETURN(std::shared_ptr<HostedModel> model, host.Find(variant.model));
    RETURN_IF_ERROR(FaultOf(*model));
    RETURN_IF_ERROR(CheckVariant(variant, *model));
    RETURN_IF_ERROR(CheckAbilities(job.spec, *model));
    for (int length : job.spec.suite.lengths) RETURN_IF_ERROR(CheckLengthFits(length, variant, *model));
    if (is_scaled) {
      const int64_t wanted = int64_t{kInFlightOfCopy} * model->engine->ServingCopyCount();
      job.spec.in_flight = std::max<int>(job.spec.in_flight, std::min<int64_t>(wanted, kInFlightMax));
    }
    job.variants.push_back(ToVariantRecord(variant, *model));
    job.models.push_back(std::move(model));
  }
  absl::StatusOr<Grid> grid = MakeGrid(job.spec);
  if (HasReason(grid.status(), ErrorReason::kPathOutsideRoots)) return grid.status();
  if (!grid.ok()) return WithReason(grid.status(), ErrorReason::kBadJobSpec);
  job.grid = *std::move(grid);
  RETURN_IF_ERROR(PinChatFormats(job.models, job.grid, job.spec));
  RETURN_IF_ERROR(PinThinking(job.models, job.grid, job.spec));
  PinData(job.grid, job.spec);  // the stored spec contains the data hashes
  return job;
}

absl::Status CheckLengthsArePossible(const ResolvedJob& job, const std::function<bool()>& is_abandoned) {
  std::set<std::string> seen;  // variants share tokenizers
  absl::Status first;
  std::vector<std::string> tasks;  // those of which a length is impossible, each once
  for (size_t v = 0; v < job.models.size(); ++v) {
    const std::shared_ptr<HostedModel>& model = job.models[v];
    if (!seen.insert(job.variants[v].model.tokenizer_sha256).second) continue;
    for (size_t i = 0; i < job.grid.tasks.size(); ++i) {
      const std::unique_ptr<Task>& task = job.grid.tasks[i];
      if (!task->data_sha256().empty()) continue;
      const auto tokenizer = MakeVariantCounter(model->tokenizer, model->chat_format, job.spec.suite.tasks[i].chat,
                                                ThinkingOf(job.spec.variants[v].overrides));
      const auto impossible = [&](int length) -> absl::Status {
        for (const absl::StatusOr<Sample>& made :
             task->MakeGroup({job.spec.suite.seed, length, /*index=*/0}, *tokenizer)) {
          if (absl::IsInvalidArgument(made.status())) return made.status();
        }
        return absl::OkStatus();
      };
      for (const int length : job.spec.suite.lengths) {
        if (is_abandoned && is_abandoned()) return absl::CancelledError("the call was abandoned");
        const absl::Status status = impossible(length);
        if (status.ok()) continue;
        first.Update(status);
        if (!absl::c_linear_search(tasks, task->name())) tasks.push_back(task->name());
        break;
      }
    }
  }
  if (first.ok()) return first;
  std::string message(first.message());
  if (tasks.size() > 1) {
    absl::StrAppend(&message, "; the lengths do not fit ", absl::StrJoin(absl::MakeSpan(tasks).subspan(1), ", "),
                    " either");
  }
  return WithReason(absl::InvalidArgumentError(message), ErrorReason::kImpossibleLength,
                    {{"task", tasks.front()}, {"field", "spec.suite.lengths"}});
}

}  // namespace varifocal
