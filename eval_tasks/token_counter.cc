#include "eval_tasks/token_counter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/python_text.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

class TokenizerCounter : public TokenCounter {
 public:
  TokenizerCounter(std::shared_ptr<const Tokenizer> tokenizer, std::shared_ptr<const ChatFormat> chat_format)
      : tokenizer_(std::move(tokenizer)), chat_format_(std::move(chat_format)) {}

  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    if (chat_format_ == nullptr) return tokenizer_->Encode(text);
    ASSIGN_OR_RETURN(const std::string wrapped, chat_format_->Wrap(text));
    return EncodeChat(*tokenizer_, wrapped);
  }
  absl::StatusOr<std::vector<int32_t>> EncodeConversation(const std::string& system,
                                                          absl::string_view text) const override {
    if (chat_format_ == nullptr || !chat_format_->with_system.has_value()) return EncodePrompt(text);
    ASSIGN_OR_RETURN(const std::string wrapped, chat_format_->Wrap(text, system));
    return EncodeChat(*tokenizer_, wrapped);
  }
  absl::StatusOr<std::vector<int32_t>> EncodePromptStart(absl::string_view text) const override {
    if (chat_format_ == nullptr) return EncodePrompt(text);
    return EncodeChat(*tokenizer_, chat_format_->WrapStart(text));
  }
  absl::StatusOr<std::vector<int32_t>> EncodeContext(absl::string_view prompt, absl::string_view given) const override {
    if (chat_format_ == nullptr) return TokenCounter::EncodeContext(prompt, given);
    ASSIGN_OR_RETURN(const std::string wrapped, chat_format_->Wrap(prompt));
    return EncodeChat(*tokenizer_, absl::StrCat(wrapped, given));
  }
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    EncodeOptions options;
    options.add_special_tokens = false;
    return tokenizer_->Encode(text, options);
  }
  absl::StatusOr<std::string> DecodePiece(absl::Span<const int32_t> ids) const override {
    DecodeOptions options;
    options.keep_special_tokens = true;
    return tokenizer_->Decode(ids, options);
  }
  absl::StatusOr<std::vector<TextRange>> TokenOffsets(absl::string_view text) const override {
    ASSIGN_OR_RETURN(EncodedText encoded, tokenizer_->EncodeWithOffsets(text));
    return std::move(encoded.offsets);
  }
  const std::string& sha256() const override { return tokenizer_->sha256(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::shared_ptr<const ChatFormat> chat_format_;  // null: prompts are texts
};

}  // namespace

absl::StatusOr<std::vector<int32_t>> TokenCounter::EncodeContext(absl::string_view prompt,
                                                                 absl::string_view given) const {
  const std::string text = absl::StrCat(prompt, given);
  return EncodePrompt(PythonRightStrip(text));
}

std::shared_ptr<const TokenCounter> MakeTokenCounter(std::shared_ptr<const Tokenizer> tokenizer,
                                                     std::shared_ptr<const ChatFormat> chat_format) {
  return std::make_shared<TokenizerCounter>(std::move(tokenizer), std::move(chat_format));
}

}  // namespace varifocal
