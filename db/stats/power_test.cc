// Power of a design. Method: cases verified by hand, and simulated experiments with the difference that power.h calls
// detectable, through the code that prints the table: four of five must be detected.
#include "db/stats/power.h"

#include <cmath>
#include <utility>

#include "db/stats/null_simulation.h"
#include "db/stats/score_intervals.h"
#include "gtest/gtest.h"

namespace varifocal::stats {
namespace {

TEST(Power, OneTaskOfIndependentQuestionsIsTheTextbookFormula) {
  // 100 questions of their own contexts, 20 % flips: d^2 = k^2 (0.2 - d^2) / 100 with k = t(.975; 99) + t(.8; 99).
  const Power power = PlannedPower({{100, 100}}, {0.2, 0.3}, 1);
  ASSERT_TRUE(power.detectable_difference.has_value());
  const double k = DetectableDifference(1, 99, 0.05), d = *power.detectable_difference;
  EXPECT_NEAR(d * d, k * k * (0.2 - d * d) / 100, 1e-12);
  EXPECT_NEAR(d, 0.122, 0.001);
}

TEST(Power, ContextsCorrelationAndTestsCost) {
  const auto detectable = [](int64_t questions, int64_t contexts, double correlation, int64_t tests) {
    return PlannedPower({{questions, contexts}}, {0.2, correlation}, tests).detectable_difference.value();
  };
  EXPECT_GT(detectable(400, 100, 0.3, 1), detectable(400, 400, 0.3, 1));
  EXPECT_GT(detectable(400, 100, 0.9, 1), detectable(400, 100, 0.3, 1));
  EXPECT_GT(detectable(400, 100, 0.3, 8), detectable(400, 100, 0.3, 1));
  // A mean over two such tasks has half the variance.
  const Power both = PlannedPower({{400, 100}, {400, 100}}, {0.2, 0.3}, 1);
  EXPECT_NEAR(*both.detectable_difference, detectable(400, 100, 0.3, 1) / std::sqrt(2.0), 0.005);
  EXPECT_EQ(both.question_count, 800);
  EXPECT_EQ(both.context_count, 200);
}

TEST(Power, FewContexts) {
  const Power four = PlannedPower({{16, 4}}, {0.2, 0.3}, 6);
  EXPECT_EQ(four.p_sign_flip_min, 0.125);
  EXPECT_EQ(four.p_sign_flip_min_adjusted, 0.75);
  EXPECT_TRUE(four.can_infer);
  EXPECT_FALSE(four.detectable_difference.has_value());  // it would be larger than the share of flips
  const Power one = PlannedPower({{48, 12}, {4, 1}}, {0.2, 0.3}, 1);
  EXPECT_FALSE(one.can_infer);
  EXPECT_FALSE(one.detectable_difference.has_value());
}

double BinomialPmf(int n, int k, double p) {
  if (p <= 0 || p >= 1) return k == (p <= 0 ? 0 : n) ? 1 : 0;
  return std::exp(std::lgamma(n + 1.0) - std::lgamma(k + 1.0) - std::lgamma(n - k + 1.0) + k * std::log(p) +
                  (n - k) * std::log1p(-p));
}

// Of the exact two-sided McNemar test at 5 %, for n independent questions of which a share `flips` differs, by
// enumeration of all outcomes.
double McNemarPower(int n, double flips, double difference) {
  double power = 0;
  for (int differing = 1; differing <= n; ++differing) {
    const double weight = BinomialPmf(n, differing, flips);
    if (weight < 1e-12) continue;
    int limit = -1;  // as few gains or losses as this reject
    double tail = 0;
    for (int k = 0; k <= differing / 2; ++k) {
      tail += BinomialPmf(differing, k, 0.5);
      if (2 * tail > 0.05) break;
      limit = k;
    }
    for (int k = 0; k <= limit; ++k) {
      const double gained = (flips + difference) / (2 * flips);
      power += weight * (BinomialPmf(differing, k, gained) + BinomialPmf(differing, differing - k, gained));
    }
  }
  return power;
}

// The exact test never rejects more often than its level and so finds a little less than t does.
TEST(Power, IsNearTheExactCalculation) {
  for (const auto& [n, flips] : {std::pair{100, 0.2}, {300, 0.2}, {1000, 0.1}, {1000, 0.3}}) {
    const Power power = PlannedPower({{n, n}}, {flips, 0}, 1);
    ASSERT_TRUE(power.detectable_difference.has_value());
    const double exact = McNemarPower(n, flips, *power.detectable_difference);
    EXPECT_GT(exact, 0.74) << n << " questions, " << flips;
    EXPECT_LT(exact, 0.80) << n << " questions, " << flips;
  }
}

// 2,000 experiments have a standard error of 0.9 points at 80 %.
TEST(Power, TheDetectableDifferenceIsFoundFourTimesOutOfFive) {
  struct Design {
    int clusters, size;
    double flips;
  };
  for (const Design& design : {Design{100, 1, 0.2}, Design{60, 4, 0.2}, Design{25, 4, 0.4}}) {
    const Power power = PlannedPower({{design.clusters * design.size, design.clusters}}, {design.flips, 0}, 1);
    ASSERT_TRUE(power.detectable_difference.has_value());
    const double gains = (design.flips + *power.detectable_difference) / 2;
    const NullRates rates =
        SimulateNull({design.clusters, design.size, 0, gains, design.flips - gains, true}, 2'000, 0, 7);
    EXPECT_NEAR(rates.interval, 0.8, 0.04) << design.clusters << " contexts of " << design.size;
  }
}

// 400 jobs have a standard error of 1.1 points at 5 %; null_rates makes more of them.
TEST(Family, AJobWithoutDifferencesRarelyHasAnOutcome) {
  FamilyDesign design;
  design.candidate_count = 6;
  design.length_count = 2;
  const FamilyRates rates = SimulateFamily(design, 400, 5, /*max_t_draws=*/999);
  EXPECT_LE(rates.any_outcome, 0.05 + 3 * 0.011);
  EXPECT_LE(rates.any_max_t, 0.05 + 3 * 0.011);
  EXPECT_GT(rates.any_max_t, 0) << "it does decide";
  EXPECT_GE(rates.any_unadjusted, 0.2) << "twelve looks without adjusting";
}

// Means over five tasks with 12 contexts of four each, where few answers are right or few are wrong. 2,000 experiments have
// a standard error of 0.5 points at 5 %; null_rates makes more of them, for more designs.
TEST(BaseRates, AMeanOverTasksKeepsItsLevelWhereFewAnswersDiffer) {
  struct Design {
    double base_rate, found_min;
  };
  for (const Design& design : {Design{0.02, 0.02}, {0.1, 0.035}, {0.5, 0.035}, {0.9, 0.035}, {0.98, 0.02}}) {
    const FamilyDesign five{1, 1, 5, 12, 4, 0.7, 0.3, design.base_rate};
    const FamilyRates rates = SimulateFamily(five, 2'000, 9);
    EXPECT_LE(rates.any_unadjusted, 0.06 + 3 * 0.005) << design.base_rate;
    EXPECT_GE(rates.any_unadjusted, design.found_min) << design.base_rate;
    EXPECT_LE(rates.few_differ, 0.2) << design.base_rate;
    EXPECT_EQ(rates.contradictions, 0);
  }
}

// After a job: with k times the contexts the standard error is that of the row divided by the root of k.
TEST(Power, ContextsThatWouldBeEnough) {
  Inference row;
  row.can_infer = true;
  row.standard_error = 0.1;
  row.degrees = 11;
  row.cluster_count = 12;
  row.test_count = 8;
  const std::optional<EnoughContexts> enough = ContextsEnough(row, 0.15);
  ASSERT_TRUE(enough.has_value());
  EXPECT_EQ(enough->context_count, 80) << "(0.1 (2.75 + 0.85) / 0.15)^2 12 = 69";
  EXPECT_LE(enough->detectable_difference, 0.15);
  EXPECT_GT(enough->detectable_difference, 0.13);
  row.is_variance_borrowed = true;
  EXPECT_FALSE(ContextsEnough(row, 0.15).has_value()) << "its spread was not seen";
}

// Six contexts of one task with 2 % right: that is two contexts that differ, or none, and the row is marked.
TEST(BaseRates, ADesignThatCannotDecideIsMarked) {
  const FamilyRates rates = SimulateFamily({1, 1, 1, 6, 4, 0.7, 0.3, 0.02}, 2'000, 9);
  EXPECT_LE(rates.any_unadjusted, 0.005);
  EXPECT_GE(rates.few_differ, 0.95);
}

// A true difference of the margin, from 98 to 95 %: few answers differ, and fewer are seen where the difference looks small.
TEST(BaseRates, EquivalenceErrsRarelyWhereFewAnswersDiffer) {
  for (const int contexts : {25, 100}) {
    const FamilyDesign design{1, 1, 5, contexts, 4, 0.7, 0.3, 0.98, -0.03};
    EXPECT_LE(SimulateFamily(design, 2'000, 9).equivalent, 0.06 + 3 * 0.005) << contexts;
  }
}

}  // namespace
}  // namespace varifocal::stats
