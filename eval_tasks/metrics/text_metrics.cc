#include "eval_tasks/metrics/text_metrics.h"

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/as_written.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

absl::Status NeedGold(const MetricInput& input) {
  if (input.gold.empty()) return InvalidArgument("no gold answer: at least 1 is needed to score a text");
  return absl::OkStatus();
}

using TextWords = std::vector<std::string>;

bool IsVerdict(const std::string& text) { return text == "yes" || text == "no" || text == "noanswer"; }

double TokenF1(const TextWords& prediction, const TextWords& gold) {
  const std::string joined_prediction = absl::StrJoin(prediction, " ");
  const std::string joined_gold = absl::StrJoin(gold, " ");
  if ((IsVerdict(joined_prediction) || IsVerdict(joined_gold)) && joined_prediction != joined_gold) return 0;
  return BagF1(prediction, gold);
}

// The best over the gold answers: `by_words` of normalised words, or where the gold answer has none, `as_written`.
template <typename ByWords, typename AsWritten>
absl::StatusOr<double> Best(const MetricInput& input, ByWords by_words, AsWritten as_written) {
  RETURN_IF_ERROR(NeedGold(input));
  const TextWords prediction = NormalizedWords(input.prediction);
  double best = 0;
  for (const std::string& gold : input.gold) {
    const TextWords words = NormalizedWords(gold);
    best = std::max<double>(best, words.empty() ? as_written(input.prediction, gold) : by_words(prediction, words));
  }
  return best;
}

bool Holds(const TextWords& prediction, const TextWords& gold) {
  return absl::StrContains(absl::StrJoin(prediction, " "), absl::StrJoin(gold, " "));
}

int CountGoldsInside(const MetricInput& input) {
  const std::string prediction = PythonLower(input.prediction);
  return std::count_if(input.gold.begin(), input.gold.end(), [&](const std::string& gold) {
    const std::string wanted = PythonLower(PythonStrip(gold));
    return !wanted.empty() && absl::StrContains(prediction, wanted);
  });
}

}  // namespace

absl::StatusOr<double> ScoreExactMatch(const MetricInput& input) {
  return Best(input, std::equal_to<TextWords>(), [](const std::string& prediction, const std::string& gold) {
    return EqualsAsWritten(prediction, gold, EndsOf(gold));
  });
}

absl::StatusOr<double> ScoreSubstringExactMatch(const MetricInput& input) {
  return Best(input, &Holds, [](const std::string& prediction, const std::string& gold) {
    return HoldsAsWritten(prediction, gold, EndsOf(gold));
  });
}

absl::StatusOr<double> ScoreTokenF1(const MetricInput& input) {
  return Best(input, &TokenF1, [](absl::string_view prediction, absl::string_view gold) {
    return TokenF1(WordsAsWritten(prediction, EndsOf(gold)), WordsAsWritten(gold, EndsOf(gold)));
  });
}

absl::StatusOr<double> ScoreStringMatchAll(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return static_cast<double>(CountGoldsInside(input)) / input.gold.size();
}

absl::StatusOr<double> ScoreStringMatchPart(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return CountGoldsInside(input) > 0 ? 1.0 : 0.0;
}

absl::StatusOr<double> ScoreWrittenMatch(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return std::any_of(input.gold.begin(), input.gold.end(),
                     [&](const std::string& gold) { return EqualsAsWritten(input.prediction, gold); });
}

absl::StatusOr<double> ScoreWrittenSubstring(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return std::any_of(input.gold.begin(), input.gold.end(),
                     [&](const std::string& gold) { return HoldsAsWritten(input.prediction, gold); });
}

UpstreamTextMeasures MeasureAsUpstream(absl::string_view prediction, const std::vector<std::string>& gold) {
  const TextWords words = NormalizedWords(prediction);
  UpstreamTextMeasures best;
  for (const std::string& answer : gold) {
    const TextWords wanted = NormalizedWords(answer);
    best.exact_match = std::max<double>(best.exact_match, words == wanted);
    best.substring_exact_match = std::max<double>(best.substring_exact_match, Holds(words, wanted));
    best.token_f1 = std::max(best.token_f1, TokenF1(words, wanted));
  }
  return best;
}

}  // namespace varifocal
