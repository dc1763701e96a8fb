// The one value of a question with several answers (epochs of a job), for one metric.
//
// Answers to one question are not independent, and neither are questions of one context: so each question has one number,
// and everything after it, from pairs to intervals, is as with one answer to each question.
//
//   mean      the mean over the answers
//   pass@K    the expected best of K of the n answers, drawn without replacement. Where answers are right or wrong that is
//             1 - C(n - c, K) / C(n, K) with c right ones, the unbiased estimate of the chance that one of K is right
//   majority  the value of the most frequent answer, by MajorityForm; of equally frequent ones, that of the earliest
//
// Source: Chen et al. 2021, arXiv:2107.03374, section 2.1; majority: Wang et al. 2022, arXiv:2203.11171.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace varifocal::db {

struct EpochStatistic {
  enum class Kind { kMean, kPass, kMajority };
  Kind kind = Kind::kMean;
  int64_t k = 1;  // of kPass

  std::string Name() const;  // as it is given
  friend bool operator==(const EpochStatistic&, const EpochStatistic&) = default;
};

// "mean", "pass@4", "majority"; INVALID_ARGUMENT lists them.
absl::StatusOr<EpochStatistic> ParseEpochStatistic(absl::string_view text);

struct EpochValue {
  std::optional<double> value;
  bool is_failed = false;  // has no part in the majority, unless all failed
  std::string form;        // MajorityForm of the answer; needed for the majority alone
};

// Of the answers that exist, in the order of their epochs, at least one. None where one of them has no value, or where there
// are fewer than K.
std::optional<double> ReduceEpochs(const EpochStatistic& statistic, absl::Span<const EpochValue> answers,
                                   bool lower_is_better = false);

// A question's one value, and whether a failure of one of its answers is the question's.
struct ReducedQuestion {
  std::optional<double> value;
  bool keeps_error = false;  // else it is missing, without or with a failure: answers or scores are still to come
};

// `is_partial`: some epochs are not recorded yet. Failed answers count as the metric's worst value, where it has one.
ReducedQuestion ReduceQuestion(const EpochStatistic& statistic, std::vector<EpochValue> answers, bool is_partial,
                               std::optional<double> worst_value, std::optional<double> best_value);

// What makes answers equal: without regard to the case of ASCII letters, the amount of white space, and quotation marks,
// brackets, asterisks and .,;:!? at the ends.
std::string MajorityForm(absl::string_view answer);

}  // namespace varifocal::db
