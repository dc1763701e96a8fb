// Added tokens, e.g. "<|end|>": matched before tokenization and always one token.
//
// Two tries match them, leftmost and longest first: one on the original text, one, for tokens marked "normalized", on
// the normalized text between the matches of the first.
//
// Errors:  INVALID_ARGUMENT for an entry whose id contradicts the vocabulary, or that repeats another.
// Threads: const use from any number of threads.
// Cost:    linear in the text times the length of the longest added token at worst.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/vocabulary.h"

namespace varifocal {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  std::string pattern;       // text to match and result of decoding: the content, normalized when marked so
  bool single_word = false;  // not inside a longer word
  bool lstrip = false;       // also matches the spaces before it
  bool rstrip = false;       // also matches the spaces after it
  bool normalized = false;   // matched, normalized, against the normalized text
  bool special = false;
};

// A segment of text, or an added token found in it.
struct AddedTokenCut {
  std::optional<int32_t> id;
  absl::string_view text;  // of a token including the stripped spaces
};

class AddedTokens {
 public:
  // `list` is tokenizer.json's "added_tokens"; ids beyond the vocabulary continue it.
  static absl::StatusOr<AddedTokens> FromJson(const Json& list, const Vocabulary& vocabulary,
                                              const Normalizers& normalizers);

  // Splits `text` at the tokens that are matched before (or after) normalization. A special token at [begin, end) for
  // which `is_plain` returns true is text.
  void Cut(absl::string_view text, bool after_normalization, absl::FunctionRef<bool(size_t begin, size_t end)> is_plain,
           std::vector<AddedTokenCut>& out) const;

  bool has_normalized() const { return !tries_[1].tokens.empty(); }
  const std::vector<AddedToken>& tokens() const { return tokens_; }
  const AddedToken* Find(int32_t id) const;
  // The library identifies special tokens by their text: another entry with that text is special too, and a token whose
  // text is changed by normalization is not.
  bool IsSpecialContent(absl::string_view text) const { return special_contents_.contains(text); }
  std::optional<int32_t> TokenToId(absl::string_view content) const;

 private:
  struct Trie {
    std::vector<int> tokens;                   // indices into tokens_
    absl::flat_hash_map<uint64_t, int> child;  // (node, byte) -> node
    std::vector<int> token_at = {-1};          // node -> index into tokens_, or -1
    std::vector<bool> starts = std::vector<bool>(256);
    void Add(absl::string_view pattern, int token);
    // Longest pattern at the start of `text`: its token, and its length in *size; -1 when there is none.
    int Match(absl::string_view text, size_t* size) const;
  };
  std::vector<AddedToken> tokens_;
  absl::flat_hash_map<int32_t, int> by_id_;
  absl::flat_hash_map<std::string, int32_t> by_content_;
  absl::flat_hash_set<std::string> special_contents_;
  Trie tries_[2];
};

}  // namespace varifocal
