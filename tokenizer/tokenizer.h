// Text to token ids and back, as specified by a Hugging Face `tokenizer.json`.
//
// A file selects a normalizer, pre-tokenizer, model, post-processor, decoder, and added tokens, which are matched before
// any other step. Each type is looked up in a table (normalizers.h, pre_tokenizers.h, subword_models.h,
// post_processors.h, decoders.h); a type in no table is rejected by name, never skipped.
//
// Errors:  INVALID_ARGUMENT names the file, the key and the value; NOT_FOUND when there is no tokenizer.json;
//          RESOURCE_EXHAUSTED for a text of more ids than asked for.
//          Text that is not UTF-8 is not an error: every ill-formed sequence becomes one U+FFFD (the maximal-subpart
//          rule of the Unicode standard, which Python and Rust follow) and is counted. NUL bytes are ordinary characters.
// Threads: any number may use one Tokenizer; a word cache is used by one call at a time.
// Cost:    linear in the text; a word of n characters that no pre-tokenizer splits costs O(n log n) at most.
// Source:  ids, offsets and text equal those of the `tokenizers` library (0.23), which the golden files come from; with
//          files beside tokenizer.json, those of transformers (token_rules.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tokenizer/text_range.h"
#include "tokenizer/token_rules.h"

namespace varifocal {

inline constexpr size_t kBytesPerIdMax = 4;

struct EncodeOptions {
  bool add_special_tokens = true;       // of the post-processor, e.g. the BOS token
  bool special_tokens_as_text = false;  // "<|end|>" inside a text is seven characters, not one token
  // The same for these ranges of the text, sorted and disjoint: a special token that overlaps one is text.
  absl::Span<const TextRange> plain_parts = {};
  // RESOURCE_EXHAUSTED as soon as there are more ids, or the normalized text has more than kBytesPerIdMax bytes for each of
  // them: the rest is not encoded. 0: no limit. Ids that the post-processor appends are not counted.
  size_t ids_max = 0;
  int64_t* invalid_utf8_count = nullptr;  // when set, the number of ill-formed sequences replaced is added to it
};

// Ids, and for each one the range of the text that it represents: whole characters, so that tokens that share a
// character overlap. Special tokens added by the post-processor have the range {0, 0}.
struct EncodedText {
  std::vector<int32_t> ids;
  std::vector<TextRange> offsets;
};

struct DecodeOptions {
  bool keep_special_tokens = false;
  bool ignore_unknown_ids = false;  // an id with no token (a padded embedding row) gives no text instead of an error
};

class Tokenizer {
 public:
  // A directory with a tokenizer.json and perhaps the files of token_rules.h, or a tokenizer.json alone.
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> Load(const std::string& directory_or_file,
                                                               TokenizerRules rules = TokenizerRules::kAgreed);
  static absl::StatusOr<std::shared_ptr<const Tokenizer>> FromJson(absl::string_view json, const SideFiles& files = {},
                                                                   TokenizerRules rules = TokenizerRules::kAgreed);
  // "; vocab.json is not read, ..": of a directory that has a tokenizer in another format, else "".
  static std::string OtherFormatHint(const std::string& directory);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  absl::StatusOr<std::vector<int32_t>> Encode(absl::string_view text, const EncodeOptions& options = {}) const;
  // With the `tokenizers` library's "offsets", in bytes of `text` (of the repaired text where that is not UTF-8). Takes
  // several times as long as Encode.
  absl::StatusOr<EncodedText> EncodeWithOffsets(absl::string_view text, const EncodeOptions& options = {}) const;
  // The number of ids that Encode returns; repeated words cost a look-up.
  absl::StatusOr<int64_t> CountTokens(absl::string_view text, const EncodeOptions& options = {}) const;
  // Invalid UTF-8 becomes U+FFFD, so the text is always UTF-8.
  absl::StatusOr<std::string> Decode(absl::Span<const int32_t> ids, const DecodeOptions& options = {}) const;

  std::optional<int32_t> TokenToId(absl::string_view token) const;
  std::optional<std::string> IdToToken(int32_t id) const;  // as in tokenizer.json; added ones normalized
  bool IsSpecial(int32_t id) const;
  int vocab_size() const;  // one more than the largest id
  // Identifies everything that determines ids, in hex: of tokenizer.json's bytes, and of what other files change, if
  // anything.
  const std::string& sha256() const;
  const std::vector<std::string>& notes() const;  // for the user: what was left out or added, a sentence each

 private:
  struct Parts;
  struct Trace;
  absl::Status EncodeInto(absl::string_view text, const EncodeOptions& options, std::vector<int32_t>& ids,
                          Trace* trace) const;
  explicit Tokenizer(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace varifocal
