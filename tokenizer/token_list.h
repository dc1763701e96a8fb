// Added tokens with their flags, as the files of a directory state them and as the library keeps them.
//
// Errors:  INVALID_ARGUMENT with the place: a malformed entry.
// Threads: any; a TokenList is of one thread.
// Source:  tokenizers 0.22 and 0.23, added_vocabulary.rs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "base/json.h"
#include "tokenizer/vocabulary.h"

namespace varifocal {

// Members of what may be no object, or lack them: null and "".
const Json& MemberOf(const Json& object, absl::string_view key);
std::string StringOf(const Json& object, absl::string_view key);

struct FlaggedToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = false, special = false;
  bool operator==(const FlaggedToken&) const = default;
};

inline FlaggedToken PlainSpecial(absl::string_view content) {
  return {.content = std::string(content), .special = true};
}

// `is_special`: whatever the entry has.
absl::StatusOr<FlaggedToken> ReadFlaggedToken(const Json& json, const std::string& place, bool is_special = false);

// A value of a special token: a string, or an object with flags.
struct SpecialToken {
  FlaggedToken token;
  bool is_text = false;  // a string: flags are not stated
};

// `any_object`: of special_tokens_map.json; in tokenizer_config.json objects have "__type": "AddedToken".
absl::StatusOr<SpecialToken> ReadSpecialToken(const Json& json, const std::string& place, bool any_object);

// Added tokens as the library keeps them: a token is placed at its id in the vocabulary or behind all ids; one whose
// content is there already takes the new flags, and remains special.
class TokenList {
 public:
  explicit TokenList(const Vocabulary& vocabulary) : vocabulary_(&vocabulary) {}

  // In one call of the library, until version 0.22 or newer. The older one leaves out tokens that are equal to one from
  // before the call, and still finds a special token in the text as it was, before normalization, where it once did.
  void AddAll(const std::vector<FlaggedToken>& tokens, bool is_older) {
    std::vector<FlaggedToken> added;
    for (const FlaggedToken& token : tokens) {
      if (!is_older || !HoldsExactly(token)) added.push_back(token);
    }
    for (const FlaggedToken& token : added) Add(token, is_older);
  }
  void Add(const FlaggedToken& token, bool is_older) {
    if (token.content.empty()) return;
    if (const auto found = by_content_.find(token.content); found != by_content_.end()) {
      FlaggedToken& other = tokens_[found->second].second;
      const FlaggedToken before = std::exchange(other, token);
      other.special = token.special || before.special;
      if (is_older && before.special && !before.normalized) other.normalized = false;
      return;
    }
    int32_t id = std::max<int32_t>(vocabulary_->entry_count(), id_max_ + 1);
    if (const auto known = vocabulary_->Find(token.content)) id = *known;
    Place(id, token);
  }
  void Place(int32_t id, FlaggedToken token) {
    id_max_ = std::max(id_max_, id);
    by_content_.emplace(token.content, tokens_.size());
    tokens_.emplace_back(id, std::move(token));
  }
  const std::pair<int32_t, FlaggedToken>* Find(absl::string_view content) const {
    const auto found = by_content_.find(content);
    return found == by_content_.end() ? nullptr : &tokens_[found->second];
  }
  bool HoldsExactly(const FlaggedToken& token) const {
    const std::pair<int32_t, FlaggedToken>* found = Find(token.content);
    return found != nullptr && found->second == token;
  }
  std::optional<int32_t> IdOf(absl::string_view content) const {
    if (const auto* found = Find(content)) return found->first;
    return vocabulary_->Find(content);
  }
  const std::vector<std::pair<int32_t, FlaggedToken>>& tokens() const { return tokens_; }

  Json ToJson() const {
    Json list = Json::array();
    for (const auto& [id, token] : tokens_) {
      list.push_back({{"id", id},
                      {"content", token.content},
                      {"single_word", token.single_word},
                      {"lstrip", token.lstrip},
                      {"rstrip", token.rstrip},
                      {"normalized", token.normalized},
                      {"special", token.special}});
    }
    return list;
  }

 private:
  const Vocabulary* vocabulary_;
  std::vector<std::pair<int32_t, FlaggedToken>> tokens_;
  absl::flat_hash_map<std::string, size_t> by_content_;  // index into tokens_
  int32_t id_max_ = -1;
};

}  // namespace varifocal
