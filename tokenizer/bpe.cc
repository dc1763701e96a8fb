#include "tokenizer/bpe.h"

#include <algorithm>
#include <queue>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr size_t kShortWordMax = 32;  // characters; for longer words repeated scans cost more than a queue
constexpr uint32_t kNone = 0xFFFFFFFF;
constexpr uint32_t kPointTableSize = 0x10000;
constexpr uint32_t kMetaspace = 0x2581;  // the space of SentencePiece
constexpr int kMetaspaceSymbol = 0x80;   // frequent characters: ASCII and this one, or all bytes

uint64_t PairKey(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}

// Min-queue of positions. Positions mostly arrive in order: a sorted run plus a heap for the rest.
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

// "a b" or ["a", "b"]. Version lines of old merges.txt files are not merges.
absl::Status ReadMerge(const Json& merge, uint32_t rank, absl::string_view* left, absl::string_view* right) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    *left = merge[0].get_ref<const std::string&>();
    *right = merge[1].get_ref<const std::string&>();
  } else if (merge.is_string()) {
    const absl::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space == absl::string_view::npos || text.find(' ', space + 1) != absl::string_view::npos) {
      return InvalidArgument("merge ", rank, " is \"", text, "\", not two tokens with one space between them");
    }
    *left = text.substr(0, space);
    *right = text.substr(space + 1);
  } else {
    return InvalidArgument("merge ", rank, " is ", merge.dump(), ", neither \"a b\" nor [\"a\", \"b\"]");
  }
  if (left->empty() || right->empty()) return InvalidArgument("merge ", rank, " has an empty side");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeBpe(const Json& model, bool words_are_bytes) {
  return Bpe::FromJson(model, words_are_bytes);
}

absl::StatusOr<std::unique_ptr<Bpe>> Bpe::FromJson(const Json& model, bool words_are_bytes) {
  RETURN_IF_ERROR(CheckKeys(model, "model",
                            {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                             "byte_fallback", "ignore_merges", "vocab", "merges"}));
  ASSIGN_OR_RETURN(const Json* vocab, GetMember(model, "vocab"));
  ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::FromJson(*vocab));
  std::unique_ptr<Bpe> bpe(new Bpe(std::move(vocabulary)));
  bpe->words_are_bytes_ = words_are_bytes;
  RETURN_IF_ERROR(bpe->ReadOptions(model));
  RETURN_IF_ERROR(bpe->ReadMerges(model));
  if (bpe->has_affixes()) return bpe;
  bpe->IndexCharacters();
  bpe->FindJoints();
  bpe->IndexFrequentJoints();
  if (bpe->ignore_merges_ && words_are_bytes) {
    for (size_t id = 0; id < bpe->vocabulary_.tokens().size(); ++id) {
      auto bytes = FromByteLevel(bpe->vocabulary_.tokens()[id]);
      if (bytes.has_value()) bpe->vocab_of_bytes_.emplace(*std::move(bytes), static_cast<int32_t>(id));
    }
  }
  return bpe;
}

absl::Status Bpe::ReadOptions(const Json& model) {
  ASSIGN_OR_RETURN(std::optional<double> dropout, FindDouble(model, "dropout"));
  if (dropout.value_or(0) != 0) {
    return InvalidArgument("\"dropout\" is ", *dropout, ": random merges are not supported, it must be null or 0");
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
  if (byte_fallback_) fallback_ids_ = vocabulary_.ByteTokens();
  if (unknown.has_value()) {
    unknown_id_ = vocabulary_.Find(*unknown);
    if (!unknown_id_.has_value()) {
      return InvalidArgument("\"unk_token\" is \"", *unknown, "\", which is not in \"vocab\"");
    }
  }
  return absl::OkStatus();
}

absl::Status Bpe::ReadMerges(const Json& model) {
  ASSIGN_OR_RETURN(const Json* merges, GetMember(model, "merges"));
  if (!merges->is_array()) return InvalidArgument("\"merges\" must be a list, not ", merges->type_name());
  merges_.reserve(merges->size());
  uint32_t rank = 0;
  for (const Json& merge : *merges) {
    if (merge.is_string() && absl::StartsWith(merge.get_ref<const std::string&>(), "#version")) continue;
    absl::string_view left, right;
    RETURN_IF_ERROR(ReadMerge(merge, rank, &left, &right));
    if (right.size() < continuing_prefix_.size()) {
      return InvalidArgument("merge ", rank, ": \"", right, "\" is shorter than the prefix \"", continuing_prefix_,
                             "\"");
    }
    const std::string joined = absl::StrCat(left, right.substr(continuing_prefix_.size()));
    int32_t ids[3];
    const absl::string_view tokens[3] = {left, right, joined};
    for (int i = 0; i < 3; ++i) {
      const auto id = vocabulary_.Find(tokens[i]);
      if (!id.has_value()) {
        return InvalidArgument("merge ", rank, " (\"", left, "\" and \"", right, "\") needs \"", tokens[i],
                               "\", which is not in \"vocab\"");
      }
      ids[i] = *id;
    }
    merges_[PairKey(ids[0], ids[1])] = {rank, ids[2]};  // the last of equal merges applies
    ++rank;
  }
  return absl::OkStatus();
}

// A merge of two tokens joins the last character of one to the first of the other. The text of unknown tokens and <0xNN>
// does not identify their characters, so a file that merges them has no joints: its words are not split.
void Bpe::FindJoints() {
  absl::flat_hash_set<int32_t> stand_ins;
  if (unknown_id_.has_value()) stand_ins.insert(*unknown_id_);
  if (fallback_ids_.has_value()) stand_ins.insert(fallback_ids_->begin(), fallback_ids_->end());
  cuts_words_ = std::none_of(merges_.begin(), merges_.end(), [&](const auto& merge) {
    return stand_ins.contains(static_cast<int32_t>(merge.first >> 32)) ||
           stand_ins.contains(static_cast<int32_t>(merge.first & 0xFFFFFFFF));
  });
  if (!cuts_words_) return;
  // For every token, the ids of its first and last character.
  std::vector<std::pair<int32_t, int32_t>> ends;
  ends.reserve(vocabulary_.tokens().size());
  for (absl::string_view token : vocabulary_.tokens()) {
    size_t last = token.empty() ? 0 : token.size() - 1;
    while (last > 0 && (token[last] & 0xC0) == 0x80) --last;
    uint32_t point = 0;
    const int first_length = token.empty() ? 0 : ReadValidUtf8(token.data(), &point);
    ends.emplace_back(SpelledCharacterId(token.substr(0, first_length)), SpelledCharacterId(token.substr(last)));
  }
  for (const auto& [pair, merge] : merges_) {
    const int32_t before = ends[pair >> 32].second, behind = ends[pair & 0xFFFFFFFF].first;
    if (before >= 0 && behind >= 0) joints_.insert(PairKey(before, behind));
  }
}

// Id of a character as the vocabulary spells it, or -1.
int32_t Bpe::SpelledCharacterId(absl::string_view character) const {
  uint32_t point = 0;
  if (words_are_bytes_ || ReadUtf8(character, &point) == 0) return vocabulary_.Find(character).value_or(-1);
  return CharacterId(point);
}

const Bpe::Merge* Bpe::FindMerge(int32_t left, int32_t right) const {
  auto found = merges_.find(PairKey(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

// A character is looked up in a table by its code point (a word of bytes: by the byte).
void Bpe::IndexCharacters() {
  point_ids_.assign(words_are_bytes_ ? 256 : kPointTableSize, -1);
  for (uint32_t point = 0; point < point_ids_.size(); ++point) {
    if (!words_are_bytes_ && point >= 0xD800 && point < 0xE000) continue;
    std::string character;
    AppendUtf8(words_are_bytes_ ? ByteToCharacter(point) : point, character);
    point_ids_[point] = vocabulary_.Find(character).value_or(-1);
    if (words_are_bytes_) single_byte_ids_[point] = point_ids_[point];
  }
}

// The joints of frequent characters.
void Bpe::IndexFrequentJoints() {
  std::vector<std::pair<int, int32_t>> frequent;  // symbol, id
  for (int symbol = 0; symbol < (words_are_bytes_ ? 256 : 128); ++symbol)
    frequent.emplace_back(symbol, point_ids_[symbol]);
  if (!words_are_bytes_) frequent.emplace_back(kMetaspaceSymbol, point_ids_[kMetaspace]);
  for (const auto& [left, left_id] : frequent) {
    for (const auto& [right, right_id] : frequent) {
      frequent_joints_[left << 8 | right] = joints_.contains(PairKey(left_id, right_id));
    }
  }
}

int32_t Bpe::CharacterId(uint32_t point) const {
  if (point < kPointTableSize) return point_ids_[point];
  std::string character;
  AppendUtf8(point, character);
  return vocabulary_.Find(character).value_or(-1);
}

// False when the character is encoded as the unknown token, which depends on its context.
bool Bpe::ReadCharacter(absl::string_view rest, Character* out) const {
  if (words_are_bytes_) {
    const int byte = static_cast<uint8_t>(rest[0]);
    *out = {point_ids_[byte], point_ids_[byte], byte, 1};
    return out->first >= 0;
  }
  uint32_t point = 0;
  out->length = ReadValidUtf8(rest.data(), &point);
  out->first = out->last = CharacterId(point);
  out->symbol = point == kMetaspace ? kMetaspaceSymbol : -1;
  if (out->first >= 0) {
    if (point < 0x80) out->symbol = point;
    return true;
  }
  if (!fallback_ids_.has_value()) return false;
  out->first = (*fallback_ids_)[static_cast<uint8_t>(rest[0])];
  out->last = (*fallback_ids_)[static_cast<uint8_t>(rest[out->length - 1])];
  out->symbol = -1;
  return true;
}

bool Bpe::IsJoint(const Character& left, const Character& right) const {
  if (left.symbol >= 0 && right.symbol >= 0) return frequent_joints_[left.symbol << 8 | right.symbol];
  return joints_.contains(PairKey(left.last, right.first));
}

std::optional<int32_t> Bpe::FindWhole(absl::string_view word) const {
  if (!words_are_bytes_) return vocabulary_.Find(word);
  if (auto found = vocab_of_bytes_.find(word); found != vocab_of_bytes_.end()) return found->second;
  return std::nullopt;
}

absl::Status Bpe::EncodeLong(absl::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (!cuts_words_ || ignore_merges_) return EncodeUncached(word, ids);
  const size_t before = ids.size();
  auto encode_piece = [&](size_t begin, size_t end) -> absl::Status {
    const absl::string_view piece = word.substr(begin, end - begin);
    return piece.size() > kCachedWordBytesMax ? EncodeUncached(piece, ids) : EncodeCached(piece, cache, ids);
  };
  Character previous, next;
  size_t piece_begin = 0;
  for (size_t at = 0; at < word.size(); at += next.length, previous = next) {
    if (!ReadCharacter(word.substr(at), &next)) {
      ids.resize(before);
      return EncodeUncached(word, ids);
    }
    if (at == piece_begin || IsJoint(previous, next)) continue;
    RETURN_IF_ERROR(encode_piece(piece_begin, at));
    piece_begin = at;
  }
  return encode_piece(piece_begin, word.size());
}

absl::Status Bpe::EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_) {
    if (const auto whole = FindWhole(word); whole.has_value()) {
      ids.push_back(*whole);
      return absl::OkStatus();
    }
  }
  const size_t begin = ids.size();
  AppendSymbols(word, ids);
  MergePieces(ids, begin);
  return absl::OkStatus();
}

void Bpe::AppendSymbols(absl::string_view word, std::vector<int32_t>& ids) const {
  if (!has_affixes() && AppendSymbolsByTable(word, ids)) return;
  std::string spelled;
  if (words_are_bytes_) AppendByteLevel(word, spelled);
  AppendSpelledSymbols(words_are_bytes_ ? absl::string_view(spelled) : word, ids, nullptr);
}

// False, with nothing appended, when a character needs the unknown token.
bool Bpe::AppendSymbolsByTable(absl::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  Character c;
  for (size_t at = 0; at < word.size(); at += c.length) {
    if (!ReadCharacter(word.substr(at), &c)) {
      ids.resize(before);
      return false;
    }
    if (c.first == c.last) {  // else encoded as bytes, of which the first is never the last
      ids.push_back(c.first);
    } else {
      for (int i = 0; i < c.length; ++i) ids.push_back((*fallback_ids_)[static_cast<uint8_t>(word[at + i])]);
    }
  }
  return true;
}

// A character that is not in the vocabulary becomes its <0xNN> bytes when all of them are, else the unknown token (one
// for a run of them when fused), else nothing.
void Bpe::AppendSpelledSymbols(absl::string_view word, std::vector<int32_t>& ids, std::vector<size_t>* sizes) const {
  size_t pending_bytes = 0;  // of an unknown token that is not yet among `ids`
  const auto push = [&](int32_t id, size_t size) {
    ids.push_back(id);
    if (sizes != nullptr) sizes->push_back(size);
  };
  const auto push_pending = [&] {
    if (pending_bytes > 0) push(*unknown_id_, pending_bytes);
    pending_bytes = 0;
  };
  for (size_t at = 0; at < word.size();) {
    uint32_t point = 0;
    const size_t length = ReadValidUtf8(word.data() + at, &point);
    std::string token(word.substr(at, length));
    if (at > 0) token.insert(0, continuing_prefix_);
    at += length;
    if (at == word.size()) token += end_suffix_;
    if (auto id = vocabulary_.Find(token); id.has_value()) {
      push_pending();
      push(*id, length);
      continue;
    }
    if (byte_fallback_) {
      const size_t before = ids.size();
      for (char byte : token) {
        auto id = vocabulary_.Find(absl::StrFormat("<0x%02X>", static_cast<uint8_t>(byte)));
        if (!id.has_value()) break;
        ids.push_back(*id);
      }
      if (ids.size() - before == token.size()) {
        if (sizes != nullptr) sizes->resize(ids.size(), 1);
        continue;
      }
      ids.resize(before);
    }
    if (!unknown_id_.has_value()) continue;
    if (!fuse_unknown_) push_pending();
    pending_bytes += length;
  }
  push_pending();
}

// A merged token's text is that of its symbols, so its length gives their number.
void Bpe::FindRanges(absl::string_view word, absl::Span<const int32_t> ids, std::vector<TextRange>& ranges) const {
  if (ignore_merges_ && ids.size() == 1 && vocabulary_.Find(word) == ids[0]) {
    ranges.push_back({0, word.size()});
    return;
  }
  const auto spelt_bytes = [&](int32_t id) { return vocabulary_.tokens()[id].size(); };
  std::vector<int32_t> symbols;
  std::vector<size_t> sizes;
  AppendSpelledSymbols(word, symbols, &sizes);
  size_t next = 0, at = 0;
  for (const int32_t id : ids) {
    const size_t begin = at;
    for (size_t spelt = 0; next < symbols.size() && spelt < spelt_bytes(id); ++next) {
      spelt += spelt_bytes(symbols[next]) - (spelt == 0 ? 0 : continuing_prefix_.size());
      at += sizes[next];
    }
    ranges.push_back({begin, at});
  }
}

void Bpe::MergePieces(std::vector<int32_t>& ids, size_t begin) const {
  if (ids.size() - begin <= kShortWordMax) return MergeShort(ids, begin);
  if (!cuts_words_) return MergeLong(ids, begin);
  const std::vector<int32_t> symbols(ids.begin() + begin, ids.end());
  ids.resize(begin);
  for (size_t from = 0, to = 0; from < symbols.size(); from = to) {
    to = from + 1;
    while (to < symbols.size() && joints_.contains(PairKey(symbols[to - 1], symbols[to]))) ++to;
    const size_t piece_begin = ids.size();
    ids.insert(ids.end(), symbols.begin() + from, symbols.begin() + to);
    if (to - from <= kShortWordMax) {
      MergeShort(ids, piece_begin);
    } else {
      MergeLong(ids, piece_begin);
    }
  }
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
    int32_t id;  // -1 once merged into its left neighbour
    uint32_t previous, next;
  };
  const uint32_t count = ids.size() - begin;
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
    const Merge* merge = FindMerge(left.id, right.id);  // the pair may have changed since it was queued
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
