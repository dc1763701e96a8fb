#include "eval_tasks/token_counter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

class TokenizerCounter : public TokenCounter {
 public:
  TokenizerCounter(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatFormat> chat_format,
                   SpecialTokens special_tokens)
      : tokenizer_(std::move(tokenizer)),
        chat_format_(std::move(chat_format)),
        as_text_(special_tokens == SpecialTokens::kAsText) {}

  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    if (chat_format_ == nullptr) return tokenizer_->Encode(text, {.special_tokens_as_text = as_text_});
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->Wrap(text));
    return EncodeWrapped(std::move(wrapped));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& system,
                                                          absl::string_view text) const override {
    if (chat_format_ == nullptr || !chat_format_->with_system.has_value()) return EncodePrompt(text);
    ASSIGN_OR_RETURN(ChatText wrapped, chat_format_->Wrap(text, system));
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
  absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t> ids) const override {
    DecodeOptions options;
    options.keep_special_tokens = true;
    return tokenizer_->Decode(ids, options);
  }
  absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view text) const override {
    ASSIGN_OR_RETURN(EncodedText encoded, tokenizer_->EncodeWithOffsets(text, {.special_tokens_as_text = as_text_}));
    return std::move(encoded.offsets);
  }
  const std::string& sha256() const override { return tokenizer_->sha256(); }

 private:
  absl::StatusOr<std::vector<int32_t>> EncodeWrapped(ChatText wrapped) const {
    if (!as_text_) wrapped.plain_parts.clear();
    return EncodeChat(*tokenizer_, wrapped);
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatFormat> chat_format_;  // null: plain prompts
  const bool as_text_;
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
  return std::make_shared<TokenizerCounter>(std::move(tokenizer), std::move(chat_format), special_tokens);
}

}  // namespace varifocal
