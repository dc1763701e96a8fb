// The model of a tokenizer: maps a word to vocabulary ids.
//
// Ids of short words are cached.
//
// Errors:  INVALID_ARGUMENT for a word that cannot be spelled (only where a file names no unknown token).
// Threads: const use from any number of threads; a WordCache belongs to one call at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "tokenizer/text_range.h"
#include "tokenizer/vocabulary.h"

namespace varifocal {

using WordCache = absl::flat_hash_map<std::string, absl::InlinedVector<int32_t, 4>>;

class SubwordModel {
 public:
  virtual ~SubwordModel() = default;

  // Appends the ids of `word`, which is not empty.
  absl::Status Encode(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;
  // Appends the range of `word` that each of `ids`, the result of Encode, covers, as the library reports it. The word
  // uses the vocabulary's alphabet, also where Encode is given bytes.
  virtual void FindRanges(absl::string_view word, absl::Span<const int32_t> ids,
                          std::vector<TextRange>& ranges) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  explicit SubwordModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) { single_byte_ids_.fill(-1); }
  absl::Status EncodeCached(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;
  virtual absl::Status EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const = 0;
  // A word too long to be cached as a whole; its parts may be.
  virtual absl::Status EncodeLong(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
    (void)cache;
    return EncodeUncached(word, ids);
  }

  static constexpr size_t kCachedWordBytesMax = 64;  // longer words seldom repeat
  Vocabulary vocabulary_;
  std::array<int32_t, 256> single_byte_ids_;  // the id of a word of one byte, or -1: not precomputed
};

}  // namespace varifocal
