// Generation with thinking blocks: their bound, the answer's, and the end that may be forced.
//
// After every token the text is split (tokenizer/thinking.h). Inside a block only its end marker matters, so only the last
// tokens are decoded there. What is decided depends on the request's new tokens alone, hence not on batch or restart.
//
// Cost:    a token inside a block decodes as many tokens as the end marker has bytes, and a few; outside, all of them.
// Errors:  those of Tokenizer::Decode.
// Threads: pure functions of their arguments.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "server/engine/request.h"
#include "server/engine/sequence.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {

// The state before the first token.
ThinkingProgress BeginThinking(const Tokenizer& tokenizer, const ThinkingWork& thinking);

// After a token was appended to result.new_token_ids: counts it, ends the generation at a bound or a stop string, or appends
// the forced tokens.
absl::Status FollowThinking(const Tokenizer& tokenizer, const GenerateWork& work, ThinkingProgress& progress,
                            EngineResult& result);

// The text of a generation that has ended, before the stop string; an EOS at its end has no text.
void CompleteThinking(const Tokenizer& tokenizer, const std::vector<int32_t>& eos, const GenerateWork& work,
                      const ThinkingProgress& progress, EngineResult& result);

// The same for a server that sends whole texts, of `result.text`: cuts it at a stop string, and counts the tokens of its blocks
// with `tokenizer`: those of the text but not of the answer.
absl::Status ApplyThinking(const Tokenizer& tokenizer, const GenerateWork& work, EngineResult& result);

}  // namespace varifocal
