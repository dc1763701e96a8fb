// An Engine whose model is served by another program over the OpenAI completions or chat API.
//
// So an external model is hosted, listed, asked and scored like a native one. A request is one HTTP exchange for a generation
// and one per continuation scored, in the order of arrival (requests that share a context follow each other, so that the server's
// prefix cache applies), with at most `in-flight` at once.
//
// What the server can do is found out by Create: whether it accepts token ids, whether it counts tokens as the local
// tokenizer does, and whether the log-probabilities of a prompt are those of its tokens: those of some tokens are
// compared between generating and echoing them, because servers exist that shift them by one.
//
// The chat API takes messages: they are found again in the ids of a prompt that was wrapped in the model's chat format
// (chat_messages.h). It has no log-likelihoods of a prompt, and generates alone.
//
// The server's bits are not guaranteed: they may depend on its batch, its cache and its version.
//
// Errors:  from Create: those of EndpointClient; FAILED_PRECONDITION (ENDPOINT_WRONG_COUNT) for another tokenizer.
//          from Start: INVALID_ARGUMENT as Engine; UNIMPLEMENTED (ENDPOINT_WITHOUT_ATTENTION) for run-time attention
//          settings and inspection, FAILED_PRECONDITION (ENDPOINT_WITHOUT_LOGPROBS) with the reason found by Create.
//          from on_done: those of EndpointClient, INVALID_ARGUMENT for ids that no text, or no chat, represents.
//          A fault ends active and later requests with it until the server answers again, which is tried every 5 s;
//          a spent budget (ENDPOINT_BUDGET_SPENT) until the engine's end.
// Threads: as Engine; one thread per concurrent exchange.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/endpoint/endpoint_abilities.h"
#include "server/endpoint/endpoint_client.h"
#include "server/engine/engine.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

class EndpointEngine : public Engine {
 public:
  static absl::StatusOr<std::unique_ptr<EndpointEngine>> Create(
      std::unique_ptr<EndpointClient> client, std::shared_ptr<const Tokenizer> tokenizer, ModelConfig config,
      EndpointClient::Pause pause, std::shared_ptr<const ChatFormat> chat_format = nullptr);

  virtual const EndpointAbilities& abilities() const = 0;
  virtual const EndpointClient& client() const = 0;
  // No checkpoint is loaded: do not call.
  const LoadedModel& model() const final;
};

}  // namespace varifocal
