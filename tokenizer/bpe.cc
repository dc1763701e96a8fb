#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr int64_t kIdMax = (1 << 24) - 1;      // far above any vocabulary; an id is an index into an array
constexpr size_t kShortWordMax = 32;           // characters; beyond, repeated scans cost more than bookkeeping
constexpr size_t kCachedWordBytesMax = 64;     // longer words seldom come again
constexpr size_t kCachedWordCountMax = 16384;  // about 2 MB per cache
constexpr uint32_t kNone = 0xFFFFFFFF;

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Smallest position first. Positions mostly arrive in order, so they are a sorted run plus a heap for the rest.
class PositionQueue {
 public:
  void Push(uint32_t position) {
    if (head_ == run_.size()) {
      run_.clear();
      head_ = 0;
    }
    if (run_.empty() || position >= run_.back()) {
      run_.push_back(position);
    } else {
      late_.push(position);
    }
  }
  bool empty() const { return head_ == run_.size() && late_.empty(); }
  uint32_t Pop() {
    if (head_ < run_.size() && (late_.empty() || run_[head_] <= late_.top())) return run_[head_++];
    const uint32_t position = late_.top();
    late_.pop();
    return position;
  }

 private:
  std::vector<uint32_t> run_;
  size_t head_ = 0;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> late_;
};

}  // namespace

absl::StatusOr<Bpe> Bpe::FromJson(const Json& model, bool words_are_bytes) {
  Bpe bpe;
  bpe.words_are_bytes_ = words_are_bytes;
  RETURN_IF_ERROR(CheckKeys(model, "model",
                            {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                             "byte_fallback", "ignore_merges", "vocab", "merges"}));
  RETURN_IF_ERROR(bpe.ReadVocab(model));
  RETURN_IF_ERROR(bpe.ReadOptions(model));
  RETURN_IF_ERROR(bpe.ReadMerges(model));
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    AppendUtf8(ByteToCharacter(static_cast<uint8_t>(byte)), character);
    bpe.byte_ids_[byte] = bpe.TokenToId(character).value_or(-1);
  }
  if (bpe.continuing_prefix_.empty() && bpe.end_suffix_.empty()) bpe.FindJoints();
  if (bpe.ignore_merges_ && words_are_bytes) {
    for (const auto& [token, id] : bpe.vocab_) {
      if (auto bytes = FromByteLevel(token); bytes.has_value()) bpe.vocab_of_bytes_.emplace(*std::move(bytes), id);
    }
  }
  return bpe;
}

absl::Status Bpe::ReadVocab(const Json& model) {
  ASSIGN_OR_RETURN(const Json* vocab, GetMember(model, "vocab"));
  if (!vocab->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("\"vocab\" must be an object, not ", vocab->type_name()));
  }
  if (vocab->empty()) return absl::InvalidArgumentError("\"vocab\" has no entries");
  vocab_.reserve(vocab->size());
  for (const auto& item : vocab->items()) {
    if (!item.value().is_number_integer()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id of \"", item.key(), "\" must be an integer, not ", item.value().type_name()));
    }
    const bool fits = item.value().is_number_unsigned() ? item.value().get<uint64_t>() <= static_cast<uint64_t>(kIdMax)
                                                        : item.value().get<int64_t>() >= 0;
    if (!fits) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id of \"", item.key(), "\" is ", item.value().dump(), ", not between 0 and ", kIdMax));
    }
    const auto id = item.value().get<int32_t>();
    if (static_cast<size_t>(id) >= tokens_.size()) {
      tokens_.resize(id + 1);
      present_.resize(id + 1);
    }
    if (present_[id]) {
      return absl::InvalidArgumentError(
          absl::StrCat("the id ", id, " is given to both \"", tokens_[id], "\" and \"", item.key(), "\""));
    }
    present_[id] = true;
    tokens_[id] = item.key();
    vocab_.emplace(item.key(), id);
  }
  return absl::OkStatus();
}

absl::Status Bpe::ReadOptions(const Json& model) {
  ASSIGN_OR_RETURN(std::optional<double> dropout, FindDouble(model, "dropout"));
  if (dropout.value_or(0) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"dropout\" is ", *dropout, ": random merges are not supported, it must be null or 0"));
  }
  ASSIGN_OR_RETURN(std::optional<std::string> prefix, FindString(model, "continuing_subword_prefix"));
  ASSIGN_OR_RETURN(std::optional<std::string> suffix, FindString(model, "end_of_word_suffix"));
  ASSIGN_OR_RETURN(std::optional<bool> fuse_unknown, FindBool(model, "fuse_unk"));
  ASSIGN_OR_RETURN(std::optional<bool> byte_fallback, FindBool(model, "byte_fallback"));
  ASSIGN_OR_RETURN(std::optional<bool> ignore_merges, FindBool(model, "ignore_merges"));
  ASSIGN_OR_RETURN(std::optional<std::string> unknown, FindString(model, "unk_token"));
  continuing_prefix_ = prefix.value_or("");
  end_suffix_ = suffix.value_or("");
  fuse_unknown_ = fuse_unknown.value_or(false);
  byte_fallback_ = byte_fallback.value_or(false);
  ignore_merges_ = ignore_merges.value_or(false);
  if (unknown.has_value()) {
    unknown_id_ = TokenToId(*unknown);
    if (!unknown_id_.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("\"unk_token\" is \"", *unknown, "\", which is not in \"vocab\""));
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::ReadMerges(const Json& model) {
  ASSIGN_OR_RETURN(const Json* merges, GetMember(model, "merges"));
  if (!merges->is_array()) {
    return absl::InvalidArgumentError(absl::StrCat("\"merges\" must be a list, not ", merges->type_name()));
  }
  merges_.reserve(merges->size());
  uint32_t rank = 0;
  for (const Json& merge : *merges) {
    std::string left, right;
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      left = merge[0].get<std::string>();
      right = merge[1].get<std::string>();
    } else if (merge.is_string()) {
      const auto& text = merge.get_ref<const std::string&>();
      const size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
        return absl::InvalidArgumentError(
            absl::StrCat("merge ", rank, " is \"", text, "\", not two tokens with one space between them"));
      }
      left = text.substr(0, space);
      right = text.substr(space + 1);
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, " is ", merge.dump(), ", neither \"a b\" nor [\"a\", \"b\"]"));
    }
    if (left.empty() || right.empty())
      return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " has an empty side"));
    if (right.size() < continuing_prefix_.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank, ": \"", right, "\" is shorter than the prefix \"", continuing_prefix_, "\""));
    }
    const std::string joined = left + right.substr(continuing_prefix_.size());
    for (const std::string* token : std::initializer_list<const std::string*>{&left, &right, &joined}) {
      if (!TokenToId(*token).has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("merge ", rank, " (\"", left, "\" and \"", right, "\") needs \"",
                                                       *token, "\", which is not in \"vocab\""));
      }
    }
    merges_[PairKey(*TokenToId(left), *TokenToId(right))] = {rank,
                                                             *TokenToId(joined)};  // of equal merges the last counts
    ++rank;
  }
  return absl::OkStatus();
}

// A merge of two tokens brings the last character of one to the first of the other. A token can also stand for itself
// from the start: unknown ones and bytes do.
void Bpe::FindJoints() {
  for (const auto& [pair, merge] : merges_) {
    const auto left = static_cast<int32_t>(pair >> 32), right = static_cast<int32_t>(pair & 0xFFFFFFFF);
    const absl::string_view left_token = tokens_[left], right_token = tokens_[right];
    size_t last = left_token.size() - 1;
    while (last > 0 && (static_cast<uint8_t>(left_token[last]) & 0xC0) == 0x80) --last;
    uint32_t point = 0;
    const int first_length = ReadValidUtf8(right_token.data(), &point);
    for (int32_t before : {left, TokenToId(left_token.substr(last)).value_or(left)}) {
      for (int32_t behind : {right, TokenToId(right_token.substr(0, first_length)).value_or(right)}) {
        joints_.insert(PairKey(before, behind));
      }
    }
  }
}

std::optional<int32_t> Bpe::TokenToId(absl::string_view token) const {
  auto found = vocab_.find(token);
  if (found == vocab_.end()) return std::nullopt;
  return found->second;
}

bool Bpe::has_id(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < present_.size() && present_[id]; }

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void Bpe::Encode(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (words_are_bytes_ && word.size() == 1 && byte_ids_[static_cast<uint8_t>(word[0])] >= 0) {
    ids.push_back(byte_ids_[static_cast<uint8_t>(word[0])]);
    return;
  }
  if (word.size() > kCachedWordBytesMax) return EncodeUncached(word, ids);
  auto found = cache.find(word);
  if (found == cache.end()) {
    std::vector<int32_t> fresh;
    EncodeUncached(word, fresh);
    if (cache.size() >= kCachedWordCountMax) cache.clear();
    found = cache.emplace(std::string(word), absl::InlinedVector<int32_t, 4>(fresh.begin(), fresh.end())).first;
  }
  ids.insert(ids.end(), found->second.begin(), found->second.end());
}

void Bpe::EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    const auto& whole = words_are_bytes_ ? vocab_of_bytes_ : vocab_;
    if (auto found = whole.find(word); found != whole.end()) {
      ids.push_back(found->second);
      return;
    }
  }
  const size_t begin = ids.size();
  bool plain = words_are_bytes_ && continuing_prefix_.empty() && end_suffix_.empty();
  for (size_t i = 0; plain && i < word.size(); ++i) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(word[i])];
    plain = id >= 0;
    ids.push_back(id);
  }
  if (!plain) {
    ids.resize(begin);
    std::string spelled;
    if (words_are_bytes_) AppendByteLevel(word, spelled);
    AppendCharacterIds(words_are_bytes_ ? absl::string_view(spelled) : word, ids);
  }
  if (ids.size() - begin <= kShortWordMax) return MergeShort(ids, begin);
  if (joints_.empty()) return MergeLong(ids, begin);
  const std::vector<int32_t> characters(ids.begin() + static_cast<int64_t>(begin), ids.end());
  ids.resize(begin);
  for (size_t from = 0, to = 0; from < characters.size(); from = to) {
    to = from + 1;
    while (to < characters.size() && joints_.contains(PairKey(characters[to - 1], characters[to]))) ++to;
    const size_t piece_begin = ids.size();
    ids.insert(ids.end(), characters.begin() + static_cast<int64_t>(from), characters.begin() + static_cast<int64_t>(to));
    if (to - from <= kShortWordMax) {
      MergeShort(ids, piece_begin);
    } else {
      MergeLong(ids, piece_begin);
    }
  }
}

// A character that is not in the vocabulary becomes its <0xNN> bytes when all of them are, else the unknown token (one
// for a run of them when fused), else nothing.
void Bpe::AppendCharacterIds(absl::string_view word, std::vector<int32_t>& ids) const {
  bool unknown_pending = false;
  for (size_t at = 0; at < word.size();) {
    uint32_t point = 0;
    const int length = ReadValidUtf8(word.data() + at, &point);
    std::string token(word.substr(at, length));
    if (at > 0) token.insert(0, continuing_prefix_);
    at += length;
    if (at == word.size()) token += end_suffix_;
    if (auto id = TokenToId(token); id.has_value()) {
      if (unknown_pending) ids.push_back(*unknown_id_);
      unknown_pending = false;
      ids.push_back(*id);
      continue;
    }
    if (byte_fallback_) {
      const size_t before = ids.size();
      for (char byte : token) {
        auto id = TokenToId(absl::StrFormat("<0x%02X>", static_cast<uint8_t>(byte)));
        if (!id.has_value()) break;
        ids.push_back(*id);
      }
      if (ids.size() - before == token.size()) continue;
      ids.resize(before);
    }
    if (!unknown_id_.has_value()) continue;
    if (unknown_pending && !fuse_unknown_) ids.push_back(*unknown_id_);
    unknown_pending = true;
  }
  if (unknown_pending) ids.push_back(*unknown_id_);
}

void Bpe::MergeShort(std::vector<int32_t>& ids, size_t begin) const {
  int32_t* symbol = ids.data() + begin;
  size_t count = ids.size() - begin;
  Merge pairs[kShortWordMax];  // pairs[i] merges symbols i and i + 1
  auto look_up = [&](size_t i) {
    const Merge* merge = FindMerge(symbol[i], symbol[i + 1]);
    pairs[i] = merge == nullptr ? Merge{kNone, 0} : *merge;
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (pairs[i].rank < pairs[best].rank) best = i;
    }
    if (pairs[best].rank == kNone) break;
    symbol[best] = pairs[best].id;
    std::copy(symbol + best + 2, symbol + count, symbol + best + 1);
    if (best + 2 < count) std::copy(pairs + best + 2, pairs + count - 1, pairs + best + 1);
    --count;
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.resize(begin + count);
}

void Bpe::MergeLong(std::vector<int32_t>& ids, size_t begin) const {
  struct Symbol {
    int32_t id;  // -1 once it is part of its left neighbour
    uint32_t previous, next;
  };
  const auto count = static_cast<uint32_t>(ids.size() - begin);
  std::vector<Symbol> symbols(count);
  struct Candidates {
    int32_t id = 0;
    PositionQueue positions;
  };
  absl::flat_hash_map<uint32_t, Candidates> by_rank;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ranks;  // of the candidates that are not empty
  auto offer = [&](uint32_t at) {
    const Merge* merge = FindMerge(symbols[at].id, symbols[symbols[at].next].id);
    if (merge == nullptr) return;
    auto [found, is_new] = by_rank.try_emplace(merge->rank);
    if (is_new) ranks.push(merge->rank);
    found->second.id = merge->id;
    found->second.positions.Push(at);
  };
  for (uint32_t i = 0; i < count; ++i)
    symbols[i] = {ids[begin + i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1};
  for (uint32_t i = 0; i + 1 < count; ++i) offer(i);
  while (!ranks.empty()) {
    auto candidates = by_rank.find(ranks.top());
    if (candidates->second.positions.empty()) {
      by_rank.erase(candidates);
      ranks.pop();
      continue;
    }
    const int32_t merged = candidates->second.id;
    const uint32_t at = candidates->second.positions.Pop();
    Symbol& left = symbols[at];
    if (left.id < 0 || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    const Merge* merge = FindMerge(left.id, right.id);  // the pair may have changed since it was offered
    if (merge == nullptr || merge->id != merged) continue;
    left.id = merged;
    left.next = right.next;
    right.id = -1;
    if (right.next != kNone) symbols[right.next].previous = at;
    if (left.previous != kNone) offer(left.previous);
    if (left.next != kNone) offer(at);
  }
  ids.resize(begin);
  for (const Symbol& symbol : symbols) {
    if (symbol.id >= 0) ids.push_back(symbol.id);
  }
}

}  // namespace varifocal
