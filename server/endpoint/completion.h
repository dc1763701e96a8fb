// The OpenAI completions and chat completions APIs: the body of a request, and a reply as numbers that can be trusted.
//
// A reply is checked before it is an answer: the model is the one asked for, there is one choice, and the counts of
// `usage` agree with the request. A server that tokenizes a text otherwise than the local tokenizer, or truncates it, is
// detected by its count.
//
// Errors:  FAILED_PRECONDITION (ENDPOINT_OTHER_MODEL, ENDPOINT_WRONG_COUNT, ENDPOINT_WITHOUT_LOGPROBS),
//          INTERNAL (ENDPOINT_BAD_REPLY: not JSON, a missing or ill-typed member, an error or a stream in place of it),
//          FAILED_PRECONDITION (ENDPOINT_REFUSED: the server withheld the answer).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/sampling.h"
#include "tokenizer/chat_format.h"

namespace varifocal {

// A request to the chat API. Reasoning that the server sends apart is joined with the content to one text: the beginning
// mark (unless the prompt has it), the reasoning, the end mark and the content. Without content the end mark is left out: a
// server does not tell whether the block was closed, and there is no answer either way.
struct ChatPart {
  std::vector<ChatTurn> messages;
  std::string length_name = "max_completion_tokens";  // or "max_tokens", of older servers
  std::string thinking_begin = "<think>";
  std::string thinking_end = "</think>";
  bool is_thinking_opened = false;  // the prompt ends with the beginning mark
  // A variable of the server's chat template, sent in chat_template_kwargs; empty: none.
  std::string switch_variable = {};
  bool switch_value = false;
  bool is_prompt_count_known = true;  // token_ids are the server's own
};

struct CompletionRequest {
  std::string model;
  std::vector<int32_t> token_ids;   // of the prompt, always; sent where `text` is empty
  std::optional<std::string> text;  // sent in their place
  int64_t max_new_tokens = 1;
  Sampling sampling;
  // Filters that the server knows are sent also where they keep all tokens, since a server has its own defaults; a member of
  // the same name in `extra` has precedence then.
  bool sends_top_k = false, sends_min_p = false;
  uint64_t seed = 0;  // sent with a temperature above 0
  std::vector<std::string> stop;
  bool logprobs = false;              // of new tokens
  bool echo = false;                  // and of the prompt's; with logprobs
  std::optional<ChatPart> chat = {};  // to the chat API, without logprobs; `text` is not sent
};

// Log-probabilities of the last tokens of the reply; of a prompt and new tokens with echo.
struct CompletionToken {
  std::optional<double> log_prob;  // none for the first token of a text
  bool is_greedy = false;          // no other token has a larger one
};

struct Completion {
  std::string text;         // with echo: after the prompt's, as far as it can be separated
  bool is_at_stop = false;  // finish_reason "stop": an EOS or a stop string
  std::string stop_string;  // where the server reports it
  int64_t prompt_token_count = 0;
  int64_t cached_token_count = 0;
  int64_t new_token_count = 0;
  std::vector<CompletionToken>
      tokens;  // with logprobs: one per new token; with echo the prompt's first, perhaps without
               // its BOS
};

// `extra` are further members; those that the request sets win. Of the chat API, a member that is null is left out.
absl::StatusOr<std::string> ToBody(const CompletionRequest& request, const Json& extra);
absl::StatusOr<Completion> ParseCompletion(const CompletionRequest& request, absl::string_view body);

// The server's own words about an error, one line of at most 300 bytes.
std::string ErrorText(absl::string_view body);

// Models of a `GET /models` reply.
struct ServedModel {
  std::string id;
  std::string owner;
  int64_t context_length = 0;  // 0: not stated
};
absl::StatusOr<std::vector<ServedModel>> ParseModels(absl::string_view body);

}  // namespace varifocal
