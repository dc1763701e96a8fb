// What a task may ask of a tokenizer: the ids of a text, and a name for the tokenizer that made them.
//
// Special tokens in a text are text unless asked otherwise: what a data set has in a row ends no turn and begins none.
// Those of a chat format and those that a tokenizer puts around a prompt are tokens.
//
// Tasks see this and not Tokenizer, so that their tests can size prompts with a tokenizer of three lines.
//
// Threads: Encode may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tokenizer/text_range.h"

namespace varifocal {

class Tokenizer;
struct ChatFormat;

class TokenCounter {
 public:
  virtual ~TokenCounter() = default;
  // The ids a model is given for `text` as a whole prompt: specials (such as a beginning-of-text token) included.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const = 0;
  // The same where a chat model's system says something before: it is left out where prompts are texts, and where a
  // model's chat template takes no system message.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& /*system*/,
                                                                  absl::string_view text) const {
    return EncodePrompt(text);
  }
  // The ids of a prompt that begins with `text`, as far as they are those of `text`: nothing that closes a prompt.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePromptStart(absl::string_view text) const {
    return EncodePrompt(text);
  }
  // The ids of what continuations follow: a prompt, and what is given of an answer to it. White space at the end is left
  // to the continuations, but for what closes a chat format.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeContext(absl::string_view prompt, absl::string_view given) const;
  // The ids of a piece of text, no specials added.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const = 0;
  // The text of ids as they come from EncodePiece; a character of which bytes are missing becomes U+FFFD.
  virtual absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t>) const {
    return absl::UnimplementedError("this tokenizer does not decode");
  }
  // Of `text` encoded by itself with specials, which are {0, 0}: the part of the text that each token stands for.
  virtual absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view) const {
    return absl::UnimplementedError("this tokenizer does not tell offsets");
  }
  // Hex digest of what defines the tokenizer; samples made with equal digests are the same sample.
  virtual const std::string& sha256() const = 0;
};

// What "<|end|>" in a text is. Upstream's harnesses take it for the token; jobs do not.
enum class SpecialTokens { kAsText, kAsTokens };

// With a chat format, prompts are what a chat model is given: the format's texts around `text`, and no specials added.
std::shared_ptr<const TokenCounter> MakeTokenCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                     std::shared_ptr<const ChatFormat> chat_format = nullptr,
                                                     SpecialTokens special_tokens = SpecialTokens::kAsText);

}  // namespace varifocal
