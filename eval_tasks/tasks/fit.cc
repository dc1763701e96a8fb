#include "eval_tasks/tasks/fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "eval_tasks/tasks/chunk_counter.h"

namespace varifocal {
namespace {

constexpr int kProbeUnits = 64;  // enough to measure the marginal tokens of a unit
constexpr int kRoundsMax = 12;   // adjustments of the number of units
constexpr int kGapAim = 8;       // tokens; exchanging stops here, since every exchange biases the mix of units
constexpr int kExchangedUnitsMax = 256;
constexpr int kAlternativesPerUnit = 8;
constexpr int kEstimatedSearchesMax = 3;  // before falling back to whole encodings
constexpr size_t kTailBytes = 1024;       // of the shared text, re-encoded with each question line
constexpr size_t kAnchorBytes = 64;       // a text is split for encoding at least this far before the target byte
constexpr int kClosingPassesMax = 4;      // token counts of units are additive for most tokenizers: usually one pass

// One number of units, rendered and measured with the longest question line.
struct Attempt {
  std::vector<Unit> units;
  std::vector<size_t> unit_begin;
  std::string shared;
  int64_t token_count = 0;         // of the whole prompt; an estimate until `token_ids` is set
  std::vector<int32_t> token_ids;  // of the whole prompt
};

class Fitter {
 public:
  Fitter(const ContextPlan& plan, const FitRequest& request, const TokenCounter& tokenizer)
      : plan_(plan),
        request_(request),
        tokenizer_(tokenizer),
        chunks_(tokenizer),
        budget_(request.context_length - request.max_new_tokens) {}

  absl::StatusOr<FittedContext> Fit() {
    RETURN_IF_ERROR(FindLongestQuestion());
    ASSIGN_OR_RETURN(Attempt best, Search());
    for (;;) {
      ASSIGN_OR_RETURN(std::optional<QuestionIds> ids, EncodeQuestions(best));
      if (ids.has_value()) {
        RETURN_IF_ERROR(FillUp(best, *ids));
        return FittedContext{std::move(best.units), std::move(best.unit_begin), std::move(best.shared),
                             *std::move(ids)};
      }
      // Another question line has more tokens in place: measure with that one, with one unit fewer.
      is_exact_ = true;
      const int count = std::ssize(best.units) - 1;
      if (count < plan_.unit_count_min()) return TooShort(budget_ + 1);
      ASSIGN_OR_RETURN(best, Try(count));
      RETURN_IF_ERROR(CloseGap(best));
    }
  }

 private:
  using QuestionIds = std::vector<std::vector<int32_t>>;  // of the whole prompt of each question

  absl::StatusOr<int64_t> Count(absl::string_view piece) const {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer_.EncodePiece(piece));
    return std::ssize(ids);
  }

  // Probes are estimated from chunks, so that a probe costs only its new parts; the result is encoded whole. Where token
  // counts are not additive over chunks, the estimate is rescaled, and finally replaced by whole encodings.
  absl::StatusOr<Attempt> Search() {
    for (int search = 0; search < kEstimatedSearchesMax; ++search) {
      absl::StatusOr<Attempt> found = SearchOnce();
      if (!found.ok()) break;  // errors are reported only from whole encodings
      const double estimate = found->token_count;
      is_exact_ = true;
      RETURN_IF_ERROR(Measure(*found));
      const bool is_near = found->token_count <= budget_ && budget_ - found->token_count <= kGapAim;
      if (is_near || found->token_count == estimate) return found;
      is_exact_ = false;
      chunk_scale_ *= found->token_count / estimate;
    }
    is_exact_ = true;
    return SearchOnce();
  }

  absl::StatusOr<Attempt> SearchOnce() {
    ASSIGN_OR_RETURN(Attempt best, LargestThatFits());
    RETURN_IF_ERROR(CloseGap(best));
    return best;
  }

  absl::Status FindLongestQuestion() {
    int64_t longest = -1;
    for (size_t i = 0; i < plan_.questions().size(); ++i) {
      ASSIGN_OR_RETURN(const int64_t count, Count(plan_.questions()[i].line));
      if (count > longest) {
        longest = count;
        longest_question_ = i;
      }
    }
    return absl::OkStatus();
  }

  void Render(Attempt& attempt) const {
    attempt.shared.assign(plan_.header().data(), plan_.header().size());
    attempt.unit_begin.clear();
    for (size_t i = 0; i < attempt.units.size(); ++i) {
      if (i > 0) absl::StrAppend(&attempt.shared, plan_.SeparatorBefore(i));
      attempt.unit_begin.push_back(attempt.shared.size());
      attempt.shared += attempt.units[i].text;
    }
    absl::StrAppend(&attempt.shared, plan_.footer());
  }

  absl::Status Measure(Attempt& attempt) {
    const std::string prompt = absl::StrCat(attempt.shared, plan_.questions()[longest_question_].line);
    if (is_exact_) {
      ASSIGN_OR_RETURN(attempt.token_ids, tokenizer_.EncodePrompt(prompt));
      attempt.token_count = attempt.token_ids.size();
      return absl::OkStatus();
    }
    if (special_count_ < 0) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> specials, tokenizer_.EncodePrompt(""));
      special_count_ = specials.size();
    }
    ASSIGN_OR_RETURN(const int64_t chunk_total, chunks_.Count(prompt));
    attempt.token_count = special_count_ + std::llround(chunk_scale_ * chunk_total);
    return absl::OkStatus();
  }

  absl::StatusOr<Attempt> Try(int count) {
    Random filler(request_.filler_seed);
    Attempt attempt;
    attempt.units = plan_.Build(count, filler);
    VF_CHECK(std::ssize(attempt.units) == count);
    Render(attempt);
    RETURN_IF_ERROR(Measure(attempt));
    return attempt;
  }

  absl::Status TooShort(int64_t needed) const {
    return InvalidArgument("context_length ", request_.context_length, " is too short for task \"", request_.task,
                           "\": its smallest context takes ", needed + request_.max_new_tokens,
                           " tokens with this tokenizer");
  }

  absl::StatusOr<Attempt> LargestThatFits() {
    const int low_limit = plan_.unit_count_min();
    const int high_limit = plan_.unit_count_max();
    ASSIGN_OR_RETURN(Attempt best, Try(low_limit));
    if (best.token_count > budget_) return TooShort(best.token_count);
    // The marginal tokens of a unit, from a small context against the smallest.
    const int probe_count = std::min(low_limit + kProbeUnits, high_limit);
    ASSIGN_OR_RETURN(Attempt probe, Try(probe_count));
    double unit_cost =
        std::max(1.0, static_cast<double>(probe.token_count - best.token_count) / std::max(1, probe_count - low_limit));
    int too_many = high_limit + 1;  // the smallest number known not to fit
    Attempt latest = std::move(probe);
    for (int round = 0; round < kRoundsMax; ++round) {
      const int count = latest.units.size();
      if (latest.token_count > budget_) {
        too_many = std::min(too_many, count);
      } else if (latest.units.size() >= best.units.size()) {
        best = latest;
      }
      const int best_count = best.units.size();
      const double step = std::floor((budget_ - latest.token_count) / unit_cost);
      int next = std::clamp<double>(count + step, best_count, too_many - 1);
      if (next == best_count) break;
      ASSIGN_OR_RETURN(Attempt tried, Try(next));
      if (std::abs(next - count) >= kProbeUnits) {
        unit_cost = std::max(1.0, static_cast<double>(tried.token_count - latest.token_count) / (next - count));
      }
      latest = std::move(tried);
    }
    const double gap = budget_ - best.token_count;
    if (std::ssize(best.units) == high_limit && gap > unit_cost + kShortfallMax) {
      return InvalidArgument("context_length ", request_.context_length, " is too long for task \"", request_.task,
                             "\": its lexicon has ", high_limit, " distinct units, ",
                             best.token_count + request_.max_new_tokens, " tokens with this tokenizer");
    }
    return best;
  }

  absl::Status CloseGap(Attempt& attempt) {
    for (int pass = 0; pass < kClosingPassesMax && budget_ - attempt.token_count > kGapAim; ++pass) {
      RETURN_IF_ERROR(CloseGap(attempt, pass));
    }
    return absl::OkStatus();
  }

  // Exchanges filler units, in random order, for the alternative that fills most of the gap without exceeding it.
  absl::Status CloseGap(Attempt& attempt, int pass) {
    int64_t gap = budget_ - attempt.token_count;
    Random random(Sha256(absl::StrCat("exchange\n", ToHex(request_.filler_seed), "\n", pass, "\n")));
    const size_t count = attempt.units.size();
    struct Exchange {
      size_t index;
      Unit before;
    };
    std::vector<Exchange> exchanges;
    for (size_t index : random.Sample(count, std::min<size_t>(count, kExchangedUnitsMax))) {
      if (gap <= kGapAim) break;
      const absl::string_view separator = index > 0 ? plan_.SeparatorBefore(index) : "";
      std::optional<Unit> best;
      int64_t best_gain = 0;
      int64_t before = -1;
      for (int i = 0; i < kAlternativesPerUnit && best_gain < gap - kGapAim; ++i) {
        std::optional<Unit> other = plan_.Alternative(attempt.units[index], random);
        if (!other.has_value()) break;
        if (before < 0) {
          ASSIGN_OR_RETURN(before, Count(absl::StrCat(separator, attempt.units[index].text)));
        }
        ASSIGN_OR_RETURN(const int64_t after, Count(absl::StrCat(separator, other->text)));
        if (after - before > best_gain && after - before <= gap) {
          best_gain = after - before;
          best = std::move(other);
        }
      }
      if (!best.has_value()) continue;
      exchanges.push_back({index, std::exchange(attempt.units[index], *std::move(best))});
      gap -= best_gain;
    }
    // In context the new units may have more tokens than alone: undo exchanges until the prompt fits.
    while (!exchanges.empty()) {
      Render(attempt);
      RETURN_IF_ERROR(Measure(attempt));
      if (attempt.token_count <= budget_) return absl::OkStatus();
      attempt.units[exchanges.back().index] = std::move(exchanges.back().before);
      exchanges.pop_back();
      if (exchanges.empty()) {
        Render(attempt);
        RETURN_IF_ERROR(Measure(attempt));
      }
    }
    return absl::OkStatus();
  }

  // A position from which the end of a prompt can be encoded separately: a blank at least kTailBytes before `byte` of the
  // shared text after which the text has the same ids encoded alone as in the whole. A token begins there, far from any
  // change at or after `byte`.
  struct Cut {
    size_t byte = 0;
    std::ptrdiff_t head_count = 0;  // tokens before it
  };
  absl::StatusOr<std::optional<Cut>> FindCut(const std::string& shared, size_t byte, absl::Span<const int32_t> ids,
                                             size_t question) const {
    if (byte <= kTailBytes) return std::optional<Cut>();
    const size_t blank = shared.find_last_of(" \n", byte - kTailBytes);
    for (size_t at = blank; blank != std::string::npos && at <= blank + 1; ++at) {
      ASSIGN_OR_RETURN(const std::vector<int32_t> tail, EncodeFrom(shared, at, question));
      if (tail.size() > ids.size() || !std::equal(tail.rbegin(), tail.rend(), ids.rbegin())) continue;
      return std::optional<Cut>({at, static_cast<std::ptrdiff_t>(ids.size() - tail.size())});
    }
    return std::optional<Cut>();
  }

  // Encodes every question; nullopt when one of them does not fit, which then counts as the longest. The end of the shared
  // text is encoded with each line, the text before it once.
  absl::StatusOr<std::optional<QuestionIds>> EncodeQuestions(const Attempt& attempt) {
    const std::string& shared = attempt.shared;
    const std::vector<int32_t>& ids = attempt.token_ids;  // of the longest; set by Search
    std::optional<Cut> cut;
    if (plan_.questions().size() > 1) {
      ASSIGN_OR_RETURN(cut, FindCut(shared, shared.size(), ids, longest_question_));
    }
    QuestionIds all;
    for (size_t i = 0; i < plan_.questions().size(); ++i) {
      std::vector<int32_t> question_ids;
      if (i == longest_question_) {
        question_ids = ids;
      } else if (cut.has_value()) {
        ASSIGN_OR_RETURN(const std::vector<int32_t> tail, EncodeFrom(shared, cut->byte, i));
        question_ids.assign(ids.begin(), ids.begin() + cut->head_count);
        question_ids.insert(question_ids.end(), tail.begin(), tail.end());
      } else {
        ASSIGN_OR_RETURN(question_ids, tokenizer_.EncodePrompt(absl::StrCat(shared, plan_.questions()[i].line)));
      }
      if (std::ssize(question_ids) > budget_) {
        longest_question_ = i;
        return std::optional<QuestionIds>();
      }
      all.push_back(std::move(question_ids));
    }
    return std::optional<QuestionIds>(std::move(all));
  }

  // Where any question has more than kShortfallMax tokens left: appends a prefix of the following text to the last filler,
  // up to the end of a word if sufficient, otherwise as much as fits. Only the end of the prompt changes and is encoded
  // during the search, and the whole prompt once at the end.
  absl::Status FillUp(Attempt& attempt, QuestionIds& ids) {
    auto is_shorter = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto [shortest, longest] = std::minmax_element(ids.begin(), ids.end(), is_shorter);
    if (budget_ - std::ssize(*shortest) <= kShortfallMax) return absl::OkStatus();
    Random filler(request_.filler_seed);
    const std::string more = plan_.MoreText(attempt.units.size(), filler);
    size_t last = attempt.units.size();
    while (last > 0 && attempt.units[last - 1].planted >= 0) --last;
    if (more.empty() || last == 0) return absl::OkStatus();
    std::string& text = attempt.units[last - 1].text;
    const size_t place = attempt.unit_begin[last - 1] + text.size();
    longest_question_ = longest - ids.begin();
    ASSIGN_OR_RETURN(const std::optional<Cut> cut, FindCut(attempt.shared, place, *longest, longest_question_));
    const size_t begin = cut.has_value() ? cut->byte : 0;
    // Tokens of the longest question with the first `size` bytes.
    auto count_with = [&](size_t size) -> absl::StatusOr<int64_t> {
      const std::string tail = absl::StrCat(attempt.shared.substr(begin, place - begin), more.substr(0, size),
                                            attempt.shared.substr(place), plan_.questions()[longest_question_].line);
      ASSIGN_OR_RETURN(const std::vector<int32_t> tail_ids,
                       cut.has_value() ? tokenizer_.EncodePiece(tail) : tokenizer_.EncodePrompt(tail));
      return (cut.has_value() ? cut->head_count : 0) + std::ssize(tail_ids);
    };
    std::vector<size_t> ends = {0};  // of whole characters
    for (size_t i = 1; i <= more.size(); ++i) {
      if (i == more.size() || (more[i] & 0xC0) != 0x80) ends.push_back(i);
    }
    size_t fits = 0;
    for (size_t too_many = ends.size(); fits + 1 < too_many;) {
      const size_t middle = fits + (too_many - fits) / 2;
      ASSIGN_OR_RETURN(const int64_t count, count_with(ends[middle]));
      (count <= budget_ ? fits : too_many) = middle;
    }
    size_t size = ends[fits];
    if (size == 0) return absl::OkStatus();
    const size_t blank = size < more.size() ? more.find_last_of(" \n", size) : std::string::npos;
    if (blank != std::string::npos && blank > 0) {
      ASSIGN_OR_RETURN(const int64_t count, count_with(blank));
      const int64_t spread = longest->size() - shortest->size();
      if (count <= budget_ && budget_ - count + spread <= kShortfallMax) size = blank;
    }
    const size_t before = text.size();
    text.append(more, 0, size);
    Render(attempt);
    RETURN_IF_ERROR(Measure(attempt));
    if (attempt.token_count <= budget_) {
      ASSIGN_OR_RETURN(std::optional<QuestionIds> filled, EncodeQuestions(attempt));
      if (filled.has_value()) {
        ids = *std::move(filled);
        return absl::OkStatus();
      }
    }
    text.resize(before);
    Render(attempt);
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<int32_t>> EncodeFrom(absl::string_view shared, size_t byte, size_t question) const {
    return tokenizer_.EncodePiece(absl::StrCat(shared.substr(byte), plan_.questions()[question].line));
  }

  const ContextPlan& plan_;
  const FitRequest& request_;
  const TokenCounter& tokenizer_;
  ChunkCounter chunks_;
  const int64_t budget_;
  size_t longest_question_ = 0;
  bool is_exact_ = false;       // probes are encoded whole
  double chunk_scale_ = 1;      // tokens of a prompt per token of its chunks
  int64_t special_count_ = -1;  // special tokens added by the tokenizer
};

size_t CommonPrefix(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  return std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first - a.begin();
}

// Finds the token at a byte. The text is processed in pieces that end before blanks; while the ids of each piece equal
// those at its position in the prompt, one pass over the prompt is enough for all bytes.
class TokenFinder {
 public:
  TokenFinder(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer)
      : prompt_(prompt), token_ids_(token_ids), tokenizer_(tokenizer) {}

  struct Border {
    size_t same_count = 0;   // length of the common prefix of the prompt's ids and those of its first bytes alone
    size_t alone_count = 0;  // number of ids of these bytes alone
  };
  // Bytes may be in any order; ascending ones share the pass.
  absl::StatusOr<Border> Before(size_t byte) {
    if (byte < byte_) byte_ = token_ = 0;
    const size_t blank = byte >= byte_ + 2 * kAnchorBytes ? prompt_.substr(0, byte - kAnchorBytes).find_last_of(" \n")
                                                          : absl::string_view::npos;
    if (blank != absl::string_view::npos && blank > byte_) {
      ASSIGN_OR_RETURN(const Border border, EncodeUntil(blank));
      if (border.same_count == border.alone_count) {
        byte_ = blank;
        token_ = border.same_count;
      }
    }
    return EncodeUntil(byte);
  }

 private:
  absl::StatusOr<Border> EncodeUntil(size_t byte) const {
    ASSIGN_OR_RETURN(const std::vector<int32_t> piece,
                     byte_ == 0 ? tokenizer_.EncodePromptStart(prompt_.substr(0, byte))
                                : tokenizer_.EncodePiece(prompt_.substr(byte_, byte - byte_)));
    const size_t same = CommonPrefix(piece, token_ids_.subspan(token_));
    if (byte_ == 0 || same > 0) return Border{token_ + same, token_ + piece.size()};
    // Some tokenizers prepend a blank to every piece: here it is the existing one.
    ASSIGN_OR_RETURN(const std::vector<int32_t> bare,
                     tokenizer_.EncodePiece(prompt_.substr(byte_ + 1, byte - byte_ - 1)));
    return Border{token_ + CommonPrefix(bare, token_ids_.subspan(token_)), token_ + bare.size()};
  }

  absl::string_view prompt_;
  absl::Span<const int32_t> token_ids_;
  const TokenCounter& tokenizer_;
  size_t byte_ = 0;   // 0, or a blank before which a token ends
  size_t token_ = 0;  // the token that begins there
};

}  // namespace

absl::StatusOr<FittedContext> FitContext(const ContextPlan& plan, const FitRequest& request,
                                         const TokenCounter& tokenizer) {
  return Fitter(plan, request, tokenizer).Fit();
}

absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          absl::Span<PromptSpan* const> spans) {
  TokenFinder finder(prompt, token_ids, tokenizer);
  struct Border {
    int64_t byte = 0;
    bool is_end = false;
    int64_t* token = nullptr;
  };
  std::vector<Border> borders;
  for (PromptSpan* span : spans) {
    borders.push_back({span->byte_begin, false, &span->token_begin});
    borders.push_back({span->byte_end, true, &span->token_end});
  }
  std::stable_sort(borders.begin(), borders.end(), [](const Border& a, const Border& b) { return a.byte < b.byte; });
  for (const Border& border : borders) {
    ASSIGN_OR_RETURN(const TokenFinder::Border found, finder.Before(border.byte));
    // A token that extends beyond the span is included.
    const bool is_whole = !border.is_end || found.same_count == found.alone_count;
    const size_t token = is_whole ? found.same_count : std::max(found.same_count + 1, found.alone_count);
    *border.token = std::min(token_ids.size(), token);
  }
  return absl::OkStatus();
}

absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          std::vector<PromptSpan>& spans) {
  std::vector<PromptSpan*> pointers;
  for (PromptSpan& span : spans) pointers.push_back(&span);
  return LocateTokens(prompt, token_ids, tokenizer, pointers);
}

}  // namespace varifocal
