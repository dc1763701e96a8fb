#include "db/epochs.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace varifocal::db {
namespace {

double Mean(const std::vector<double>& sorted) {
  double sum = 0;
  for (const double value : sorted) sum += value;
  return std::clamp(sum / sorted.size(), sorted.front(), sorted.back());  // equal values have themselves as their mean
}

// From worst to best: the best one less every step below it times the chance that all k are below the step,
// C(i, k) / C(n, k) with i values below. Equal values give exactly themselves.
double ExpectedBest(const std::vector<double>& sorted, int64_t k) {
  double best = sorted.back(), all_below = 1;
  for (int64_t i = std::ssize(sorted) - 1; i >= k; --i) {
    all_below *= 1 - static_cast<double>(k) / (i + 1);
    best -= (sorted[i] - sorted[i - 1]) * all_below;
  }
  return std::clamp(best, std::min(sorted.front(), sorted.back()), std::max(sorted.front(), sorted.back()));
}

std::optional<double> Majority(absl::Span<const EpochValue> answers) {
  std::map<absl::string_view, int64_t> votes;
  int64_t most = 0;
  for (const EpochValue& answer : answers) {
    if (!answer.is_failed) most = std::max(most, ++votes[answer.form]);
  }
  const auto first = std::find_if(answers.begin(), answers.end(), [&](const EpochValue& answer) {
    return !answer.is_failed && votes.at(answer.form) == most;
  });
  return first == answers.end() ? answers.front().value : first->value;
}

}  // namespace

std::string EpochStatistic::Name() const {
  return kind == Kind::kMean ? "mean" : kind == Kind::kMajority ? "majority" : absl::StrCat("pass@", k);
}

absl::StatusOr<EpochStatistic> ParseEpochStatistic(absl::string_view text) {
  for (const EpochStatistic::Kind kind : {EpochStatistic::Kind::kMean, EpochStatistic::Kind::kMajority}) {
    const EpochStatistic statistic{kind};
    if (text == statistic.Name()) return statistic;
  }
  EpochStatistic pass{EpochStatistic::Kind::kPass};
  absl::string_view number = text;
  if (absl::ConsumePrefix(&number, "pass@") && absl::SimpleAtoi(number, &pass.k) && pass.k >= 1) return pass;
  return InvalidArgument("the statistic over epochs is \"", text,
                         "\"; it must be mean, majority or pass@K, such as pass@4");
}

std::optional<double> ReduceEpochs(const EpochStatistic& statistic, absl::Span<const EpochValue> answers,
                                   bool lower_is_better) {
  if (statistic.kind == EpochStatistic::Kind::kMajority) return Majority(answers);
  std::vector<double> sorted;
  for (const EpochValue& answer : answers) {
    if (!answer.value.has_value()) return std::nullopt;
    sorted.push_back(*answer.value);
  }
  std::sort(sorted.begin(), sorted.end());
  if (statistic.kind == EpochStatistic::Kind::kMean) return Mean(sorted);
  if (std::ssize(sorted) < statistic.k) return std::nullopt;
  if (lower_is_better) std::reverse(sorted.begin(), sorted.end());
  return ExpectedBest(sorted, statistic.k);
}

ReducedQuestion ReduceQuestion(const EpochStatistic& statistic, std::vector<EpochValue> answers, bool is_partial,
                               std::optional<double> worst_value, std::optional<double> best_value) {
  for (EpochValue& answer : answers) {
    if (answer.is_failed) answer.value = worst_value;
  }
  const bool lower_is_better = worst_value.has_value() && best_value.has_value() && *best_value < *worst_value;
  ReducedQuestion question{ReduceEpochs(statistic, answers, lower_is_better)};
  // Failures have the worst value, so that none means an answer without a score.
  question.keeps_error = question.value.has_value() || (!is_partial && !worst_value.has_value());
  return question;
}

std::string MajorityForm(absl::string_view answer) {
  constexpr absl::string_view kMarks = "\"'`*()[]{}<>.,;:!?";
  std::string form(answer);
  std::replace_if(
      form.begin(), form.end(), [](char c) { return absl::ascii_isspace(c); }, ' ');
  absl::RemoveExtraAsciiWhitespace(&form);
  absl::AsciiStrToLower(&form);
  const size_t begin = form.find_first_not_of(absl::StrCat(kMarks, " "));
  // An answer of nothing but marks is what it is.
  if (begin == std::string::npos) return form;
  return form.substr(begin, form.find_last_not_of(absl::StrCat(kMarks, " ")) + 1 - begin);
}

}  // namespace varifocal::db
