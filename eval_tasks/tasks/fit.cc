#include "eval_tasks/tasks/fit.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int kProbeUnits = 64;  // enough to see what a unit costs in company
constexpr int kRoundsMax = 12;   // of changing the number of units
constexpr int kGapAim = 8;       // tokens; exchanging units stops here: every exchange bends the mix of units
constexpr int kExchangedUnitsMax = 256;
constexpr int kAlternativesPerUnit = 8;
constexpr int kClosingPassesMax = 4;  // units gain in company what they gain alone with most tokenizers: one pass does

// One number of units, rendered and measured with the longest question line.
struct Attempt {
  std::vector<Unit> units;
  std::vector<size_t> unit_begin;
  std::string shared;
  int64_t token_count = 0;  // of the whole prompt, exact
};

class Fitter {
 public:
  Fitter(const ContextPlan& plan, const FitRequest& request, const TokenCounter& tokenizer)
      : plan_(plan),
        request_(request),
        tokenizer_(tokenizer),
        budget_(request.context_length - request.max_new_tokens) {}

  absl::StatusOr<FittedContext> Fit() {
    RETURN_IF_ERROR(FindLongestQuestion());
    ASSIGN_OR_RETURN(Attempt best, LargestThatFits());
    for (;;) {
      for (int pass = 0; pass < kClosingPassesMax && budget_ - best.token_count > kGapAim; ++pass) {
        RETURN_IF_ERROR(CloseGap(best, pass));
      }
      ASSIGN_OR_RETURN(std::optional<FittedContext> fitted, Finish(best));
      if (fitted.has_value()) return *std::move(fitted);
      // Another question line turned out longer in place: measure with that one, with one unit fewer.
      const int count = static_cast<int>(best.units.size()) - 1;
      if (count < plan_.unit_count_min()) return TooShort(budget_ + 1);
      ASSIGN_OR_RETURN(best, Try(count));
    }
  }

 private:
  absl::StatusOr<int64_t> Count(absl::string_view piece) const {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer_.EncodePiece(piece));
    return static_cast<int64_t>(ids.size());
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
      if (i > 0) absl::StrAppend(&attempt.shared, plan_.SeparatorBefore(static_cast<int>(i)));
      attempt.unit_begin.push_back(attempt.shared.size());
      attempt.shared += attempt.units[i].text;
    }
    absl::StrAppend(&attempt.shared, plan_.footer());
  }

  absl::Status Measure(Attempt& attempt) const {
    ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                     tokenizer_.EncodePrompt(absl::StrCat(attempt.shared, plan_.questions()[longest_question_].line)));
    attempt.token_count = static_cast<int64_t>(ids.size());
    return absl::OkStatus();
  }

  absl::StatusOr<Attempt> Try(int count) const {
    Random filler(request_.filler_seed);
    Attempt attempt;
    attempt.units = plan_.Build(count, filler);
    VF_CHECK(static_cast<int>(attempt.units.size()) == count);
    Render(attempt);
    RETURN_IF_ERROR(Measure(attempt));
    return attempt;
  }

  absl::Status TooShort(int64_t needed) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "context_length ", request_.context_length, " is too short for task \"", request_.task,
        "\": its smallest context takes ", needed + request_.max_new_tokens, " tokens with this tokenizer"));
  }

  absl::StatusOr<Attempt> LargestThatFits() const {
    const int low_limit = plan_.unit_count_min();
    const int high_limit = plan_.unit_count_max();
    ASSIGN_OR_RETURN(Attempt best, Try(low_limit));
    if (best.token_count > budget_) return TooShort(best.token_count);
    // What a unit costs in company, from a small context against the smallest.
    const int probe_count = std::min(low_limit + kProbeUnits, high_limit);
    ASSIGN_OR_RETURN(Attempt probe, Try(probe_count));
    double unit_cost =
        std::max(1.0, static_cast<double>(probe.token_count - best.token_count) / std::max(1, probe_count - low_limit));
    int too_many = high_limit + 1;  // the smallest number known not to fit
    Attempt latest = std::move(probe);
    for (int round = 0; round < kRoundsMax; ++round) {
      const int count = static_cast<int>(latest.units.size());
      if (latest.token_count > budget_) {
        too_many = std::min(too_many, count);
      } else if (latest.units.size() >= best.units.size()) {
        best = latest;
      }
      const int best_count = static_cast<int>(best.units.size());
      const double step = std::floor(static_cast<double>(budget_ - latest.token_count) / unit_cost);
      int next = static_cast<int>(std::clamp<double>(count + step, best_count, too_many - 1));
      if (next == best_count) break;
      ASSIGN_OR_RETURN(Attempt tried, Try(next));
      if (std::abs(next - count) >= kProbeUnits) {
        unit_cost = std::max(1.0, static_cast<double>(tried.token_count - latest.token_count) / (next - count));
      }
      latest = std::move(tried);
    }
    const double gap = static_cast<double>(budget_ - best.token_count);
    if (static_cast<int>(best.units.size()) == high_limit && gap > unit_cost + kShortfallMax) {
      return absl::InvalidArgumentError(
          absl::StrCat("context_length ", request_.context_length, " is too long for task \"", request_.task,
                       "\": its lexicon gives ", high_limit, " different units, ",
                       best.token_count + request_.max_new_tokens, " tokens with this tokenizer"));
    }
    return best;
  }

  // Exchanges filler units, in random order, for the alternative that comes nearest to the gap without passing it.
  absl::Status CloseGap(Attempt& attempt, int pass) const {
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
      const absl::string_view separator = index > 0 ? plan_.SeparatorBefore(static_cast<int>(index)) : "";
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
    // In company the new units may cost more than alone: take exchanges back until the prompt fits.
    for (;;) {
      Render(attempt);
      RETURN_IF_ERROR(Measure(attempt));
      if (attempt.token_count <= budget_ || exchanges.empty()) return absl::OkStatus();
      attempt.units[exchanges.back().index] = std::move(exchanges.back().before);
      exchanges.pop_back();
    }
  }

  // Encodes every question; nothing when one of them does not fit, which then counts as the longest.
  absl::StatusOr<std::optional<FittedContext>> Finish(Attempt& attempt) {
    FittedContext fitted;
    for (size_t i = 0; i < plan_.questions().size(); ++i) {
      ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                       tokenizer_.EncodePrompt(absl::StrCat(attempt.shared, plan_.questions()[i].line)));
      if (static_cast<int64_t>(ids.size()) > budget_) {
        longest_question_ = i;
        return std::optional<FittedContext>();
      }
      fitted.token_ids.push_back(std::move(ids));
    }
    fitted.units = std::move(attempt.units);
    fitted.unit_begin = std::move(attempt.unit_begin);
    fitted.shared = std::move(attempt.shared);
    return std::optional<FittedContext>(std::move(fitted));
  }

  const ContextPlan& plan_;
  const FitRequest& request_;
  const TokenCounter& tokenizer_;
  const int64_t budget_;
  size_t longest_question_ = 0;
};

size_t CommonPrefix(absl::Span<const int32_t> a, absl::Span<const int32_t> b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.begin() + std::min(a.size(), b.size()), b.begin()).first -
                             a.begin());
}

}  // namespace

absl::StatusOr<FittedContext> FitContext(const ContextPlan& plan, const FitRequest& request,
                                         const TokenCounter& tokenizer) {
  return Fitter(plan, request, tokenizer).Fit();
}

absl::Status LocateTokens(absl::string_view prompt, absl::Span<const int32_t> token_ids, const TokenCounter& tokenizer,
                          std::vector<EvidenceSpan>& spans) {
  // Where token borders fall on the spans' borders, the pieces between them have the prompt's own ids, and one pass
  // over the prompt finds every border. (What stands before the text is skipped: specials, a chat format's beginning.)
  ASSIGN_OR_RETURN(const std::vector<int32_t> leading, tokenizer.EncodePromptStart(""));
  size_t byte = 0, token = 0;
  bool piecewise = true;
  auto advance = [&](int64_t to) -> absl::Status {
    ASSIGN_OR_RETURN(const std::vector<int32_t> piece, tokenizer.EncodePiece(prompt.substr(byte, to - byte)));
    const size_t skip = byte == 0 ? CommonPrefix(leading, token_ids) : 0;
    piecewise = CommonPrefix(piece, token_ids.subspan(token + skip)) == piece.size();
    if (!piecewise) return absl::OkStatus();
    token += skip + piece.size();
    byte = static_cast<size_t>(to);
    return absl::OkStatus();
  };
  for (EvidenceSpan& span : spans) {
    if (!piecewise || span.byte_begin < static_cast<int64_t>(byte)) break;
    RETURN_IF_ERROR(advance(span.byte_begin));
    span.token_begin = static_cast<int64_t>(token);
    if (!piecewise) break;
    RETURN_IF_ERROR(advance(span.byte_end));
    span.token_end = static_cast<int64_t>(token);
  }
  if (piecewise) return absl::OkStatus();
  // Otherwise compare with the ids of the prompt cut at each border: equal ids lie before it.
  for (EvidenceSpan& span : spans) {
    ASSIGN_OR_RETURN(const std::vector<int32_t> until_begin,
                     tokenizer.EncodePromptStart(prompt.substr(0, span.byte_begin)));
    ASSIGN_OR_RETURN(const std::vector<int32_t> until_end,
                     tokenizer.EncodePromptStart(prompt.substr(0, span.byte_end)));
    span.token_begin = static_cast<int64_t>(CommonPrefix(until_begin, token_ids));
    const size_t same = CommonPrefix(until_end, token_ids);
    span.token_end = static_cast<int64_t>(
        std::min(token_ids.size(), same == until_end.size() ? same : std::max(same + 1, until_end.size())));
  }
  return absl::OkStatus();
}

}  // namespace varifocal
