#include "eval_tasks/token_counter.h"

#include <utility>

#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

class TokenizerCounter : public TokenCounter {
 public:
  explicit TokenizerCounter(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<std::vector<int32_t>> EncodePrompt(absl::string_view text) const override {
    return tokenizer_->Encode(text);
  }
  absl::StatusOr<std::vector<int32_t>> EncodePiece(absl::string_view text) const override {
    EncodeOptions options;
    options.add_special_tokens = false;
    return tokenizer_->Encode(text, options);
  }
  const std::string& sha256() const override { return tokenizer_->sha256(); }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace

std::shared_ptr<const TokenCounter> MakeTokenCounter(std::shared_ptr<const Tokenizer> tokenizer) {
  return std::make_shared<TokenizerCounter>(std::move(tokenizer));
}

}  // namespace varifocal
