// Intervals beside adjusted outcomes: that p, interval and outcome agree for random families, by Holm's method and by
// max-t, and that all intervals of a family cover their differences together.
// Method: seeded random families; simulated families with differences, with the intervals of single tests as the control.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "db/fakes/normal.h"
#include "db/stats/inference.h"
#include "gtest/gtest.h"

namespace varifocal::stats {
namespace {

constexpr double kLevel = 0.05;

bool LeavesOutZero(double low, double high) { return low > 0 || high < 0; }

// Binary answers of clusters of four that differ with a share of their own; few of them, or none, in some rows.
Inference RandomRow(Random& random, bool is_graded) {
  const int64_t clusters = 2 + random.Below(20);
  const double gained = random.Below(4) == 0 ? 0 : 0.5 * random.Uniform();
  const double lost = random.Below(4) == 0 ? 0 : 0.5 * random.Uniform();
  std::vector<Cluster> differences;
  for (int64_t c = 0; c < clusters; ++c) {
    Cluster& cluster = differences.emplace_back();
    cluster.count = 4;
    for (int q = 0; q < 4; ++q) {
      const double at = random.Uniform();
      cluster.sum += is_graded ? 0.1 * Normal(random) + (gained - lost) / 2 : at < gained ? 1 : at > 1 - lost ? -1 : 0;
    }
  }
  InferenceOptions options;
  options.margin = 0.03 + 0.1 * random.Uniform();
  options.direction = random.Below(2) == 0 ? 1 : -1;
  options.sign_flip.draws = 1000;
  Inference row = InferDifference({{differences, 1, 1.5}}, options);
  row.is_unfinished = random.Below(10) == 0;
  return row;
}

void ExpectAgree(const Inference& row) {
  EXPECT_LE(row.adjusted_low, row.adjusted_high);
  if (!row.can_infer) return;
  EXPECT_EQ(LeavesOutZero(row.adjusted_low, row.adjusted_high), row.p_adjusted < kLevel);
  if (row.IsDecided()) {
    EXPECT_LT(row.p_adjusted, kLevel);
    EXPECT_EQ(row.outcome == Outcome::kBetter, row.difference * row.direction > 0);
  } else if (row.p_adjusted < kLevel) {
    EXPECT_TRUE(row.is_unfinished || row.IsUnknownSpread() || row.failures_decide) << "the other conditions";
  }
  if (row.outcome == Outcome::kEquivalent) {
    EXPECT_GE(row.adjusted_low, -*row.margin);
    EXPECT_LE(row.adjusted_high, *row.margin);
    return;
  }
  EXPECT_LE(row.adjusted_low, row.low + 1e-12) << "never narrower than the interval of the test alone";
  EXPECT_GE(row.adjusted_high, row.high - 1e-12);
}

TEST(AdjustedIntervals, AgreeWithPAndOutcome) {
  int decided = 0, at_a_later_rank = 0, equivalent = 0, alone = 0;
  for (int number = 0; number < 400; ++number) {
    SCOPED_TRACE(number);
    Random random(absl::StrCat("adjusted intervals ", number));
    std::vector<Inference> rows;
    const int64_t count = 1 + random.Below(24);
    for (int64_t i = 0; i < count; ++i) rows.push_back(RandomRow(random, number % 2 == 0));
    std::vector<Inference*> family;
    MaxTValues max_t;
    for (Inference& row : rows) {
      family.push_back(&row);
      // Any p at least as large serves as one of max-t.
      if (number % 3 == 0) max_t.all.push_back(std::min(1.0, row.p_value * (1 + 30 * random.Uniform())));
    }
    max_t.answered = max_t.all;
    AdjustForMultipleTests(family, random.Below(2) == 0 ? 0 : count + 5, 1 - kLevel, max_t);
    for (const Inference& row : rows) {
      ExpectAgree(row);
      decided += row.IsDecided();
      at_a_later_rank += row.IsDecided() && row.p_value > kLevel / row.test_count;
      equivalent += row.outcome == Outcome::kEquivalent;
      alone += LeavesOutZero(row.low, row.high) && !LeavesOutZero(row.adjusted_low, row.adjusted_high);
    }
  }
  EXPECT_GT(decided, 100);
  EXPECT_GT(at_a_later_rank, 20);
  EXPECT_GT(equivalent, 20);
  EXPECT_GT(alone, 100);
}

// Where max-t gives all a p far above their own, what was found has Bonferroni's interval.
TEST(AdjustedIntervals, ATinyPIsBonferronis) {
  std::vector<Cluster> differences(60);
  for (size_t i = 0; i < differences.size(); ++i) differences[i] = {.sum = i % 7 == 0 ? 3.0 : 4.0, .count = 4};
  Inference row = InferDifference({{differences, 1, 1.5}}, InferenceOptions());
  ASSERT_LT(row.p_value, 1e-40);
  const double half = row.high - row.difference;
  std::vector<Inference*> family = {&row};
  MaxTValues max_t;
  max_t.all = max_t.answered = {0.0001};
  AdjustForMultipleTests(family, 1, 1 - kLevel, max_t);
  EXPECT_EQ(row.p_adjusted, 0.0001);
  EXPECT_NEAR(row.difference - row.adjusted_low, half, 1e-9) << "of one test";
}

// 2,000 families of eight differences, half of them zero, of 12 contexts: one standard error of 95 % is 0.49 points.
TEST(AdjustedIntervals, AllOfAFamilyCoverTogether) {
  constexpr int kFamilies = 2000, kTests = 8;
  for (const double largest : {0.0, 0.3, 1.0, 3.0}) {
    Random random(absl::StrCat("together ", largest));
    int covered = 0, covered_alone = 0;
    for (int f = 0; f < kFamilies; ++f) {
      std::vector<Inference> rows;
      std::vector<double> truths;
      for (int i = 0; i < kTests; ++i) {
        truths.push_back(i % 2 == 0 ? 0 : largest * i / kTests);
        std::vector<Cluster> clusters;
        for (int c = 0; c < 12; ++c) clusters.push_back({truths.back() + Normal(random), 1});
        InferenceOptions options;
        options.with_sign_flip = false;
        rows.push_back(InferDifference({{clusters, 100, 1}}, options));
      }
      std::vector<Inference*> family;
      for (Inference& row : rows) family.push_back(&row);
      AdjustForMultipleTests(family, 0, 1 - kLevel);
      bool all = true, all_alone = true;
      for (int i = 0; i < kTests; ++i) {
        all &= rows[i].adjusted_low <= truths[i] && truths[i] <= rows[i].adjusted_high;
        all_alone &= rows[i].low <= truths[i] && truths[i] <= rows[i].high;
      }
      covered += all;
      covered_alone += all_alone;
    }
    RecordProperty(absl::StrCat("together_at_", largest), covered);
    EXPECT_GE(covered, 0.95 * kFamilies - 3 * 9.8) << "largest difference " << largest;
    EXPECT_LT(covered_alone, 0.75 * kFamilies) << "the control: 0.95^8 is 66 %";
  }
}

}  // namespace
}  // namespace varifocal::stats
