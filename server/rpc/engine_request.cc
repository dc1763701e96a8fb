#include "server/rpc/engine_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/reason.h"
#include "base/status_macros.h"
#include "eval_tasks/attention_inspection.h"
#include "server/engine/request_check.h"
#include "server/hosting/continuations.h"
#include "server/rpc/limits.h"
#include "wire/overrides.h"

namespace varifocal {
namespace {

absl::Status Bad(const std::string& message, ErrorReason reason, const std::string& field) {
  return WithReason(absl::InvalidArgumentError(message), reason, {{"field", field}});
}

absl::StatusOr<std::vector<int32_t>> CheckedIds(const v1::TokenIds& ids, const HostedModel& model,
                                                const std::string& field) {
  RETURN_IF_ERROR(CheckIds(ids.ids(), field, model.config.vocabulary_size, model.tokenizer.get()));
  return std::vector<int32_t>(ids.ids().begin(), ids.ids().end());
}

// The status with its field as a path in GenerateRequest.
absl::Status AtDecodeSettings(const absl::Status& status) {
  if (status.ok()) return status;
  const std::string field = ReasonOf(status).metadata.at("field");
  if (field == "max_new_tokens") return status;
  return WithField(status, absl::StrCat("decode_settings.", field));
}

// The text to encode: the prompt, wrapped in the model's chat format if requested.
template <typename Request>
absl::StatusOr<ChatText> PromptText(const Request& request, const HostedModel& model) {
  RETURN_IF_ERROR(CheckHasTokenizer(model));
  if (!request.has_chat()) return ChatText{.text = request.prompt_text(), .plain_parts = {}};
  RETURN_IF_ERROR(CheckHasChatFormat(model));
  std::optional<std::string> system;
  if (request.chat().has_system()) system = request.chat().system();
  ASSIGN_OR_RETURN(const OverrideMap overrides, OverridesOf(request));
  ASSIGN_OR_RETURN(const std::shared_ptr<const ChatFormat> format, ChatFormatOf(model, overrides));
  absl::StatusOr<ChatText> wrapped = format->Wrap(request.prompt_text(), system);
  if (!wrapped.ok()) {
    return WithReason(wrapped.status(), ErrorReason::kNoSystemMessage,
                      {{"model", model.name}, {"field", "chat.system"}});
  }
  return wrapped;
}

template <typename Request>
absl::Status SetPrompt(const Request& request, const HostedModel& model, EngineRequest* to) {
  if (request.has_prompt_token_ids()) {
    if (request.has_chat())
      return Bad("chat is set, but the prompt is token ids; it must be text", ErrorReason::kBadChat, "chat");
    ASSIGN_OR_RETURN(to->token_ids, CheckedIds(request.prompt_token_ids(), model, "prompt_token_ids"));
  } else if (request.has_prompt_text()) {
    ASSIGN_OR_RETURN(const ChatText prompt, PromptText(request, model));
    ASSIGN_OR_RETURN(to->token_ids,
                     model.tokenizer->Encode(prompt.text, {.add_special_tokens = !request.has_chat(),
                                                           .special_tokens_as_text = !request.has_chat(),
                                                           .plain_parts = prompt.plain_parts,
                                                           .invalid_utf8_count = &to->invalid_utf8_count}));
  }
  return CheckNotEmpty(to->token_ids);
}

absl::Status CheckContinuations(const v1::ComputeLogLikelihoodsRequest& request) {
  RETURN_IF_ERROR(CheckContinuationCount(request.continuations_size()));
  for (int i = 0; i < request.continuations_size(); ++i) {
    const v1::Continuation& continuation = request.continuations(i);
    const bool is_empty = continuation.text().empty() && continuation.token_ids().ids().empty();
    if (is_empty || continuation.has_token_ids() != request.has_prompt_token_ids()) {
      return Bad(
          absl::StrCat("continuation ", i, is_empty ? " is empty" : " is not of the prompt's kind (text or token ids)"),
          ErrorReason::kBadContinuation, absl::StrCat("continuations[", i, "]"));
    }
  }
  return absl::OkStatus();
}

static_assert(kInspectedHeadsMax == kInspectedMassesMax / (kStripBins + 1),
              "segments of the bins and of the first token");

// After the prompt, which bounds it.
template <typename Request>
absl::Status SetInspection(const Request& request, const HostedModel& model, EngineRequest* to) {
  if (!request.has_attention_inspection()) return absl::OkStatus();
  const auto bad = [](const std::string& field, const std::string& problem) {
    return Bad(absl::StrCat("attention_inspection.", field, " ", problem), ErrorReason::kBadInspection,
               absl::StrCat("attention_inspection.", field));
  };
  const int64_t length = std::ssize(to->token_ids);
  const auto& boundaries = request.attention_inspection().boundaries();
  if (boundaries.size() < 2)
    return bad("boundaries", absl::StrCat("has ", boundaries.size(), " positions; it must have at least 2"));
  for (int i = 0; i < boundaries.size(); ++i) {
    const int32_t least = i == 0 ? 0 : boundaries[i - 1] + 1;
    if (boundaries[i] >= least && boundaries[i] <= length) continue;
    return bad(absl::StrCat("boundaries[", i, "]"),
               absl::StrCat("is ", boundaries[i], "; positions must rise, from 0 to at most ", length,
                            ", the number of the prompt's tokens"));
  }
  const int64_t rows = request.attention_inspection().has_row_count() ? request.attention_inspection().row_count() : 1;
  if (rows < 1 || rows > std::min(length, kInspectedRowsMax))
    return bad("row_count", absl::StrCat("is ", rows, "; it must be from 1 to ", std::min(length, kInspectedRowsMax)));
  const int64_t heads = model.config.layer_count * model.config.head_count;
  const int64_t masses = heads * (boundaries.size() - 1);
  if (masses > kInspectedMassesMax) {
    return bad("boundaries", absl::StrCat("has ", boundaries.size() - 1, " segments for each of ", heads, " heads, ",
                                          masses, " shares; the limit is ", kInspectedMassesMax));
  }
  to->inspected_boundaries.assign(boundaries.begin(), boundaries.end());
  to->inspected_row_count = rows;
  return absl::OkStatus();
}

ThinkingWork ToThinkingWork(const v1::ThinkingSettings& proto) {
  return {.rule = {.markers = {proto.begin(), proto.end()},
                   .is_opened = proto.is_opened(),
                   .forced_answer = proto.forced_answer()},
          .tokens_max = proto.tokens_max(),
          .answer_tokens_max = proto.answer_tokens_max(),
          .forced_ids = {proto.forced_ids().begin(), proto.forced_ids().end()}};
}

// Sets what overrides change of a request: attention, and the switch of the chat template.
template <typename Request>
absl::Status SetOverrides(const Request& request, const HostedModel& model, EngineRequest* engine_request) {
  ASSIGN_OR_RETURN(const OverrideMap given, OverridesOf(request));
  if (ThinkingOf(given).has_value() && !request.has_chat()) {
    return Bad("the switch for thinking is set, and the prompt is not wrapped in a chat format: chat is not set",
               ErrorReason::kBadAttentionOverride, "overrides");
  }
  engine_request->thinking_switch = ThinkingOf(given);
  ASSIGN_OR_RETURN(engine_request->attention_overrides, ToAttentionOverrides(model.config, given));
  return absl::OkStatus();
}

// What a prompt's token ids are to a server that wraps messages itself.
absl::Status SetTurns(const v1::GenerateRequest& request, EngineRequest* to) {
  const char* given = !request.turns().empty() ? "turns" : request.has_thinking_switch() ? "thinking_switch" : nullptr;
  if (given == nullptr) return absl::OkStatus();
  if (!request.has_prompt_token_ids()) {
    return Bad(absl::StrCat(given, " is set, but the prompt is text; it must be the token ids of a wrapped prompt"),
               ErrorReason::kBadChat, given);
  }
  for (const v1::ChatMessage& message : request.turns()) to->turns.push_back({message.role(), message.content()});
  if (!to->turns.empty()) {
    const absl::Status checked = CheckTurns(to->turns);
    if (!checked.ok()) return Bad(std::string(checked.message()), ErrorReason::kBadChat, "turns");
  }
  if (request.has_thinking_switch()) to->thinking_switch = request.thinking_switch();
  return absl::OkStatus();
}

absl::Status CheckLengthOf(const EngineRequest& request, int64_t new_token_count, const HostedModel& model) {
  ASSIGN_OR_RETURN(const int64_t limit, PositionLimit(model.config, request.attention_overrides));
  return CheckLength(limit, std::ssize(request.token_ids), new_token_count);
}

}  // namespace

absl::Status CheckHasTokenizer(const HostedModel& model) {
  if (model.tokenizer != nullptr) return absl::OkStatus();
  return WithReason(FailedPrecondition("model \"", model.name, "\" has no tokenizer; send token ids",
                                       Tokenizer::OtherFormatHint(CheckpointOf(model.directory).directory)),
                    ErrorReason::kModelWithoutTokenizer, {{"model", model.name}});
}

absl::StatusOr<EngineRequest> ToEngineRequest(const v1::GenerateRequest& request, const HostedModel& model) {
  const v1::DecodeSettings& settings = request.decode_settings();
  GenerateWork work;
  work.max_new_tokens = request.max_new_tokens();
  if (!request.has_max_new_tokens())
    return Bad("max_new_tokens is not set", ErrorReason::kBadMaxNewTokens, "max_new_tokens");
  work.sampling.temperature = settings.sampling_temperature();
  if (settings.has_top_p()) work.sampling.top_p = settings.top_p();
  work.sampling.top_k = settings.top_k();
  work.sampling.min_p = settings.min_p();
  work.seed = settings.seed();
  work.ignore_eos = settings.ignore_eos();
  work.stop.assign(settings.stop().begin(), settings.stop().end());
  if (settings.has_thinking()) work.thinking = ToThinkingWork(settings.thinking());
  RETURN_IF_ERROR(AtDecodeSettings(CheckGenerateWork(work)));
  if (!work.stop.empty() || work.thinking.has_value()) RETURN_IF_ERROR(CheckHasTokenizer(model));

  EngineRequest engine_request;
  RETURN_IF_ERROR(SetOverrides(request, model, &engine_request));
  RETURN_IF_ERROR(SetPrompt(request, model, &engine_request));
  RETURN_IF_ERROR(SetTurns(request, &engine_request));
  RETURN_IF_ERROR(CheckLengthOf(engine_request, work.max_new_tokens, model));
  RETURN_IF_ERROR(SetInspection(request, model, &engine_request));
  engine_request.work = std::move(work);
  return engine_request;
}

absl::StatusOr<EngineRequest> ToEngineRequest(const v1::ComputeLogLikelihoodsRequest& request,
                                              const HostedModel& model) {
  EngineRequest engine_request;
  engine_request.keep_groups = request.per_token_groups();
  RETURN_IF_ERROR(SetOverrides(request, model, &engine_request));
  RETURN_IF_ERROR(CheckContinuations(request));
  if (request.continuations().empty()) {
    RETURN_IF_ERROR(SetPrompt(request, model, &engine_request));
    RETURN_IF_ERROR(CheckLengthOf(engine_request, 0, model));
    RETURN_IF_ERROR(SetInspection(request, model, &engine_request));
    engine_request.work = ScoreTextWork{};
    return engine_request;
  }
  ScoreContinuationsWork work;
  if (request.has_prompt_token_ids()) {
    RETURN_IF_ERROR(SetPrompt(request, model, &engine_request));
    for (int i = 0; i < request.continuations_size(); ++i) {
      ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                       CheckedIds(request.continuations(i).token_ids(), model, absl::StrCat("continuations[", i, "]")));
      work.continuations.push_back(std::move(ids));
    }
  } else {
    std::vector<std::string> texts;
    for (const v1::Continuation& continuation : request.continuations()) texts.push_back(continuation.text());
    ASSIGN_OR_RETURN(const ChatText prompt, PromptText(request, model));
    ASSIGN_OR_RETURN(SplitContinuations split,
                     SplitPromptAndContinuations(*model.tokenizer, prompt, texts, request.has_chat()));
    engine_request.invalid_utf8_count = split.invalid_utf8_count;
    engine_request.token_ids = std::move(split.prompt_token_ids);
    work.continuations = std::move(split.continuations);
  }
  int64_t longest = 0;
  for (const auto& continuation : work.continuations) longest = std::max(longest, std::ssize(continuation));
  RETURN_IF_ERROR(CheckLengthOf(engine_request, longest, model));
  RETURN_IF_ERROR(SetInspection(request, model, &engine_request));
  engine_request.work = std::move(work);
  return engine_request;
}

}  // namespace varifocal
