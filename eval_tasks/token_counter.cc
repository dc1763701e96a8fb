#include "eval_tasks/token_counter.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "base/thinking_markers.h"
#include "eval_tasks/python/text.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

std::optional<ThinkingMarkers> FindMarkers(const Tokenizer& tokenizer, const ChatFormat* format) {
  if (format != nullptr && format->thinking.has_value()) return format->thinking;
  std::string texts;
  const auto add = [&](const ChatFormat::Texts& of) { absl::StrAppend(&texts, of.prefix, of.between, of.suffix); };
  if (format != nullptr) {
    add(format->without_system);
    if (format->with_system.has_value()) add(*format->with_system);
  }
  for (const auto& [begin, end] : kKnownThinkingMarkers) {
    const bool in_texts = absl::StrContains(texts, begin);
    const bool are_tokens = tokenizer.TokenToId(begin).has_value() && tokenizer.TokenToId(end).has_value();
    if (in_texts || are_tokens) return ThinkingMarkers{std::string(begin), std::string(end)};
  }
  return std::nullopt;
}

class TokenizerCounter : public TokenCounter {
 public:
  // `wraps`: with `chat_format`, which is otherwise read for its markers alone.
  TokenizerCounter(std::shared_ptr<const Tokenizer> tokenizer, const std::shared_ptr<const ChatFormat>& chat_format,
                   bool wraps, SpecialTokens special_tokens, std::string sha256)
      : tokenizer_(std::move(tokenizer)),
        chat_format_(wraps ? chat_format : nullptr),
        as_text_(special_tokens == SpecialTokens::kAsText),
        thinking_markers_(FindMarkers(*tokenizer_, chat_format.get())),
        sha256_(std::move(sha256)) {}

  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    if (chat_format_ == nullptr) return EncodeUnwrapped(text);
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->Wrap(text));
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& system,
                                                          absl::string_view text) const override {
    if (chat_format_ == nullptr || !chat_format_->with_system.has_value()) return EncodePrompt(text);
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->Wrap(text, system));
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeTurns(absl::Span<const ChatTurn> turns) const override {
    if (chat_format_ == nullptr) return TokenCounter::EncodeTurns(turns);
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->WrapTurns(turns));
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodePromptStart(absl::string_view text) const override {
    if (chat_format_ == nullptr) return EncodePrompt(text);
    return EncodeWrapped(chat_format_->WrapStart(text));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeContext(absl::string_view prompt, absl::string_view given) const override {
    if (chat_format_ == nullptr) return TokenCounter::EncodeContext(prompt, given);
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->Wrap(prompt));
    wrapped.AppendPlain(given);
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeAnswered(const std::optional<std::string>& system,
                                                      absl::string_view prompt,
                                                      absl::string_view answer) const override {
    if (chat_format_ == nullptr) return TokenCounter::EncodeAnswered(system, prompt, answer);
    const bool with_system = system.has_value() && chat_format_->with_system.has_value();
    ASSIGN_OR_RETURN(ChatText wrapped, with_system ? chat_format_->Wrap(prompt, *system) : chat_format_->Wrap(prompt));
    wrapped.AppendPlain(answer);
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    EncodeOptions options;
    options.add_special_tokens = false;
    options.special_tokens_as_text = as_text_;
    return tokenizer_->Encode(text, options);
  }
  absl::StatusOr<std::vector<int32_t>> EncodeMarker(absl::string_view text) const override {
    return tokenizer_->Encode(text, {.add_special_tokens = false});
  }
  absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t> ids) const override {
    DecodeOptions options;
    options.keep_special_tokens = true;
    return tokenizer_->Decode(ids, options);
  }
  absl::StatusOr<std::vector<int32_t>> EncodeUnwrapped(absl::string_view text) const override {
    return tokenizer_->Encode(text, {.special_tokens_as_text = as_text_});
  }
  absl::StatusOr<std::string> DecodeUnwrapped(absl::Span<const int32_t> ids) const override {
    return tokenizer_->Decode(ids, {});
  }
  absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view text) const override {
    ASSIGN_OR_RETURN(EncodedText encoded, tokenizer_->EncodeWithOffsets(text, {.special_tokens_as_text = as_text_}));
    return std::move(encoded.offsets);
  }
  std::optional<ThinkingMarkers> thinking_markers() const override { return thinking_markers_; }
  const std::string& sha256() const override { return sha256_; }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeWrapped(ChatText wrapped) const {
    if (!as_text_) wrapped.plain_parts.clear();
    return EncodeChat(*tokenizer_, wrapped);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatFormat> chat_format_;  // null: plain prompts
  const bool as_text_;
  const std::optional<ThinkingMarkers> thinking_markers_;
  const std::string sha256_;
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> TokenCounter::EncodeContext(absl::string_view prompt,
                                                                 absl::string_view given) const {
  const std::string text = absl::StrCat(prompt, given);
  return EncodePrompt(PythonRightStrip(text));
}

absl::StatusOr<std::vector<int32_t>> TokenCounter::EncodeAnswered(const std::optional<std::string>&,
                                                                  absl::string_view prompt,
                                                                  absl::string_view answer) const {
  return EncodePrompt(absl::StrCat(prompt, answer));
}

std::shared_ptr<const TokenCounter> MakeTokenCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                     std::shared_ptr<const ChatFormat> chat_format,
                                                     SpecialTokens special_tokens) {
  const std::string sha256 = tokenizer->sha256();
  return std::make_shared<TokenizerCounter>(std::move(tokenizer), chat_format, true, special_tokens, sha256);
}

std::shared_ptr<const TokenCounter> MakeVariantCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                       std::shared_ptr<const ChatFormat> chat_format, bool is_chat,
                                                       std::optional<bool> thinking) {
  std::string sha256 = VariantTokenizerSha256(tokenizer->sha256(), chat_format.get(), thinking);
  if (thinking.has_value()) chat_format = std::make_shared<const ChatFormat>(chat_format->WithThinking(*thinking));
  return std::make_shared<TokenizerCounter>(std::move(tokenizer), chat_format, is_chat, SpecialTokens::kAsText,
                                            std::move(sha256));
}

absl::Status CheckCanWrite(const Tokenizer& tokenizer, const ThinkingMarkers& markers, absl::string_view model) {
  for (const std::string& marker : {markers.begin, markers.end}) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(marker, {.add_special_tokens = false}));
    ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(ids, {.keep_special_tokens = true}));
    if (absl::StripAsciiWhitespace(text) == absl::StripAsciiWhitespace(marker)) continue;
    return InvalidArgument("the marker of thinking \"", marker, "\" is none that ", model,
                           " can write: its tokens are those of \"", text, "\"");
  }
  return absl::OkStatus();
}

std::string VariantTokenizerSha256(const std::string& tokenizer_sha256, const ChatFormat* chat_format,
                                   std::optional<bool> thinking) {
  if (!thinking.has_value()) return tokenizer_sha256;
  const std::string content = chat_format->WithThinking(*thinking).ContentSha256();
  if (content == chat_format->ContentSha256()) return tokenizer_sha256;
  return Sha256Hex(absl::StrCat(tokenizer_sha256, " thinking ", content));
}

}  // namespace varifocal
