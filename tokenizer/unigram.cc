#include "tokenizer/unigram.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "tokenizer/byte_level.h"
#include "tokenizer/component.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

constexpr double kUnknownPenalty = 10.0;  // SentencePiece's
constexpr uint32_t kNowhere = 0xFFFFFFFF;

class Unigram : public SubwordModel {
 public:
  Unigram(Vocabulary vocabulary, std::vector<double> scores, std::optional<int32_t> unknown_id, bool byte_fallback,
          bool words_are_bytes)
      : SubwordModel(std::move(vocabulary)),
        scores_(std::move(scores)),
        unknown_score_(*std::min_element(scores_.begin(), scores_.end()) - kUnknownPenalty),
        unknown_id_(unknown_id),
        words_are_bytes_(words_are_bytes) {
    if (byte_fallback) byte_ids_ = vocabulary_.ByteTokens();
    size_t byte_count = 0;
    for (const std::string& token : vocabulary_.tokens()) byte_count += token.size();
    children_.reserve(byte_count / 2);
    for (const std::string& token : vocabulary_.tokens()) AddToTrie(token, *vocabulary_.Find(token));
  }

 private:
  // The best token sequence that ends at a position: its last token and that token's start.
  struct Best {
    double score = 0;
    int32_t id = 0;
    uint32_t from = kNowhere;
    void Offer(double candidate, int32_t candidate_id, size_t start) {
      if (from != kNowhere && candidate <= score) return;
      *this = {candidate, candidate_id, static_cast<uint32_t>(start)};
    }
  };

  void AddToTrie(absl::string_view token, int32_t id) {
    if (token.empty()) return;
    uint32_t node = 0;
    for (char byte : token) {
      auto [found, is_new] =
          children_.try_emplace(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(byte), id_at_.size());
      if (is_new) id_at_.push_back(-1);
      node = found->second;
    }
    id_at_[node] = id;
  }

  // The score of a character as unknown token; INVALID_ARGUMENT when the file has none.
  absl::Status OfferUnknown(absl::string_view character, double before, size_t start, Best& best) const {
    if (best.from != kNowhere && unknown_score_ + before <= best.score) return absl::OkStatus();
    if (!unknown_id_.has_value()) {
      uint32_t point = 0;
      ReadValidUtf8(character.data(), &point);
      return absl::InvalidArgumentError(
          absl::StrFormat("the text has the character U+%04X, which is in no token, and \"unk_id\" is null", point));
    }
    best.Offer(unknown_score_ + before, *unknown_id_, start);
    return absl::OkStatus();
  }

  absl::Status EncodeUncached(absl::string_view word, std::vector<int32_t>& ids) const override {
    std::string spelled;
    if (words_are_bytes_) {
      AppendByteLevel(word, spelled);
      word = spelled;
    }
    return EncodeSpelt(word, ids, nullptr);
  }

  void FindRanges(absl::string_view word, absl::Span<const int32_t> ids,
                  std::vector<TextRange>& ranges) const override {
    std::vector<int32_t> again;
    again.reserve(ids.size());
    (void)EncodeSpelt(word, again, &ranges);  // succeeded before
  }

  absl::Status EncodeSpelt(absl::string_view word, std::vector<int32_t>& ids, std::vector<TextRange>* ranges) const {
    if (word.size() >= kNowhere) return InvalidArgument("a word of 4 GB or more cannot be encoded");
    std::vector<Best> best(word.size() + 1);
    for (size_t at = 0; at < word.size();) {
      uint32_t ignored = 0;
      const size_t length = ReadValidUtf8(word.data() + at, &ignored);
      bool is_token = false;  // the single character
      uint32_t node = 0;
      for (size_t end = at; end < word.size();) {
        auto child = children_.find(static_cast<uint64_t>(node) << 8 | static_cast<uint8_t>(word[end]));
        if (child == children_.end()) break;
        node = child->second;
        ++end;
        if (id_at_[node] < 0) continue;
        best[end].Offer(scores_[id_at_[node]] + best[at].score, id_at_[node], at);
        is_token |= end - at == length;
      }
      if (!is_token) {
        RETURN_IF_ERROR(OfferUnknown(word.substr(at, length), best[at].score, at, best[at + length]));
      }
      at += length;
    }
    return AppendBest(word, best, ids, ranges);
  }

  // From the end to the start, then reversed.
  absl::Status AppendBest(absl::string_view word, const std::vector<Best>& best, std::vector<int32_t>& ids,
                          std::vector<TextRange>* ranges) const {
    const size_t begin = ids.size(), ranges_begin = ranges == nullptr ? 0 : ranges->size();
    for (size_t end = word.size(); end > 0;) {
      const Best& last = best[end];
      size_t start = last.from;
      if (unknown_id_ != last.id) {
        ids.push_back(last.id);
      } else {
        while (start > 0 && best[start].id == *unknown_id_) start = best[start].from;
        AppendUnknownBackwards(word.substr(start, end - start), ids);
      }
      // All bytes of an unknown run have the range of the run.
      if (ranges != nullptr) ranges->resize(ranges_begin + ids.size() - begin, TextRange{start, end});
      end = start;
    }
    std::reverse(ids.begin() + begin, ids.end());
    if (ranges != nullptr) std::reverse(ranges->begin() + ranges_begin, ranges->end());
    return absl::OkStatus();
  }

  void AppendUnknownBackwards(absl::string_view run, std::vector<int32_t>& ids) const {
    if (const auto id = vocabulary_.Find(run); id.has_value()) {
      ids.push_back(*id);
    } else if (byte_ids_.has_value()) {
      for (auto byte = run.rbegin(); byte != run.rend(); ++byte)
        ids.push_back((*byte_ids_)[static_cast<uint8_t>(*byte)]);
    } else {
      ids.push_back(*unknown_id_);
    }
  }

  const std::vector<double> scores_;  // by id
  const double unknown_score_;
  const std::optional<int32_t> unknown_id_;
  const bool words_are_bytes_;
  std::optional<std::array<int32_t, 256>> byte_ids_;
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // (node, byte) -> node
  std::vector<int32_t> id_at_ = {-1};                 // node -> the token that ends there, or -1
};

absl::Status ReadEntry(const Json& entry, size_t id, Vocabulary& vocabulary, std::vector<double>& scores) {
  if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
    return InvalidArgument("entry ", id, " of \"vocab\" is ", entry.dump().substr(0, 100), ", not [\"token\", score]");
  }
  scores.push_back(entry[1].get<double>());
  if (!std::isfinite(scores.back())) return InvalidArgument("the score of entry ", id, " of \"vocab\" is not finite");
  return vocabulary.AddOrReplace(entry[0].get_ref<const std::string&>(), id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SubwordModel>> MakeUnigram(const Json& model, bool words_are_bytes) {
  RETURN_IF_ERROR(CheckKeys(model, "model", {"unk_id", "vocab", "byte_fallback"}));
  ASSIGN_OR_RETURN(const Json* vocab, GetMember(model, "vocab"));
  ASSIGN_OR_RETURN(std::optional<int64_t> unknown_id, FindInt(model, "unk_id"));
  ASSIGN_OR_RETURN(std::optional<bool> byte_fallback, FindBool(model, "byte_fallback"));
  if (!vocab->is_array()) return InvalidArgument("\"vocab\" must be a list, not ", vocab->type_name());
  if (vocab->empty()) return InvalidArgument("\"vocab\" has no entries");
  const auto count = std::ssize(*vocab);
  if (unknown_id.has_value() && (*unknown_id < 0 || *unknown_id >= count)) {
    return InvalidArgument("\"unk_id\" is ", *unknown_id, ", but \"vocab\" has the ids 0 to ", count - 1);
  }
  Vocabulary vocabulary;
  vocabulary.Reserve(vocab->size());
  std::vector<double> scores;
  for (const Json& entry : *vocab) RETURN_IF_ERROR(ReadEntry(entry, scores.size(), vocabulary, scores));
  return std::make_unique<Unigram>(std::move(vocabulary), std::move(scores), unknown_id, byte_fallback.value_or(false),
                                   words_are_bytes);
}

}  // namespace varifocal
