#include "server/endpoint/endpoint_abilities.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/log.h"
#include "base/reason.h"
#include "base/status_macros.h"
#include "server/endpoint/chat_messages.h"

namespace varifocal {
namespace {

// Ordinary text that every tokenizer of a language model splits into several tokens.
constexpr char kProbe[] =
    "Tokenizers differ in numbers (1789, 3.14159), names (Cholmondeley), code (x_i += 0x2f;) and other letters "
    "(na\xc3\xafve, \xe6\x9d\xb1\xe4\xba\xac). The capital of France is Paris, and the capital of Italy is";
constexpr int kProbeNewTokens = 4;
constexpr double kFilterTemperature = 2;
// Of one token's log-probability, between generating it and reading it as part of a prompt, with 8-bit or 4-bit kernels.
constexpr double kProbeTolerance = 0.1;

absl::Status Named(const EndpointClient& client, const absl::Status& status) {
  if (status.ok()) return status;
  return Annotate(status, absl::StrCat("endpoint \"", client.spec().name, "\""));
}

// A greedy continuation of `request` that is the same tokens when its text is read back. A model may generate tokens
// that no text is tokenized to (two newlines, one token each); a shorter continuation ends before them.
absl::StatusOr<Completion> ReadableContinuation(EndpointClient& client, const Tokenizer& tokenizer,
                                                CompletionRequest request, std::string* whole,
                                                std::vector<int32_t>* whole_ids) {
  for (request.max_new_tokens = kProbeNewTokens; request.max_new_tokens > 0; --request.max_new_tokens) {
    ASSIGN_OR_RETURN(Completion generated, client.TryOnce(request));
    *whole = absl::StrCat(kProbe, generated.text);
    ASSIGN_OR_RETURN(*whole_ids, tokenizer.Encode(*whole));
    const bool is_same = std::ssize(*whole_ids) == std::ssize(request.token_ids) + generated.new_token_count &&
                         std::equal(request.token_ids.begin(), request.token_ids.end(), whole_ids->begin());
    if (is_same && generated.new_token_count > 0) return generated;
  }
  return FailedPrecondition("its own continuation of a test prompt is tokenized otherwise when read back");
}

// The log-probabilities of new tokens when generated, and when they are the end of a prompt.
absl::Status CheckScores(EndpointClient& client, const Tokenizer& tokenizer, CompletionRequest request) {
  request.logprobs = true;
  std::string whole;
  CompletionRequest echoed = request;
  ASSIGN_OR_RETURN(const Completion generated,
                   ReadableContinuation(client, tokenizer, request, &whole, &echoed.token_ids));
  if (request.text.has_value()) echoed.text = whole;
  echoed.max_new_tokens = 1;
  echoed.echo = true;
  ASSIGN_OR_RETURN(const Completion read, client.TryOnce(echoed));
  const size_t first = read.tokens.size() - (read.new_token_count + generated.new_token_count);
  for (size_t i = 0; i < generated.tokens.size(); ++i) {
    const std::optional<double> then = generated.tokens[i].log_prob;
    const std::optional<double> now = read.tokens[first + i].log_prob;
    if (then.has_value() && now.has_value() && std::abs(*then - *now) <= kProbeTolerance) continue;
    return FailedPrecondition("token ", i, " of a test continuation has ", then.value_or(0), " when generated and ",
                              now.has_value() ? absl::StrCat(*now) : "none", " when echoed; they differ by more than ",
                              kProbeTolerance);
  }
  return absl::OkStatus();
}

// Why the server cannot apply a filter that leaves the most likely token alone, `value` of it; "" where it can. At a high
// temperature its text is then the greedy one; another shows a server that ignores the filter.
absl::StatusOr<std::string> WhyNoFilter(EndpointClient& client, CompletionRequest request, const std::string& greedy,
                                        const char* name, const Sampling& filter) {
  request.sampling = filter;
  request.sampling.temperature = kFilterTemperature;
  request.seed = 1;
  const absl::StatusOr<Completion> filtered = client.TryOnce(request);
  if (absl::IsUnavailable(filtered.status())) return Named(client, filtered.status());
  if (!filtered.ok())
    return absl::StrCat("endpoint \"", client.spec().name, "\" takes no ", name, ": ", filtered.status().message());
  if (filtered->text == greedy) return std::string();
  return absl::StrCat("endpoint \"", client.spec().name, "\" ignores ", name,
                      ": a test prompt is not continued greedily where it leaves one token");
}

// `request` is a test prompt.
absl::Status FindFilters(EndpointClient& client, CompletionRequest request, EndpointAbilities* abilities) {
  request.max_new_tokens = kProbeNewTokens;
  const absl::StatusOr<Completion> greedy = client.TryOnce(request);
  RETURN_IF_ERROR(Named(client, greedy.status()));
  ASSIGN_OR_RETURN(abilities->why_no_top_k, WhyNoFilter(client, request, greedy->text, "top_k", {.top_k = 1}));
  ASSIGN_OR_RETURN(abilities->why_no_min_p, WhyNoFilter(client, request, greedy->text, "min_p", {.min_p = 1}));
  return absl::OkStatus();
}

// The server's word for the most new tokens, and whether it counts a prompt as the local chat format and tokenizer do.
absl::StatusOr<EndpointAbilities> FindChatAbilities(EndpointClient& client, const Tokenizer& tokenizer,
                                                    const ChatFormat& format) {
  EndpointAbilities abilities;
  ASSIGN_OR_RETURN(const ChatText probe, format.Wrap(kProbe));
  CompletionRequest sent;
  ASSIGN_OR_RETURN(sent.token_ids, EncodeChat(tokenizer, probe));
  sent.max_new_tokens = kProbeNewTokens;
  const auto try_with = [&](std::optional<bool> thinking) -> absl::Status {
    abilities.thinking_switch = thinking;
    ASSIGN_OR_RETURN(sent.chat, ToChat(tokenizer, format, sent.token_ids, thinking));
    sent.chat->is_prompt_count_known = client.spec().checks_prompt_counts;
    absl::Status status;
    for (const char* name : {"max_completion_tokens", "max_tokens"}) {
      abilities.length_name = sent.chat->length_name = name;
      status = client.TryOnce(sent).status();
      const bool is_other_name =
          HasReason(status, ErrorReason::kEndpointRefused) || HasReason(status, ErrorReason::kEndpointWrongCount);
      if (!is_other_name) break;
    }
    return status;
  };
  absl::Status status = try_with({});
  const std::optional<bool> own = format.DefaultThinking();
  // The first sentence is the one that is right for a server with another template.
  if (HasReason(status, ErrorReason::kEndpointWrongCount) && own.has_value() && try_with(own).ok())
    status = absl::OkStatus();
  RETURN_IF_ERROR(Named(client, status));
  RETURN_IF_ERROR(FindFilters(client, sent, &abilities));
  abilities.why_no_scores = absl::StrCat("endpoint \"", client.spec().name,
                                         "\" is asked over the chat API, which has no log-likelihoods of given tokens");
  Log(LogLevel::kInfo, "endpoint_connected",
      {{"endpoint", client.spec().name},
       {"url", client.spec().url},
       {"model", client.model().id},
       {"prompts", "messages"},
       {"length_name", abilities.length_name}});
  return abilities;
}

}  // namespace

absl::StatusOr<EndpointAbilities> FindAbilities(EndpointClient& client, const Tokenizer& tokenizer,
                                                const ChatFormat* chat_format) {
  if (client.spec().api == EndpointApi::kChat) return FindChatAbilities(client, tokenizer, *chat_format);
  EndpointAbilities abilities;
  ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(kProbe));
  CompletionRequest request;
  request.token_ids = ids;
  request.max_new_tokens = kProbeNewTokens;
  const PromptForm wanted = client.spec().prompts;
  absl::Status refused = absl::OkStatus();
  if (wanted != PromptForm::kText) {
    refused = client.TryOnce(request).status();
    abilities.takes_token_ids = refused.ok();
    if (wanted == PromptForm::kTokenIds) RETURN_IF_ERROR(Named(client, refused));
  }
  // As text too where ids are accepted: the count shows whether the server has the same tokenizer.
  CompletionRequest as_text = request;
  as_text.text = kProbe;
  as_text.max_new_tokens = 1;
  RETURN_IF_ERROR(Named(client, client.TryOnce(as_text).status()));
  if (!abilities.takes_token_ids) request.text = kProbe;
  RETURN_IF_ERROR(FindFilters(client, request, &abilities));
  const absl::Status scores = CheckScores(client, tokenizer, request);
  if (absl::IsUnavailable(scores)) return Named(client, scores);
  if (!scores.ok()) {
    abilities.why_no_scores = absl::StrCat("endpoint \"", client.spec().name,
                                           "\" has no log-likelihoods of a prompt's tokens: ", scores.message());
  }
  Log(LogLevel::kInfo, "endpoint_connected",
      {{"endpoint", client.spec().name},
       {"url", client.spec().url},
       {"model", client.model().id},
       {"prompts", abilities.takes_token_ids ? "token ids" : "text"},
       {"scores", scores.ok() ? "yes" : scores.message()}});
  return abilities;
}

}  // namespace varifocal
