#include "tokenizer/word_lookup.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"

namespace varifocal {
namespace {

class WordLookup : public SubwordModel {
 public:
  WordLookup(Vocabulary vocabulary, int32_t unknown_id, std::optional<std::string> prefix, int64_t character_count_max,
             bool words_are_bytes)
      : SubwordModel(std::move(vocabulary)),
        unknown_id_(unknown_id),
        prefix_(std::move(prefix)),
        character_count_max_(character_count_max),
        words_are_bytes_(words_are_bytes) {
    for (const std::string& token : vocabulary_.tokens()) token_bytes_max_ = std::max(token_bytes_max_, token.size());
  }

 private:
  absl::Status EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const override {
    std::string spelled;
    if (words_are_bytes_) {
      AppendByteLevel(word, spelled);
      word = spelled;
    }
    const size_t before = ids.size();
    if (!prefix_.has_value()) {
      ids.push_back(vocabulary_.Find(word).value_or(unknown_id_));
    } else if (CountCharacters(word) > character_count_max_ || !AppendPieces(word, ids)) {
      ids.resize(before);
      ids.push_back(unknown_id_);
    }
    return absl::OkStatus();
  }

  void FindRanges(absl::string_view word, absl::Span<const int32_t> ids,
                  std::vector<TextRange>& ranges) const override {
    size_t at = 0;
    for (const int32_t id : ids) {
      const size_t prefix_size = at == 0 || !prefix_.has_value() ? 0 : prefix_->size();
      const size_t end = ids.size() == 1 ? word.size() : at + vocabulary_.tokens()[id].size() - prefix_size;
      ranges.push_back({at, end});
      at = end;
    }
  }

  static int64_t CountCharacters(absl::string_view word) {
    return std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; });
  }

  bool AppendPieces(absl::string_view word, std::vector<int32_t>& ids) const {
    for (bool first = true; !word.empty(); first = false) {
      const std::string candidate = absl::StrCat(first ? "" : *prefix_, word.substr(0, token_bytes_max_));
      const size_t prefix_size = first ? 0 : prefix_->size();
      size_t size = candidate.size();
      std::optional<int32_t> id;
      for (; size > prefix_size; --size) {  // no token ends inside a character
        id = vocabulary_.Find(absl::string_view(candidate).substr(0, size));
        if (id.has_value()) break;
      }
      if (!id.has_value()) return false;
      ids.push_back(*id);
      word.remove_prefix(size - prefix_size);
    }
    return true;
  }

  const int32_t unknown_id_;
  const std::optional<std::string> prefix_;  // of pieces inside a word; none: whole words only
  const int64_t character_count_max_;        // longer words are unknown
  const bool words_are_bytes_;
  size_t token_bytes_max_ = 0;
};

absl::StatusOr<std::unique_ptr<const SubwordModel>> Make(const Json& model, std::optional<std::string> prefix,
                                                         int64_t character_count_max, bool words_are_bytes) {
  ASSIGN_OR_RETURN(const Json* vocab, GetMember(model, "vocab"));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(*vocab));
  ASSIGN_OR_RETURN(std::string unknown, GetString(model, "unk_token"));
  const auto unknown_id = vocabulary.Find(unknown);
  if (!unknown_id.has_value()) return InvalidArgument("\"unk_token\" is \"", unknown, "\", which is not in \"vocab\"");
  return std::make_unique<WordLookup>(std::move(vocabulary), *unknown_id, std::move(prefix), character_count_max,
                                      words_are_bytes);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordPiece(const Json& model, bool words_are_bytes) {
  RETURN_IF_ERROR(
      CheckKeys(model, "model", {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}));
  ASSIGN_OR_RETURN(std::string prefix, GetString(model, "continuing_subword_prefix"));
  ASSIGN_OR_RETURN(int64_t character_count_max, GetInt(model, "max_input_chars_per_word"));
  return Make(model, std::move(prefix), character_count_max, words_are_bytes);
}

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeWordLevel(const Json& model, bool words_are_bytes) {
  RETURN_IF_ERROR(CheckKeys(model, "model", {"unk_token", "vocab"}));
  return Make(model, std::nullopt, 0, words_are_bytes);
}

}  // namespace varifocal
