#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "tokenizer/component.h"
#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

uint64_t ChildKey(int node, uint8_t byte) { return static_cast<uint64_t>(node) << 8 | byte; }

uint16_t ClassesBefore(absl::string_view text, size_t at, size_t* begin) {
  *begin = at - 1;
  while (*begin > 0 && (text[*begin] & 0xC0) == 0x80) --*begin;
  uint32_t point = 0;
  ReadValidUtf8(text.data() + *begin, &point);
  return UnicodeClasses()[point];
}

uint16_t ClassesAt(absl::string_view text, size_t at, size_t* end) {
  uint32_t point = 0;
  *end = at + ReadValidUtf8(text.data() + at, &point);
  return UnicodeClasses()[point];
}

// Whether the token at [begin, end) is a separate word.
bool IsSingleWord(absl::string_view text, size_t begin, size_t end) {
  size_t ignored = 0;
  if (begin > 0 && (ClassesBefore(text, begin, &ignored) & kWord) != 0) return false;
  return end == text.size() || (ClassesAt(text, end, &ignored) & kWord) == 0;
}

size_t SpacesBegin(absl::string_view text, size_t at, size_t lowest) {
  size_t begin = 0;
  while (at > lowest && (ClassesBefore(text, at, &begin) & kSpace) != 0) at = begin;
  return at;
}

size_t SpacesEnd(absl::string_view text, size_t at) {
  size_t end = 0;
  while (at < text.size() && (ClassesAt(text, at, &end) & kSpace) != 0) at = end;
  return at;
}

absl::StatusOr<AddedToken> ReadAddedToken(const Json& json, size_t index) {
  const std::string place = absl::StrCat("added_tokens[", index, "]");
  RETURN_IF_ERROR(
      CheckKeys(json, place, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  AddedToken token;
  auto read = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(int64_t id, GetInt(json, "id"));
    if (id < 0 || id >= 1 << 24) return InvalidArgument("\"id\" is ", id, ", not between 0 and ", (1 << 24) - 1);
    token.id = id;
    ASSIGN_OR_RETURN(token.content, GetString(json, "content"));
    ASSIGN_OR_RETURN(token.single_word, GetBool(json, "single_word"));
    ASSIGN_OR_RETURN(token.lstrip, GetBool(json, "lstrip"));
    ASSIGN_OR_RETURN(token.rstrip, GetBool(json, "rstrip"));
    ASSIGN_OR_RETURN(token.normalized, GetBool(json, "normalized"));
    ASSIGN_OR_RETURN(token.special, GetBool(json, "special"));
    if (token.content.empty()) return InvalidArgument("\"content\" is empty");
    return absl::OkStatus();
  };
  const absl::Status status = read();
  if (!status.ok()) return Annotate(status, place);
  return token;
}

}  // namespace

absl::StatusOr<AddedTokens> AddedTokens::FromJson(const Json& list, const Vocabulary& vocabulary,
                                                  const Normalizers& normalizers) {
  AddedTokens added;
  if (list.is_null()) return added;
  if (!list.is_array()) return InvalidArgument("\"added_tokens\" must be a list, not ", list.type_name());
  int32_t id_max = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    ASSIGN_OR_RETURN(AddedToken token, ReadAddedToken(list[i], i));
    if (added.by_content_.contains(token.content)) {
      return InvalidArgument("added_tokens[", i, "] repeats the content \"", token.content, "\"");
    }
    // The library numbers tokens that are not in the vocabulary itself and ignores the file's ids; both must agree.
    const auto known = vocabulary.Find(token.content);
    const int32_t expected = known.value_or(std::max<int32_t>(vocabulary.entry_count(), id_max + 1));
    if (token.id != expected) {
      return InvalidArgument("added_tokens[", i, "] gives \"", token.content, "\" the id ", token.id,
                             known.has_value() ? ", but \"vocab\" gives it " : ", but the next free id is ", expected);
    }
    id_max = std::max(id_max, token.id);
    added.by_content_.emplace(token.content, token.id);
    if (!added.by_id_.emplace(token.id, added.tokens_.size()).second) {
      return InvalidArgument("added_tokens[", i, "] repeats the id ", token.id);
    }
    if (token.special) added.special_contents_.insert(token.content);
    added.tokens_.push_back(std::move(token));
  }
  for (size_t i = 0; i < added.tokens_.size(); ++i) {
    AddedToken& token = added.tokens_[i];
    NormalizedText pattern{token.content};
    if (token.normalized) RETURN_IF_ERROR(Normalize(normalizers, pattern));
    token.pattern = std::move(pattern.text);
    added.tries_[token.normalized ? 1 : 0].Add(token.pattern, i);
  }
  return added;
}

void AddedTokens::Trie::Add(absl::string_view pattern, int token) {
  if (pattern.empty()) return;  // empty after normalization: cannot match
  tokens.push_back(token);
  starts[static_cast<uint8_t>(pattern[0])] = true;
  int node = 0;
  for (char byte : pattern) {
    auto [found, is_new] = child.try_emplace(ChildKey(node, byte), token_at.size());
    if (is_new) token_at.push_back(-1);
    node = found->second;
  }
  if (token_at[node] < 0) token_at[node] = token;
}

int AddedTokens::Trie::Match(absl::string_view text, size_t* size) const {
  int node = 0, best = -1;
  for (size_t i = 0; i < text.size(); ++i) {
    auto found = child.find(ChildKey(node, text[i]));
    if (found == child.end()) break;
    node = found->second;
    if (token_at[node] >= 0) {
      best = token_at[node];
      *size = i + 1;
    }
  }
  return best;
}

void AddedTokens::Cut(absl::string_view text, bool after_normalization,
                      absl::FunctionRef<bool(size_t begin, size_t end)> is_plain,
                      std::vector<AddedTokenCut>& out) const {
  const Trie& trie = tries_[after_normalization ? 1 : 0];
  size_t done = 0;                     // text before this is in `out`
  std::pair<size_t, size_t> spaces{};  // the last run stripped after a token, so that no run is scanned twice
  for (size_t at = 0; at < text.size() && !trie.tokens.empty();) {
    size_t size = 0;
    const int index = trie.starts[static_cast<uint8_t>(text[at])] ? trie.Match(text.substr(at), &size) : -1;
    if (index < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[index];
    size_t begin = at, end = at + size;
    at = end;  // also when the match is rejected: no search inside it
    if (token.special && is_plain(begin, end)) continue;
    if (token.single_word && !IsSingleWord(text, begin, end)) continue;
    if (token.lstrip) begin = begin <= done ? done : SpacesBegin(text, begin, done);
    if (token.rstrip) end = end > spaces.first && end <= spaces.second ? spaces.second : SpacesEnd(text, end);
    if (token.rstrip) spaces = {at, end};
    if (begin >= end) continue;  // stripped by the token before
    if (done < begin) out.push_back({std::nullopt, text.substr(done, begin - done)});
    out.push_back({token.id, text.substr(begin, end - begin)});
    done = end;
  }
  if (done < text.size()) out.push_back({std::nullopt, text.substr(done)});
}

const AddedToken* AddedTokens::Find(int32_t id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

std::optional<int32_t> AddedTokens::TokenToId(absl::string_view content) const {
  auto found = by_content_.find(content);
  if (found == by_content_.end()) return std::nullopt;
  return found->second;
}

}  // namespace varifocal
