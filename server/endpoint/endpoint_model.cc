#include "server/endpoint/endpoint_model.h"

#include <algorithm>
#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "server/endpoint/chat_messages.h"
#include "server/endpoint/endpoint_client.h"
#include "server/endpoint/endpoint_engine.h"

namespace varifocal {
namespace {

// As given, as the server states, or as the config.json beside the tokenizer states.
absl::StatusOr<int64_t> ContextLength(const EndpointSpec& spec, const ServedModel& served) {
  if (spec.context_length > 0) return spec.context_length;
  if (served.context_length > 0) return served.context_length;
  const std::string path = absl::StrCat(spec.tokenizer_directory, "/config.json");
  if (FileExists(path, FileUse::kModel)) {
    ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigFile));
    const absl::StatusOr<Json> config = ParseJson(text);
    if (config.ok() && config->is_object()) {
      const auto length = FindInt(*config, "max_position_embeddings");
      if (length.ok() && length->value_or(0) > 0) return **length;
    }
  }
  return WithReason(InvalidArgument("endpoint \"", spec.name,
                                    "\": neither the server nor a config.json beside the tokenizer states the "
                                    "context length; give context-length=N"),
                    ErrorReason::kBadEndpoint);
}

std::string Describe(const EndpointSpec& spec, const EndpointClient& client, const EndpointAbilities& abilities) {
  std::string text = absl::StrCat(client.model().id, " at ", spec.url);
  if (!client.server_header().empty()) absl::StrAppend(&text, "; server ", client.server_header());
  if (!client.version().empty()) absl::StrAppend(&text, " ", client.version());
  if (!client.model().owner.empty()) absl::StrAppend(&text, "; owned by ", client.model().owner);
  const bool is_chat = spec.api == EndpointApi::kChat;
  absl::StrAppend(&text, "; prompts as ",
                  is_chat                     ? "messages"
                  : abilities.takes_token_ids ? "token ids"
                                              : "text",
                  "; log-likelihoods ", abilities.why_no_scores.empty() ? "yes" : "no");
  if (!abilities.why_no_top_k.empty()) absl::StrAppend(&text, "; no top_k");
  if (!abilities.why_no_min_p.empty()) absl::StrAppend(&text, "; no min_p");
  if (!spec.checks_prompt_counts) absl::StrAppend(&text, "; prompt counts unchecked");
  if (!spec.key_source.empty()) absl::StrAppend(&text, "; API key from the ", spec.key_source);
  if (!spec.body.empty())
    absl::StrAppend(&text, "; body ", spec.body.dump(-1, ' ', false, Json::error_handler_t::replace));
  return text;
}

absl::StatusOr<std::shared_ptr<const ChatFormat>> ChatFormatOf(const EndpointSpec& spec) {
  ASSIGN_OR_RETURN(std::shared_ptr<const ChatFormat> format, ReadChatFormat(spec.tokenizer_directory));
  if (format != nullptr || spec.api != EndpointApi::kChat) return format;
  if (!spec.checks_prompt_counts) return std::make_shared<const ChatFormat>(PlainChatFormat());
  return WithReason(
      InvalidArgument(
          "endpoint \"", spec.name, "\": ", spec.tokenizer_directory,
          " has no chat_format.json, by which the prompts of "
          "the chat API are counted; recipes/chat_format.py makes it, and counts=unchecked does without it"),
      ErrorReason::kBadEndpoint);
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostedModel>> MakeEndpointModel(const EndpointSpec& spec, const Clock& clock,
                                                               TokenizerRules rules,
                                                               std::shared_ptr<EndpointBudget> budget,
                                                               std::function<bool()> is_abandoned) {
  std::unique_ptr<HttpClient> http = MakeHttpClient();
  if (http == nullptr)
    return Unimplemented("this program is linked statically, without libcurl, and reaches no endpoints");
  auto hosted = std::make_unique<HostedModel>();
  ASSIGN_OR_RETURN(hosted->tokenizer, Tokenizer::Load(spec.tokenizer_directory, rules));
  ASSIGN_OR_RETURN(hosted->chat_format, ChatFormatOf(spec));
  auto client = std::make_unique<EndpointClient>(spec, std::move(http), clock, SleepingPause(), std::move(budget),
                                                 std::move(is_abandoned));
  RETURN_IF_ERROR(client->Connect());
  ModelConfig& config = hosted->config;
  config.model_type = kEndpointArchitecture;
  config.vocabulary_size = hosted->tokenizer->vocab_size();
  ASSIGN_OR_RETURN(config.max_position, ContextLength(spec, client->model()));
  ASSIGN_OR_RETURN(
      std::unique_ptr<EndpointEngine> engine,
      EndpointEngine::Create(std::move(client), hosted->tokenizer, config, SleepingPause(), hosted->chat_format));
  const EndpointClient& connected = engine->client();
  ModelProvenance& provenance = hosted->provenance;
  provenance.backend = "endpoint";
  provenance.isa = "bits not promised";
  provenance.dtype = "server's";
  provenance.device = Describe(spec, connected, engine->abilities());
  provenance.kernels = provenance.device;
  provenance.threads = spec.in_flight;
  provenance.tokenizer_sha256 = hosted->tokenizer->sha256();
  Json identity = {{"body", spec.body},
                   {"model", connected.model().id},
                   {"owner", connected.model().owner},
                   {"server", connected.server_header()},
                   {"url", spec.url},
                   {"version", connected.version()}};
  if (spec.api == EndpointApi::kChat) identity["api"] = "chat";
  provenance.weights_sha256 = Sha256Hex(identity.dump(-1, ' ', false, Json::error_handler_t::replace));
  hosted->engine = std::move(engine);
  return hosted;
}

absl::Status ProbeEndpoint(const EndpointSpec& spec, const Clock& clock) {
  constexpr int64_t kTimeoutMs = 2000;
  std::unique_ptr<HttpClient> http = MakeHttpClient();
  if (http == nullptr) return Unimplemented("no endpoints in a static build");
  EndpointSpec once = spec;
  once.attempts_max = 1;
  once.timeout_ms = std::min(once.timeout_ms, kTimeoutMs);
  return EndpointClient(std::move(once), std::move(http), clock, SleepingPause()).Connect();
}

}  // namespace varifocal
