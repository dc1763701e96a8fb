#include "server/rpc/engine_request.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/jobs/continuations.h"
#include "server/jobs/reason.h"

namespace varifocal {
namespace {

constexpr int kStopCountMax = 16;
constexpr int kContinuationCountMax = 1024;

absl::Status Bad(const std::string& message, absl::string_view reason, const std::string& field) {
  return WithReason(absl::InvalidArgumentError(message), reason, {{"field", field}});
}

absl::StatusOr<std::vector<int32_t>> CheckedIds(const v1::TokenIds& ids, const HostedModel& model,
                                                const std::string& field) {
  for (int i = 0; i < ids.ids_size(); ++i) {
    if (ids.ids(i) < 0 || ids.ids(i) >= model.config.vocabulary_size) {
      return Bad(absl::StrCat("token id ", ids.ids(i), " at position ", i, " is not in [0, ",
                              model.config.vocabulary_size, ")"),
                 "BAD_TOKEN_ID", field);
    }
  }
  return std::vector<int32_t>(ids.ids().begin(), ids.ids().end());
}

// The text to encode: the prompt, or what the model's chat format makes of it.
template <typename Request>
absl::StatusOr<std::string> PromptText(const Request& request, const HostedModel& model) {
  RETURN_IF_ERROR(CheckHasTokenizer(model));
  if (!request.has_chat()) return request.prompt_text();
  RETURN_IF_ERROR(CheckHasChatFormat(model));
  std::optional<std::string> system;
  if (request.chat().has_system()) system = request.chat().system();
  absl::StatusOr<std::string> wrapped = model.chat_format->Wrap(request.prompt_text(), system);
  if (!wrapped.ok()) {
    return WithReason(wrapped.status(), "NO_SYSTEM_MESSAGE", {{"model", model.name}, {"field", "chat.system"}});
  }
  return wrapped;
}

template <typename Request>
absl::Status SetPrompt(const Request& request, const HostedModel& model, EngineRequest* to) {
  if (request.has_prompt_token_ids()) {
    if (request.has_chat()) return Bad("chat is set, but the prompt is token ids; it must be text", "BAD_CHAT", "chat");
    ASSIGN_OR_RETURN(to->token_ids, CheckedIds(request.prompt_token_ids(), model, "prompt_token_ids"));
  } else if (request.has_prompt_text()) {
    ASSIGN_OR_RETURN(const std::string text, PromptText(request, model));
    ASSIGN_OR_RETURN(to->token_ids, model.tokenizer->Encode(text, {.add_special_tokens = !request.has_chat(),
                                                                   .invalid_utf8_count = &to->invalid_utf8_count}));
  }
  if (to->token_ids.empty()) return Bad("the prompt has no token", "EMPTY_PROMPT", "prompt");
  return absl::OkStatus();
}

absl::Status CheckContinuations(const v1::ComputeLogLikelihoodsRequest& request) {
  if (request.continuations_size() > kContinuationCountMax) {
    return Bad(absl::StrCat(request.continuations_size(), " continuations, the limit is ", kContinuationCountMax),
               "BAD_CONTINUATION", "continuations");
  }
  for (int i = 0; i < request.continuations_size(); ++i) {
    const v1::Continuation& continuation = request.continuations(i);
    const bool is_empty = continuation.text().empty() && continuation.token_ids().ids().empty();
    if (is_empty || continuation.has_token_ids() != request.has_prompt_token_ids()) {
      return Bad(
          absl::StrCat("continuation ", i, is_empty ? " is empty" : " is not of the prompt's kind (text or token ids)"),
          "BAD_CONTINUATION", absl::StrCat("continuations[", i, "]"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckHasTokenizer(const HostedModel& model) {
  if (model.tokenizer != nullptr) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat("model \"", model.name, "\" has no tokenizer; send token ids")),
      "MODEL_WITHOUT_TOKENIZER", {{"model", model.name}});
}

absl::StatusOr<EngineRequest> ToEngineRequest(const v1::GenerateRequest& request, const HostedModel& model) {
  const v1::DecodeSettings& settings = request.decode_settings();
  GenerateWork work;
  work.max_new_tokens = request.max_new_tokens();
  if (work.max_new_tokens < 1) {
    return Bad(request.has_max_new_tokens() ? absl::StrCat("max_new_tokens ", work.max_new_tokens, " is below 1")
                                            : "max_new_tokens is not set",
               "BAD_MAX_NEW_TOKENS", "max_new_tokens");
  }
  if (settings.has_sampling_temperature()) {
    work.sampling_temperature = settings.sampling_temperature();
    if (!std::isfinite(work.sampling_temperature) || work.sampling_temperature < 0) {
      return Bad(
          absl::StrCat("sampling_temperature ", work.sampling_temperature, " is not a finite number of at least 0"),
          "BAD_SAMPLING_TEMPERATURE", "decode_settings.sampling_temperature");
    }
  }
  if (settings.has_top_p()) {
    work.top_p = settings.top_p();
    if (!(work.top_p > 0 && work.top_p <= 1)) {
      return Bad(absl::StrCat("top_p ", work.top_p, " is not above 0 and at most 1"), "BAD_TOP_P",
                 "decode_settings.top_p");
    }
  }
  work.seed = static_cast<uint64_t>(settings.seed());
  work.ignore_eos = settings.ignore_eos();
  if (settings.stop_size() > kStopCountMax) {
    return Bad(absl::StrCat(settings.stop_size(), " stop strings, the limit is ", kStopCountMax), "BAD_STOP",
               "decode_settings.stop");
  }
  for (const std::string& stop : settings.stop()) {
    if (stop.empty()) return Bad("a stop string is empty", "BAD_STOP", "decode_settings.stop");
    work.stop.push_back(stop);
  }
  if (!work.stop.empty()) RETURN_IF_ERROR(CheckHasTokenizer(model));

  EngineRequest engine_request;
  RETURN_IF_ERROR(CheckFocalTemperatures(model.config, request.focal_temperatures()));
  engine_request.attention_overrides = RunTimeTemperature(request.focal_temperatures());
  RETURN_IF_ERROR(SetPrompt(request, model, &engine_request));
  RETURN_IF_ERROR(
      CheckFitsModel(model.config, static_cast<int64_t>(engine_request.token_ids.size()), work.max_new_tokens));
  engine_request.work = std::move(work);
  return engine_request;
}

absl::StatusOr<EngineRequest> ToEngineRequest(const v1::ComputeLogLikelihoodsRequest& request,
                                              const HostedModel& model) {
  EngineRequest engine_request;
  RETURN_IF_ERROR(CheckFocalTemperatures(model.config, request.focal_temperatures()));
  engine_request.attention_overrides = RunTimeTemperature(request.focal_temperatures());
  RETURN_IF_ERROR(CheckContinuations(request));
  if (request.continuations().empty()) {
    RETURN_IF_ERROR(SetPrompt(request, model, &engine_request));
    RETURN_IF_ERROR(CheckFitsModel(model.config, static_cast<int64_t>(engine_request.token_ids.size()), 0));
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
    ASSIGN_OR_RETURN(const std::string prompt, PromptText(request, model));
    ASSIGN_OR_RETURN(SplitContinuations split,
                     SplitPromptAndContinuations(*model.tokenizer, prompt, texts, request.has_chat()));
    engine_request.invalid_utf8_count = split.invalid_utf8_count;
    engine_request.token_ids = std::move(split.prompt_token_ids);
    work.continuations = std::move(split.continuations);
  }
  size_t longest = 0;
  for (const auto& continuation : work.continuations) longest = std::max(longest, continuation.size());
  RETURN_IF_ERROR(CheckFitsModel(model.config, static_cast<int64_t>(engine_request.token_ids.size()),
                                 static_cast<int64_t>(longest)));
  engine_request.work = std::move(work);
  return engine_request;
}

}  // namespace varifocal
