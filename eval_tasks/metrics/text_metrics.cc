#include "eval_tasks/metrics/text_metrics.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

absl::Status NeedGold(const MetricInput& input) {
  if (input.gold.empty()) return absl::InvalidArgumentError("no gold answer: at least 1 is needed to judge a text");
  return absl::OkStatus();
}

bool IsVerdict(const std::string& text) { return text == "yes" || text == "no" || text == "noanswer"; }

double TokenF1(const std::vector<std::string>& prediction, const std::vector<std::string>& gold) {
  const std::string joined_prediction = absl::StrJoin(prediction, " ");
  const std::string joined_gold = absl::StrJoin(gold, " ");
  if ((IsVerdict(joined_prediction) || IsVerdict(joined_gold)) && joined_prediction != joined_gold) return 0;
  std::map<std::string, int> left;
  for (const std::string& word : gold) ++left[word];
  int common = 0;
  for (const std::string& word : prediction) {
    auto it = left.find(word);
    if (it != left.end() && it->second > 0) {
      --it->second;
      ++common;
    }
  }
  if (common == 0) return 0;
  const double precision = static_cast<double>(common) / prediction.size();
  const double recall = static_cast<double>(common) / gold.size();
  return 2 * precision * recall / (precision + recall);
}

int CountGoldsInside(const MetricInput& input) {
  const std::string prediction = PythonLower(input.prediction);
  return std::count_if(input.gold.begin(), input.gold.end(),
                       [&](const std::string& gold) { return absl::StrContains(prediction, PythonLower(gold)); });
}

}  // namespace

absl::StatusOr<double> ScoreExactMatch(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  const std::string prediction = NormalizeAnswer(input.prediction);
  for (const std::string& gold : input.gold) {
    if (NormalizeAnswer(gold) == prediction) return 1.0;
  }
  return 0.0;
}

absl::StatusOr<double> ScoreSubstringExactMatch(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  const std::string prediction = NormalizeAnswer(input.prediction);
  for (const std::string& gold : input.gold) {
    if (prediction.find(NormalizeAnswer(gold)) != std::string::npos) return 1.0;
  }
  return 0.0;
}

absl::StatusOr<double> ScoreTokenF1(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  const std::vector<std::string> prediction = NormalizedWords(input.prediction);
  double best = 0;
  for (const std::string& gold : input.gold) best = std::max(best, TokenF1(prediction, NormalizedWords(gold)));
  return best;
}

absl::StatusOr<double> ScoreStringMatchAll(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return static_cast<double>(CountGoldsInside(input)) / input.gold.size();
}

absl::StatusOr<double> ScoreStringMatchPart(const MetricInput& input) {
  RETURN_IF_ERROR(NeedGold(input));
  return CountGoldsInside(input) > 0 ? 1.0 : 0.0;
}

}  // namespace varifocal
