#include "server/endpoint/completion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr size_t kErrorBytesMax = 300;
// Servers store a seed in 32 or 64 bits, with or without sign.
constexpr uint64_t kSeedMask = 0x7fffffff;

absl::Status BadReply(const std::string& problem) {
  return WithReason(Internal("the server's reply is not a completion: ", problem), ErrorReason::kEndpointBadReply);
}

absl::Status WrongCount(const std::string& problem) {
  return WithReason(absl::FailedPreconditionError(problem), ErrorReason::kEndpointWrongCount);
}

absl::Status NoLogprobs(const std::string& problem) {
  return WithReason(absl::FailedPreconditionError(problem), ErrorReason::kEndpointWithoutLogprobs);
}

// An object member by name, null where it is absent.
const Json* Find(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

absl::StatusOr<int64_t> Count(const Json& usage, const char* key) {
  const Json* value = Find(usage, key);
  if (value == nullptr || !value->is_number_integer() || value->get<int64_t>() < 0)
    return BadReply(absl::StrCat("usage.", key, " is missing or no count"));
  return value->get<int64_t>();
}

absl::StatusOr<std::vector<CompletionToken>> ReadTokens(const Json& choice) {
  const Json* logprobs = Find(choice, "logprobs");
  if (logprobs == nullptr) return NoLogprobs("the server sent no logprobs although they were requested");
  const Json* values = Find(*logprobs, "token_logprobs");
  if (values == nullptr || !values->is_array())
    return NoLogprobs("the reply's logprobs have no list token_logprobs, so the prompt's tokens have none");
  const Json* tops = Find(*logprobs, "top_logprobs");
  std::vector<CompletionToken> tokens;
  for (size_t i = 0; i < values->size(); ++i) {
    CompletionToken token;
    const Json& value = (*values)[i];
    if (value.is_number()) {
      token.log_prob = value.get<double>();
      if (*token.log_prob > 1e-6) {
        return BadReply(
            absl::StrCat("logprobs.token_logprobs[", i, "] is ", *token.log_prob, "; it must be at most 0"));
      }
      if (tops != nullptr && tops->is_array() && i < tops->size() && (*tops)[i].is_object()) {
        double largest = *token.log_prob;
        for (const auto& [text, top] : (*tops)[i].items()) {
          if (top.is_number()) largest = std::max(largest, top.get<double>());
        }
        token.is_greedy = *token.log_prob >= largest;
      }
    } else if (!value.is_null()) {
      return BadReply(absl::StrCat("logprobs.token_logprobs[", i, "] is no number"));
    }
    tokens.push_back(token);
  }
  return tokens;
}

absl::Status CheckCounts(const CompletionRequest& request, const Completion& completion, bool is_at_length) {
  const int64_t sent = std::ssize(request.token_ids);
  const bool is_known = !request.chat.has_value() || request.chat->is_prompt_count_known;
  if (is_known && completion.prompt_token_count != sent) {
    return WrongCount(absl::StrCat(
        "the server counted ", completion.prompt_token_count, " prompt tokens of ", sent,
        " that were sent: it has another ",
        request.chat.has_value() ? "chat template or tokenizer" : "tokenizer, adds or drops special tokens",
        ", or truncates the prompt"));
  }
  if (completion.new_token_count > request.max_new_tokens) {
    return WrongCount(absl::StrCat("the server generated ", completion.new_token_count, " tokens; at most ",
                                   request.max_new_tokens, " were requested"));
  }
  if (is_at_length && completion.new_token_count < request.max_new_tokens) {
    return WrongCount(absl::StrCat("the server stopped for length after ", completion.new_token_count, " tokens of ",
                                   request.max_new_tokens, " that were requested: its context is too short"));
  }
  if (!request.logprobs) return absl::OkStatus();
  const int64_t expected = completion.new_token_count + (request.echo ? sent : 0);
  const int64_t got = std::ssize(completion.tokens);
  // A leading BOS has no log-probability, and some servers leave it out.
  if (got == expected || (request.echo && got == expected - 1)) return absl::OkStatus();
  return NoLogprobs(absl::StrCat("the server sent ", got, " log-probabilities for ", expected, " tokens",
                                 request.echo ? "; it leaves out tokens of the prompt" : ""));
}

void AddSampling(const CompletionRequest& request, Json* body) {
  const Sampling& sampling = request.sampling;
  (*body)["temperature"] = sampling.temperature;
  if (sampling.temperature > 0) {
    (*body)["top_p"] = sampling.top_p;
    const auto wants = [&](const char* name, bool sends) { return sends && !body->contains(name); };
    if (sampling.top_k > 0 || wants("top_k", request.sends_top_k)) (*body)["top_k"] = sampling.top_k;
    if (sampling.min_p > 0 || wants("min_p", request.sends_min_p)) (*body)["min_p"] = sampling.min_p;
    (*body)["seed"] = request.seed & kSeedMask;
  }
  if (!request.stop.empty()) (*body)["stop"] = request.stop;
  (*body)["stream"] = false;
}

absl::StatusOr<std::string> ChatBody(const CompletionRequest& request, const Json& extra) {
  const ChatPart& chat = *request.chat;
  Json body = extra;
  body["model"] = request.model;
  Json messages = Json::array();
  for (const ChatTurn& message : chat.messages)
    messages.push_back({{"role", message.role}, {"content", message.content}});
  body["messages"] = std::move(messages);
  body[chat.length_name] = request.max_new_tokens;
  AddSampling(request, &body);
  for (const auto& [key, value] : extra.items()) {
    if (value.is_null()) body.erase(key);  // for models that refuse a temperature, say
  }
  if (!chat.switch_variable.empty()) {
    Json& variables = body["chat_template_kwargs"];
    if (!variables.is_object()) variables = Json::object();
    variables[chat.switch_variable] = chat.switch_value;
  }
  return DumpJson(body);
}

// The text of a chat reply's message.
absl::StatusOr<std::string> MessageText(const ChatPart& chat, const Json& choice) {
  const Json* message = Find(choice, "message");
  if (message == nullptr || !message->is_object()) return BadReply("the choice has no message");
  const auto text_of = [&](const char* key) -> absl::StatusOr<std::string> {
    const Json* value = Find(*message, key);
    if (value == nullptr) return std::string();
    if (!value->is_string()) return BadReply(absl::StrCat("message.", key, " is no text"));
    return value->get<std::string>();
  };
  ASSIGN_OR_RETURN(std::string content, text_of("content"));
  ASSIGN_OR_RETURN(std::string reasoning, text_of("reasoning_content"));
  if (reasoning.empty()) {
    ASSIGN_OR_RETURN(reasoning, text_of("reasoning"));
  }
  if (content.empty() && reasoning.empty()) {
    ASSIGN_OR_RETURN(content, text_of("refusal"));  // the model's own words
    if (content.empty() && !message->contains("content")) return BadReply("the message has no content");
  }
  if (reasoning.empty()) return content;
  return absl::StrCat(chat.is_thinking_opened ? "" : chat.thinking_begin, reasoning,
                      content.empty() ? "" : chat.thinking_end, content);
}

// Of a server that streams although it was asked not to: with the error among its events, if any.
absl::Status StreamError(absl::string_view body) {
  for (absl::string_view line : absl::StrSplit(body, '\n')) {
    if (!absl::ConsumePrefix(&line, "data:")) continue;
    const absl::StatusOr<Json> event = ParseJson(line);
    if (event.ok() && Find(*event, "error") != nullptr)
      return BadReply(absl::StrCat("it is a stream, with the error: ", ErrorText(line)));
  }
  return BadReply("it is a stream, although none was requested");
}

}  // namespace

absl::StatusOr<std::string> ToBody(const CompletionRequest& request, const Json& extra) {
  if (request.chat.has_value()) return ChatBody(request, extra);
  Json body = extra;
  body["model"] = request.model;
  if (request.text.has_value()) {
    body["prompt"] = *request.text;
  } else {
    body["prompt"] = request.token_ids;
  }
  body["max_tokens"] = request.max_new_tokens;
  AddSampling(request, &body);
  if (request.logprobs) body["logprobs"] = 1;
  if (request.echo) body["echo"] = true;
  return DumpJson(body);
}

absl::StatusOr<Completion> ParseCompletion(const CompletionRequest& request, absl::string_view body) {
  const absl::StatusOr<Json> parsed = ParseJson(body);
  if (!parsed.ok()) {
    if (absl::StartsWith(body, "data:")) return StreamError(body);
    return BadReply(std::string(parsed.status().message()));
  }
  if (Find(*parsed, "error") != nullptr) return BadReply(absl::StrCat("it is an error: ", ErrorText(body)));
  const Json* model = Find(*parsed, "model");
  if (model == nullptr || !model->is_string()) return BadReply("\"model\" is missing or no text");
  if (model->get<std::string>() != request.model) {
    return WithReason(FailedPrecondition("the server answered with model \"", model->get<std::string>(), "\"; \"",
                                         request.model, "\" was requested"),
                      ErrorReason::kEndpointOtherModel);
  }
  const Json* choices = Find(*parsed, "choices");
  if (choices == nullptr || !choices->is_array() || choices->size() != 1) {
    return BadReply(absl::StrCat("it has ", choices != nullptr && choices->is_array() ? choices->size() : 0,
                                 " choices; one was requested"));
  }
  const Json& choice = (*choices)[0];
  Completion completion;
  const Json* finish = Find(choice, "finish_reason");
  const std::string reason = finish != nullptr && finish->is_string() ? finish->get<std::string>() : "";
  completion.is_at_stop = reason == "stop" || reason == "eos" || reason == "eos_token" || reason == "stop_sequence";
  const bool is_at_length = reason == "length";
  if (reason == "content_filter") {
    return WithReason(FailedPrecondition("the server withheld the answer: finish_reason is content_filter"),
                      ErrorReason::kEndpointRefused);
  }
  if (!completion.is_at_stop && !is_at_length)
    return BadReply(absl::StrCat("finish_reason is \"", reason, "\"; known are stop and length"));
  if (request.chat.has_value()) {
    ASSIGN_OR_RETURN(completion.text, MessageText(*request.chat, choice));
  } else {
    const Json* text = Find(choice, "text");
    if (text == nullptr || !text->is_string()) return BadReply("the choice has no text");
    completion.text = text->get<std::string>();
    if (request.echo && request.text.has_value()) {
      absl::string_view rest = completion.text;
      if (absl::ConsumePrefix(&rest, *request.text)) completion.text = std::string(rest);
    }
  }
  if (const Json* stop = Find(choice, "stop_reason"); stop != nullptr && stop->is_string())
    completion.stop_string = stop->get<std::string>();
  const Json* usage = Find(*parsed, "usage");
  if (usage == nullptr) return BadReply("it has no usage, so its token counts cannot be checked");
  ASSIGN_OR_RETURN(completion.prompt_token_count, Count(*usage, "prompt_tokens"));
  ASSIGN_OR_RETURN(completion.new_token_count, Count(*usage, "completion_tokens"));
  if (const Json* details = Find(*usage, "prompt_tokens_details"); details != nullptr) {
    if (Find(*details, "cached_tokens") != nullptr) {
      ASSIGN_OR_RETURN(completion.cached_token_count, Count(*details, "cached_tokens"));
      completion.cached_token_count = std::min(completion.cached_token_count, completion.prompt_token_count);
    }
  }
  if (request.logprobs) {
    ASSIGN_OR_RETURN(completion.tokens, ReadTokens(choice));
  }
  RETURN_IF_ERROR(CheckCounts(request, completion, is_at_length));
  return completion;
}

std::string ErrorText(absl::string_view body) {
  std::string text(body);
  if (const absl::StatusOr<Json> parsed = ParseJson(body); parsed.ok()) {
    // {"error": {"message": ".."}}, {"error": ".."}, {"message": ".."}, {"detail": ..}
    for (const char* key : {"error", "message", "detail"}) {
      const Json* found = Find(*parsed, key);
      if (found == nullptr) continue;
      const Json* inner = Find(*found, "message");
      const Json& said = inner == nullptr ? *found : *inner;
      text = said.is_string() ? said.get<std::string>() : said.dump(-1, ' ', false, Json::error_handler_t::replace);
      break;
    }
  }
  for (char& c : text) {
    if (absl::ascii_iscntrl(c)) c = ' ';
  }
  if (text.size() > kErrorBytesMax) text.resize(kErrorBytesMax);
  text.resize(ValidUtf8Prefix(text));
  return std::string(absl::StripAsciiWhitespace(text));
}

absl::StatusOr<std::vector<ServedModel>> ParseModels(absl::string_view body) {
  const auto bad = [](const std::string& problem) {
    return WithReason(Internal("the reply is not a list of models: ", problem), ErrorReason::kEndpointBadReply);
  };
  const absl::StatusOr<Json> parsed = ParseJson(body);
  if (!parsed.ok()) return bad(std::string(parsed.status().message()));
  const Json* data = Find(*parsed, "data");
  if (data == nullptr || !data->is_array()) return bad("\"data\" is missing or no list");
  std::vector<ServedModel> models;
  for (const Json& entry : *data) {
    const Json* id = Find(entry, "id");
    if (id == nullptr || !id->is_string()) return bad("a model has no \"id\"");
    ServedModel model;
    model.id = id->get<std::string>();
    if (const Json* owner = Find(entry, "owned_by"); owner != nullptr && owner->is_string())
      model.owner = owner->get<std::string>();
    if (const Json* length = Find(entry, "max_model_len"); length != nullptr && length->is_number_integer()) {
      model.context_length = length->get<int64_t>();  // vLLM, SGLang
    }
    if (const Json* meta = Find(entry, "meta"); meta != nullptr && model.context_length == 0) {
      const Json* length = Find(*meta, "n_ctx");  // llama.cpp
      if (length != nullptr && length->is_number_integer()) model.context_length = length->get<int64_t>();
    }
    models.push_back(std::move(model));
  }
  return models;
}

}  // namespace varifocal
