#include "client/tokenizers.h"

#include <ostream>
#include <utility>

#include "base/status_macros.h"
#include "client/daemon.h"
#include "client/models.h"
#include "client/usage.h"

namespace varifocal::client {
namespace {

class LocalCoder : public TextCoder {
 public:
  explicit LocalCoder(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  absl::StatusOr<std::vector<int32_t>> Encode(const std::string& text, const TextEncodeOptions& options) override {
    return tokenizer_->Encode(text, {.add_special_tokens = !options.no_special_tokens,
                                     .special_tokens_as_text = options.special_tokens_as_text,
                                     .invalid_utf8_count = &invalid_utf8_count_});
  }
  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids, bool keep_special_tokens) override {
    return tokenizer_->Decode(ids, {.keep_special_tokens = keep_special_tokens});
  }
  int64_t invalid_utf8_count() const override { return invalid_utf8_count_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  int64_t invalid_utf8_count_ = 0;
};

class RemoteCoder : public TextCoder {
 public:
  RemoteCoder(std::unique_ptr<Daemon> daemon, std::string model)
      : daemon_(std::move(daemon)), model_(std::move(model)) {}

  absl::StatusOr<std::vector<int32_t>> Encode(const std::string& text, const TextEncodeOptions& options) override {
    v1::TokenizeRequest request;
    request.set_model(model_);
    request.set_text(text);
    request.set_no_special_tokens(options.no_special_tokens);
    request.set_special_tokens_as_text(options.special_tokens_as_text);
    ASSIGN_OR_RETURN(const v1::TokenizeResponse response,
                     Call(daemon_->inference(), &v1::Inference::Stub::Tokenize, request));
    invalid_utf8_count_ += response.invalid_utf8_count();
    return std::vector<int32_t>(response.token_ids().begin(), response.token_ids().end());
  }
  absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids, bool keep_special_tokens) override {
    v1::DetokenizeRequest request;
    request.set_model(model_);
    request.mutable_token_ids()->Add(ids.begin(), ids.end());
    request.set_keep_special_tokens(keep_special_tokens);
    ASSIGN_OR_RETURN(v1::DetokenizeResponse response,
                     Call(daemon_->inference(), &v1::Inference::Stub::Detokenize, request));
    return std::move(*response.mutable_text());
  }
  int64_t invalid_utf8_count() const override { return invalid_utf8_count_; }

 private:
  std::unique_ptr<Daemon> daemon_;
  std::string model_;
  int64_t invalid_utf8_count_ = 0;
};

}  // namespace

void TokenizerFlags::AddTo(FlagSet& flags) {
  flags
      .Add("tokenizer-rules", &rules, "4|5",
           "tokens as transformers 4 or 5 makes them, where these read the tokenizer's files differently")
      .Among({"4", "5"});
}

TokenizerRules TokenizerFlags::Rules() const {
  return *ParseTokenizerRules(rules.value_or(""));  // one of the choices
}

absl::StatusOr<std::shared_ptr<const Tokenizer>> TokenizerFlags::Load(const std::string& directory,
                                                                      Console& console) const {
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, Tokenizer::Load(directory, Rules()));
  for (const std::string& note : tokenizer->notes()) console.err << "Note: " << directory << ": " << note << ".\n";
  return tokenizer;
}

absl::StatusOr<std::unique_ptr<TextCoder>> OpenTextCoder(const std::string& model, const TokenizerFlags& flags,
                                                         const GlobalFlags& global, Console& console) {
  if (global.daemon_given) {
    if (flags.AnyGiven())
      return UsageError("With --daemon the tokenizer is the daemon's; leave out --tokenizer-rules.");
    ASSIGN_OR_RETURN(std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
    return std::make_unique<RemoteCoder>(std::move(daemon), ModelResourceOf(model));
  }
  ASSIGN_OR_RETURN(std::shared_ptr<const Tokenizer> tokenizer, flags.Load(model, console));
  return std::make_unique<LocalCoder>(std::move(tokenizer));
}

}  // namespace varifocal::client
