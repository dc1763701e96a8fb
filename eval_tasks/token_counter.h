// The interface of a tokenizer for tasks: the ids of a text, and a digest that identifies the tokenizer.
//
// Special tokens in a text are text by default, so that data cannot end or begin a turn. Those of a chat format and those
// that a tokenizer adds to a prompt are tokens.
//
// Tasks use this instead of Tokenizer, so that tests can use minimal tokenizers.
//
// Threads: Encode may be called from several threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "tokenizer/text_range.h"
#include "tokenizer/thinking.h"

namespace varifocal {

class Tokenizer;
struct ChatFormat;
struct ChatTurn;

class TokenCounter {
 public:
  virtual ~TokenCounter() = default;
  // The ids of `text` as a whole prompt, including special tokens such as BOS.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const = 0;
  // The same after a system message, which is omitted without a chat format, and where a model's chat template has no
  // system message.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& /*system*/,
                                                                  absl::string_view text) const {
    return EncodePrompt(text);
  }
  // The ids of a conversation of several turns, which needs a chat format (CheckTurns).
  virtual absl::StatusOr<std::vector<int32_t>> EncodeTurns(absl::Span<const ChatTurn>) const {
    return FailedPrecondition("messages need a chat format");
  }
  // The ids of a prompt that begins with `text`, without those that close a prompt.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePromptStart(absl::string_view text) const {
    return EncodePrompt(text);
  }
  // The ids of the context of continuations: a prompt and the given part of an answer. Trailing white space belongs to the
  // continuations, except that of a chat format's closing text.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeContext(absl::string_view prompt, absl::string_view given) const;
  // The ids of a prompt (after a system message, as above) that `answer` follows, which is plain text.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeAnswered(const std::optional<std::string>& system,
                                                              absl::string_view prompt, absl::string_view answer) const;
  // The ids of a piece of text, no specials added.
  virtual absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const = 0;
  // The same, with special tokens as such: of a marker, which may be one.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeMarker(absl::string_view text) const { return EncodePiece(text); }
  // The text of ids from EncodePiece; a partial character becomes U+FFFD.
  virtual absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t>) const {
    return Unimplemented("this tokenizer does not decode");
  }
  // The ids of `text` as a whole prompt, special tokens included, without the chat format; and the text of such ids, from
  // which special tokens are dropped.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeUnwrapped(absl::string_view text) const {
    return EncodePrompt(text);
  }
  virtual absl::StatusOr<std::string> DecodeUnwrapped(absl::Span<const int32_t> ids) const { return DecodePiece(ids); }
  // The range of `text` that each token represents when encoded with special tokens, whose range is {0, 0}.
  virtual absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view) const {
    return Unimplemented("this tokenizer does not support offsets");
  }
  // The markers of the model's thinking blocks: its chat format's, else the first known pair that is in the texts of the
  // format, or whose markers are tokens. None where nothing marks the model as thinking.
  virtual std::optional<ThinkingMarkers> thinking_markers() const { return std::nullopt; }
  // Hex digest of the tokenizer's definition, and of the chat format where its switch is set to another side than its own;
  // equal digests give equal samples.
  virtual const std::string& sha256() const = 0;
};

// INVALID_ARGUMENT where encoding and decoding does not give the markers back: no answer of `model` can have them.
absl::Status CheckCanWrite(const Tokenizer& tokenizer, const ThinkingMarkers& markers, absl::string_view model);

// Whether "<|end|>" in a text is a token. Upstream's harnesses treat it as the token; jobs do not.
enum class SpecialTokens { kAsText, kAsTokens };

// With a chat format, prompts are the format's texts around `text`, without added special tokens.
std::shared_ptr<const TokenCounter> MakeTokenCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                     std::shared_ptr<const ChatFormat> chat_format = nullptr,
                                                     SpecialTokens special_tokens = SpecialTokens::kAsText);

// Of a variant: `chat_format`, which may be null, is its model's, and wraps prompts where `is_chat`. `thinking` is the setting
// of the format's own switch, which it must then have; none: its default. Another side of the switch has another digest, with
// and without `is_chat`, so that a variant has one.
std::shared_ptr<const TokenCounter> MakeVariantCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::shared_ptr<const ChatFormat> chat_format, bool is_chat,
                                                       std::optional<bool> thinking);
// The digest that it has.
std::string VariantTokenizerSha256(const std::string& tokenizer_sha256, const ChatFormat* chat_format,
                                   std::optional<bool> thinking);

}  // namespace varifocal
