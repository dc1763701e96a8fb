// Encoding and decoding for the verbs: by a local tokenizer.json, or by a daemon's model.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/console.h"
#include "client/flags.h"
#include "client/verb.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::client {

// --tokenizer-rules, of every verb that reads a tokenizer in this process.
struct TokenizerFlags {
  std::optional<std::string> rules;

  void AddTo(FlagSet& flags);
  bool AnyGiven() const { return rules.has_value(); }
  TokenizerRules Rules() const;
  // Tokenizer::Load, and its notes on standard error.
  absl::StatusOr<std::shared_ptr<const Tokenizer>> Load(const std::string& directory, Console& console) const;
};

struct TextEncodeOptions {
  bool no_special_tokens = false;
  bool special_tokens_as_text = false;
};

class TextCoder {
 public:
  virtual ~TextCoder() = default;
  virtual absl::StatusOr<std::vector<int32_t>> Encode(const std::string& text, const TextEncodeOptions& options) = 0;
  virtual absl::StatusOr<std::string> Decode(const std::vector<int32_t>& ids, bool keep_special_tokens) = 0;
  // Number of invalid UTF-8 sequences in all texts so far.
  virtual int64_t invalid_utf8_count() const = 0;
};

// `model` is a directory, or the name of a daemon's model when --daemon was given.
absl::StatusOr<std::unique_ptr<TextCoder>> OpenTextCoder(const std::string& model, const TokenizerFlags& flags,
                                                         const GlobalFlags& global, Console& console);

}  // namespace varifocal::client
