// Inference for one difference: interval, p value, sign-flip check, equivalence test and outcome.
//
// Interval and p come from one procedure and cannot contradict each other: a t statistic with the cluster-robust
// standard error of db/stats/clusters.h and Satterthwaite's degrees of freedom, combined over tasks by Welch's rule. The
// p of the sign-flip test is a check; where the two fall on different sides of 0.05 the difference is marked fragile.
//
// Where fewer than three clusters differ from the rest of their task, over all tasks of the mean, the spread between
// clusters cannot be estimated from the data, and zero spread would mean certainty. One pair of +difference_max and one of
// -difference_max are then added to each task that has fewer than three, as in a Bonett and Price interval, each weighted
// with a design effect borrowed from the same task and metric at the other lengths: variance = (n^2 variance + 2 design
// effect difference_max^2) / (n + 2)^2 for n pairs. The test of equivalence has at least that variance in every task
// most of whose clusters do not differ: its null hypothesis is a difference, and few pairs show it.
//
// Where no value has a bound (difference_max is infinite) nothing is clipped and no pair is added: the interval is that of
// t. Too few clusters that differ then leave the variance as it is; without any spread nothing can be inferred.
//
// Beside an adjusted p there is an adjusted interval (AdjustForMultipleTests): Bonferroni's, at 1 - level / tests. Where the
// adjustment finds a difference whose interval still has zero, at a later rank, the end next to zero is that of the level
// there. So it excludes zero exactly when the adjusted p is below the level. That of an equivalent difference ends at the
// margin, outside of which the adjusted tests of equivalence leave nothing (docs/decisions/0162).
//
// With few clusters that differ, t decides only what the sign flips find too. An equivalent difference has its interval
// within the margin; a better or worse one may have it there as well (IsWithinMargin). The rules are
// docs/decisions/0147.
//
// Units:   those of the values given; `margin` and `difference_max` too.
// Source:  Satterthwaite 1946, Biometrics Bulletin 2, 110-114; Bonett and Price 2012, JEBS 37, 479-488; Schuirmann 1987
//          (two one-sided tests); Serlin 1993, Journal of Experimental Education 61, 350-360 (the levels of Holm's
//          method); Berger and Hsu 1996, Statistical Science 11, 283-319 (intervals that end at the margin).
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "db/stats/clusters.h"
#include "db/stats/score_intervals.h"
#include "db/stats/sign_flip.h"

namespace varifocal::stats {

// With fewer clusters the smallest p of the sign-flip check, 2 / 2^clusters, is not below 0.05.
inline constexpr int64_t kSignFlipClusterCountMin = 6;

enum class Outcome { kUndecided, kBetter, kWorse, kEquivalent };

const char* OutcomeName(Outcome outcome);  // "undecided", "better", "worse", "equivalent"

// The same difference over a part of the pairs: those that both sides answered, or answered without some kind of answer.
struct AnsweredInference {
  double difference = 0, low = 0, high = 0;
  int64_t value_count = 0;
  double p_value = 1, p_equivalence = 1;
  bool can_infer = false;  // false also where no such pair is left
  double p_adjusted = 1;   // of a kind of answers
  Outcome outcome = Outcome::kUndecided;
  double standard_error = 0, degrees = 0;
  double adjusted_low = 0, adjusted_high = 0;  // of a kind of answers
};

struct Inference {
  double difference = 0;
  double low = 0, high = 0;  // confidence interval, clamped to +-difference_max; all of that range unless can_infer
  double standard_error = 0, degrees = 0;
  int64_t value_count = 0, cluster_count = 0;
  // False where a task has a single cluster, or where no value can differ: p values are 1 and the outcome is undecided.
  bool can_infer = false;
  bool has_single_cluster = false;    // of some task
  bool is_variance_borrowed = false;  // fewer than three clusters differ from the rest of their task
  bool is_zero_everywhere = false;    // no cluster has a difference
  double p_value = 1;                 // below 1 - confidence exactly when the interval excludes zero
  double p_adjusted = 1;              // over test_count tests, unless is_max_t by Holm; decides better and worse
  double adjusted_low = 0, adjusted_high = 0;  // excludes zero exactly when p_adjusted is below the level
  int64_t test_count = 1;
  double p_equivalence = 1;           // two one-sided tests against the margin
  double p_equivalence_adjusted = 1;  // likewise; decides equivalent
  std::optional<double> margin;
  bool is_max_t = false;       // p_adjusted is by max-t (db/stats/max_t.h) instead of Holm's method
  SignFlipResult sign_flip;    // the check; p_value 1 when it was left out
  double p_sign_flip_min = 1;  // the smallest p that this many clusters can reach: 2 / 2^clusters
  bool is_fragile = false;     // p_value and sign_flip.p_value fall on different sides of the level
  // Detected with power 0.8 at the level of test_count tests; none when larger than a difference can be.
  std::optional<double> detectable_difference;
  double difference_max = 0;   // the largest possible size of the difference
  bool is_unfinished = false;  // planned samples have neither answer nor failure: the outcome stays undecided
  Outcome outcome = Outcome::kUndecided;
  std::optional<AnsweredInference> answered;  // where failures count as values; its outcome is adjusted likewise
  bool failures_decide = false;               // it has another outcome, or none can be inferred: `outcome` is undecided
  // By the marks of answer kinds (db/answer_kinds.h), for every set of those that some pair has: over the pairs that both
  // sides answered without any of the set. They decide nothing.
  std::map<uint32_t, AnsweredInference> without;
  double direction = 1;  // -1 where a negative difference is the better one

  // The spread between few contexts that differ is not known from them, and the check, which needs none, disagrees.
  bool IsUnknownSpread() const { return is_variance_borrowed && is_fragile; }
  bool IsDecided() const { return outcome == Outcome::kBetter || outcome == Outcome::kWorse; }
  // Undecided, and too few contexts differ to see a spread: its interval would show the one that was assumed.
  bool LacksSpread() const { return can_infer && is_variance_borrowed && outcome == Outcome::kUndecided; }
  bool HasInterval() const { return can_infer && !LacksSpread(); }
  bool IsWithinMargin() const;  // better or worse, with the whole adjusted interval within the margin
  // Whether the outcome is another one, or none, without the answers of any of these kinds.
  bool RestsOn(uint32_t answer_kinds) const;
};

// The contribution of one task to a mean over tasks.
struct TaskDifferences {
  std::vector<Cluster> clusters;  // of differences
  double difference_max = 1;      // the largest possible size of one difference; infinite without bounds
  double design_effect = 1;       // over all lengths; used where the clusters have no spread
};

struct InferenceOptions {
  double confidence = 0.95;
  std::optional<double> margin;
  double direction = 1;
  bool with_sign_flip = true;
  SignFlipOptions sign_flip;
};

// The mean over tasks of each task's mean difference; tasks are independent, and so are clusters within a task.
Inference InferDifference(const std::vector<TaskDifferences>& tasks, const InferenceOptions& options);

// Sets the interval, p and the equivalence test of a difference from its standard error (above 0) and degrees of freedom.
void InferFromStandardError(double standard_error, double degrees, const InferenceOptions& options, Inference& row);
// Sets the check, and whether it disagrees.
void SetSignFlip(SignFlipResult check, double confidence, Inference& row);

// From a part of the pairs, in the order of InferDifference; tasks without any are left out of the mean.
AnsweredInference InferAnswered(const std::vector<TaskDifferences>& tasks, InferenceOptions options);

// p values adjusted by max-t, in the order of a family; of its rows, and of their `answered`. Empty for Holm's method.
struct MaxTValues {
  std::vector<double> all, answered;
};

// Adjusts the tests of `family` together as `declared_count` tests (at least the family's size), of which missing ones
// count with p = 1; sets p_adjusted and its interval, test_count, detectable_difference and outcome of each. A p of
// `max_t` below p_value is raised to it, so that no difference is decided whose interval contains zero. A row has an
// outcome only where it is the same without the failures.
void AdjustForMultipleTests(const std::vector<Inference*>& family, int64_t declared_count, double confidence,
                            const MaxTValues& max_t = {});

}  // namespace varifocal::stats
