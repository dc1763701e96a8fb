// Encoding and decoding for the verbs: by a local tokenizer.json, or by a daemon's model.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/verb.h"

namespace varifocal::client {

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
absl::StatusOr<std::unique_ptr<TextCoder>> OpenTextCoder(const std::string& model, const GlobalFlags& global);

}  // namespace varifocal::client
