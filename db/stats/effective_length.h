// The effective context length of a variant: the largest of the tested lengths up to which its score reaches a threshold,
// at that length and at every shorter one.
//
// The threshold is a share of the variant's own score at the shortest length, or a score. Scores are means over tasks of
// the primary metric as a share of its span from worst to best. At each length the score minus the threshold has the
// interval of db/stats/inference.h over contexts; relative to the shortest length, question by question where both
// lengths ask the same ones. A share of the score at the shortest length is reached there by definition, so no test is made.
//
// The interval of the length inverts these tests in a fixed order, which needs no adjustment for several lengths:
//   - low:  the largest length reached upwards from the shortest, as long as each score is above the threshold by its test;
//   - high: the largest length left downwards from the longest, after removing each whose score is below it by its test.
// Each end is wrong with a probability of at most half of 1 - confidence, whatever the scores at the other lengths are.
//
// Source: Maurer, Hothorn and Lehmacher 1995 (tests in a fixed order); thresholds: Hsieh et al. 2024, arXiv:2404.06654
//         (a score, 85.6 %), Modarressi et al. 2025, arXiv:2502.05167 (85 % of the score at short lengths).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "db/reader.h"
#include "db/stats/clusters.h"
#include "db/stats/tested_lengths.h"

namespace varifocal::stats {

inline constexpr double kEffectiveShare = 0.85;
inline constexpr double kRulerEffectiveScore =
    0.856;  // RULER's published threshold: Llama 2's mean over its 13 tasks at 4K

struct EffectiveLengthOptions {
  double confidence = 0.95;
  double share = kEffectiveShare;  // of the score at the shortest length
  std::optional<double> score;     // if given, this score instead
};

// A question's value at one length, from 0 (worst) to 1 (best).
struct LengthValue {
  std::string question_id, cluster;
  double value = 0;
};

// One task: its questions by length.
using LengthValues = std::map<int64_t, std::vector<LengthValue>>;

enum class EffectiveLengthProblem {
  kNone,
  kUnfinished,   // planned samples have neither answer nor failure
  kNoInference,  // a task with one context at some length: the length has no interval
  kNoScore,      // the worst score at the shortest length: a share of it is no threshold
};
const char* EffectiveLengthProblemName(EffectiveLengthProblem problem);  // "", "unfinished", "no_inference", "no_score"

// Lengths are tested ones; none where the score does not reach the threshold at the shortest.
struct EffectiveLength {
  std::string variant;
  std::string task;  // "" for the mean over tasks
  EffectiveLengthProblem problem = EffectiveLengthProblem::kNone;
  std::vector<int64_t> tested;               // ascending
  std::optional<int64_t> length;             // the longest tested one: it may be larger
  std::optional<int64_t> low, high;          // likewise
  double shortest_score = 0, threshold = 0;  // as shares of the span
};

// `tasks` have the same lengths, at least one, and a value at each.
EffectiveLength FindEffectiveLength(const std::vector<LengthValues>& tasks, const EffectiveLengthOptions& options);

// Of every variant of the job: each task whose primary metric has a worst and a best value, then the mean over them if
// there are two, at the lengths that all of them have; tasks with a single length are left out. Lengths are those of
// db/stats/tested_lengths.h: one that no prompt reaches is none.
absl::StatusOr<std::vector<EffectiveLength>> EffectiveLengths(db::Reader& reader, int64_t job_id,
                                                              const EffectiveLengthOptions& options = {});
// The same by several thresholds from one reading of the samples, in the order of `options`.
absl::StatusOr<std::vector<std::vector<EffectiveLength>>> EffectiveLengths(
    db::Reader& reader, int64_t job_id, const std::vector<EffectiveLengthOptions>& options,
    const TestedLengths& tested);

}  // namespace varifocal::stats
