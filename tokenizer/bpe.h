// Byte-pair encoding: a word becomes its characters, then the listed pair of lowest rank merges, leftmost first, until
// no listed pair is left.
//
// A word is first cut where no listed merge could ever reach across. Short pieces are scanned for their best pair again
// and again; long ones keep, per rank, the positions where that pair stands. All of it gives the same ids.
//
// Errors:  INVALID_ARGUMENT for a vocabulary or merges list that contradicts itself.
// Threads: const use from any number of threads; a WordCache belongs to one call at a time.
// Cost:    O(n log n) for a word of n characters and about linear in practice, with 20 bytes per character.
// Source:  Sennrich et al. 2016, arXiv:1508.07909; order of merges as in the `tokenizers` library.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

using WordCache = absl::flat_hash_map<std::string, absl::InlinedVector<int32_t, 4>>;

class Bpe {
 public:
  // `model` is tokenizer.json's "model". With `words_are_bytes`, Encode is given raw bytes and the vocabulary spells
  // them in the byte-level alphabet.
  static absl::StatusOr<Bpe> FromJson(const Json& model, bool words_are_bytes);

  // Appends the ids of `word`, which is not empty.
  void Encode(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const;

  std::optional<int32_t> TokenToId(absl::string_view token) const;
  // Indexed by id; empty where the vocabulary skips an id.
  const std::vector<std::string>& tokens() const { return tokens_; }
  bool has_id(int32_t id) const;
  size_t entry_count() const { return vocab_.size(); }

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  absl::Status ReadVocab(const Json& model);
  absl::Status ReadMerges(const Json& model);
  absl::Status ReadOptions(const Json& model);
  void FindJoints();
  const Merge* FindMerge(int32_t left, int32_t right) const;
  void EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const;
  void AppendCharacterIds(absl::string_view word, std::vector<int32_t>& ids) const;
  void MergeShort(std::vector<int32_t>& ids, size_t begin) const;
  void MergeLong(std::vector<int32_t>& ids, size_t begin) const;

  absl::flat_hash_map<std::string, int32_t> vocab_;
  absl::flat_hash_map<uint64_t, Merge> merges_;
  // Pairs of characters' ids that some merge brings together; empty when affixes make characters depend on their place.
  absl::flat_hash_set<uint64_t> joints_;
  std::vector<std::string> tokens_;
  std::vector<bool> present_;
  std::optional<int32_t> unknown_id_;
  std::string continuing_prefix_, end_suffix_;
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false, words_are_bytes_ = false;
  std::array<int32_t, 256> byte_ids_{};                       // id of a byte's character, or -1
  absl::flat_hash_map<std::string, int32_t> vocab_of_bytes_;  // for ignore_merges on raw bytes
};

}  // namespace varifocal
