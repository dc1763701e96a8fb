// Byte-pair encoding: a word becomes its characters, then the listed pair of lowest rank merges, leftmost first, until
// no listed pair is left.
//
// A long word is first split where no listed merge can cross; with SentencePiece-style files, where the whole text is
// one word, this recovers the words, which are then cached. Short pieces are scanned repeatedly for their best pair;
// long ones keep, per rank, the positions of that pair. The ids are the same.
//
// Errors:  INVALID_ARGUMENT for a vocabulary or merges list that contradicts itself.
// Cost:    O(n log n) for a word of n characters and about linear in practice, with 20 bytes per character.
// Source:  Sennrich et al. 2016, arXiv:1508.07909; order of merges as in the `tokenizers` library.
#pragma once

#include <array>
#include <bitset>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/subword_model.h"

namespace varifocal {

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeBpe(const Json& model, bool words_are_bytes);

class Bpe : public SubwordModel {
 public:
  static absl::StatusOr<std::unique_ptr<Bpe>> FromJson(const Json& model, bool words_are_bytes);

 private:
  struct Merge {
    uint32_t rank;
    int32_t id;
  };
  // Ids of one character's symbols (several only when it is encoded as bytes); `symbol` identifies frequent characters.
  struct Character {
    int32_t first = -1, last = -1;
    int symbol = -1;
    int length = 0;
  };

  explicit Bpe(Vocabulary vocabulary) : SubwordModel(std::move(vocabulary)) {}
  absl::Status ReadMerges(const Json& model);
  absl::Status ReadOptions(const Json& model);
  void FindJoints();
  void IndexCharacters();
  void IndexFrequentJoints();
  bool has_affixes() const { return !continuing_prefix_.empty() || !end_suffix_.empty(); }
  const Merge* FindMerge(int32_t left, int32_t right) const;
  int32_t CharacterId(uint32_t point) const;
  int32_t SpelledCharacterId(absl::string_view character) const;
  bool ReadCharacter(absl::string_view rest, Character* out) const;
  bool IsJoint(const Character& left, const Character& right) const;

  absl::Status EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const override;
  absl::Status EncodeLong(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const override;
  std::optional<int32_t> FindWhole(absl::string_view word) const;
  void AppendSymbols(absl::string_view word, std::vector<int32_t>& ids) const;
  bool AppendSymbolsByTable(absl::string_view word, std::vector<int32_t>& ids) const;
  void FindRanges(absl::string_view word, absl::Span<const int32_t> ids, std::vector<TextRange>& ranges) const override;
  // `sizes`, unless null, receives the number of bytes of the word that each symbol covers.
  void AppendSpelledSymbols(absl::string_view word, std::vector<int32_t>& ids, std::vector<size_t>* sizes) const;
  void MergePieces(std::vector<int32_t>& ids, size_t begin) const;
  void MergeShort(std::vector<int32_t>& ids, size_t begin) const;
  void MergeLong(std::vector<int32_t>& ids, size_t begin) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;
  absl::flat_hash_set<uint64_t> joints_;  // pairs of characters' ids that some merge joins
  bool cuts_words_ = false;               // splits words between characters that are no joint; not with affixes
  std::bitset<65536> frequent_joints_;    // the same for two frequent characters, by (left symbol, right symbol)
  std::optional<int32_t> unknown_id_;
  std::string continuing_prefix_, end_suffix_;
  bool fuse_unknown_ = false, byte_fallback_ = false, ignore_merges_ = false, words_are_bytes_ = false;
  std::vector<int32_t> point_ids_;  // id of a character below U+10000, or -1; of a byte when words are bytes
  std::optional<std::array<int32_t, 256>> fallback_ids_;      // <0x00> to <0xFF>, when used
  absl::flat_hash_map<std::string, int32_t> vocab_of_bytes_;  // for ignore_merges on raw bytes
};

}  // namespace varifocal
