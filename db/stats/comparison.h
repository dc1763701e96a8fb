// The rows of a comparison: of one task, metric and length; of the mean over tasks at a length; and of how a difference
// depends on the length. db/stats/compare.h makes them.
//
// Differences are candidate minus baseline. A failed sample counts as the metric's worst value, and makes the row
// incomplete; a row whose outcome would be another one without failed pairs is undecided (Inference::failures_decide).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "db/stats/inference.h"
#include "db/stats/max_t.h"
#include "db/stats/relative_gain.h"
#include "db/stats/score_intervals.h"
#include "db/stats/sign_flip.h"

namespace varifocal::stats {

inline constexpr double kDefaultMargin = 0.03;

// A part of each task's contexts: every second one by name, the same at all lengths and for all variants, whatever the
// answers are. One half serves to choose a candidate, the other to test it.
enum class Contexts { kAll, kChoice, kConfirmation };

struct PairSource;  // db/stats/grouped_pairs.h

struct CompareOptions {
  double confidence = 0.95;
  Contexts contexts = Contexts::kAll;
  double margin = kDefaultMargin;  // of equivalence, as a share of a metric's span from worst to best
  bool with_sign_flip = true;
  SignFlipOptions sign_flip;
  bool with_max_t = false;  // the family of means over tasks is adjusted by max-t once every answer of it is there
  std::shared_ptr<PairSource> source;  // what several comparisons with one baseline have in common; may be empty
};

// What the questions of one data seed alone give, in a job of several: the rows pool them.
struct SeedDifference {
  int64_t seed = 0;
  double difference = 0;
};

// Of one task, metric and length; differences in the metric's unit. A metric without bounds has no margin.
struct Comparison : Inference {
  std::string task, metric;
  int64_t context_length = 0;
  std::string baseline, candidate;
  bool is_primary_metric = false;  // the task's first metric
  int64_t planned_count = 0;
  int64_t sample_count = 0;    // pairs compared
  int64_t failed_count = 0;    // pairs with a failure on either side
  bool is_incomplete = false;  // failures, or fewer pairs than planned
  double baseline_mean = 0, candidate_mean = 0;
  std::optional<Interval> baseline_interval, candidate_interval;  // none: equal values without bounds, or one context
  RelativeGain relative;
  int64_t gain_count = 0;  // pairs where the candidate is better, and where it is worse (v. best_value)
  int64_t loss_count = 0;
  int64_t baseline_left_out_count = 0;  // across jobs: questions of this side without a counterpart on the other
  int64_t candidate_left_out_count = 0;
  std::vector<SeedDifference> by_seed;  // empty in a job of one seed
};

// One length, all tasks: the mean of the tasks' differences, as a share of each metric's span; better is positive.
struct SuiteComparison : Inference {
  int64_t context_length = 0;
  std::string baseline, candidate;
  int64_t task_count = 0;           // with at least one pair
  int64_t finished_task_count = 0;  // with every planned pair
  int64_t planned_task_count = 0;
  int64_t sample_count = 0, failed_count = 0;
  bool is_incomplete = false;
  double baseline_mean = 0, candidate_mean = 0;
  RelativeGain relative;
  ClusterContributions contributions, answered_contributions;  // with_max_t alone
  std::vector<SeedDifference> by_seed;  // over the tasks whose questions a seed changes; empty in a job of one seed
};

// How the difference depends on the length, question by question. task is "" for the mean over tasks.
struct LengthContrast : Inference {
  // The difference at the longest length minus that at the shortest one; or, with three lengths and more, the slope per
  // doubling of the length, by least squares over all of them.
  enum class Kind { kChange, kSlope };
  Kind kind = Kind::kChange;
  std::string task, metric;
  int64_t short_length = 0, long_length = 0;
  std::string baseline, candidate;
  int64_t question_count = 0;
  double short_difference = 0, long_difference = 0;
};

// The number of tests of a pair of variants once all planned samples are answered.
struct DeclaredTests {
  int64_t suite = 0, primary = 0, secondary = 0;
};

struct ComparisonReport {
  std::vector<Comparison> comparisons;    // by task, metric_index, context_length
  std::vector<SuiteComparison> suite;     // by context_length
  std::vector<LengthContrast> contrasts;  // changes, then slopes; of each task's primary metric, then ""
  DeclaredTests declared;
  bool tokenizers_differ = false;  // pairs share the question, not the prompt
  bool is_incomplete = false;
  // Across jobs, over all tasks and lengths of either one; see db/pairing.h.
  bool is_across_jobs = false;
  int64_t paired_count = 0, baseline_left_out_count = 0, candidate_left_out_count = 0;
  std::vector<std::string> tasks_with_other_settings;
};

// Context of a comparison that the rows do not contain.
struct MetricInfo {
  bool is_binary = false;
  bool is_primary = false;
  int64_t planned_count = 0;
  std::optional<double> worst_value, best_value;
  // Design effects over all lengths, used if there is no spread at this one: of the differences, and of each side's
  // values.
  std::optional<double> design_effect, baseline_design_effect, candidate_design_effect;
};

}  // namespace varifocal::stats
