// What a server can do, found out with short requests: whether it accepts token ids, counts tokens as the local tokenizer
// (of the chat API: and chat format) does, whether the log-probabilities of a prompt are those of its tokens, and whether it
// knows top_k and min_p, which are not OpenAI's.
//
// Errors:  those of EndpointClient; FAILED_PRECONDITION (ENDPOINT_WRONG_COUNT) for another tokenizer or chat template.
// Threads: one; each call blocks.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/endpoint/endpoint_client.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

struct EndpointAbilities {
  bool takes_token_ids = false;
  std::string length_name;  // of the chat API: the member for the most new tokens
  // Of the chat API: the side of the switch for thinking that the template has by default, and the server has not. It is
  // stated in requests that leave the switch open.
  std::optional<bool> thinking_switch = {};
  std::string why_no_scores;  // empty: it scores
  std::string why_no_top_k;   // likewise
  std::string why_no_min_p;
};

// `chat_format` is needed for the chat API, and unused without it.
absl::StatusOr<EndpointAbilities> FindAbilities(EndpointClient& client, const Tokenizer& tokenizer,
                                                const ChatFormat* chat_format);

}  // namespace varifocal
