// The inference from a list of pairs: interval, p and outcome agree, few clusters, equivalence, and the false positive rate.
// Method: hand-made clusters; simulated null experiments, with the row-wise test as the control that must fail.
#include "db/stats/inference.h"

#include "absl/strings/str_cat.h"
#include "db/stats/compare.h"
#include "db/stats/null_simulation.h"
#include "db/stats/special.h"
#include "gtest/gtest.h"

namespace varifocal::stats {
namespace {

TEST(Compare, UnequalClustersUseTheRatioForm) {
  // One cluster of 8 pairs that all gain, three of 2 that do not: 8 of 14, not the mean of cluster means (1/4).
  std::vector<db::PairRow> pairs;
  for (int i = 0; i < 14; ++i) {
    db::PairRow& pair = pairs.emplace_back();
    pair.cluster = absl::StrCat(i < 8 ? 0 : 1 + (i - 8) / 2);
    pair.baseline_value = 0;
    pair.candidate_value = pair.difference = i < 8 ? 1 : 0;
  }
  auto row = ComparePairs(pairs, {true, true, 14, 0.0, 1.0});
  ASSERT_TRUE(row.ok());
  EXPECT_DOUBLE_EQ(row->difference, 8.0 / 14);
  EXPECT_EQ(row->cluster_count, 4);
  EXPECT_EQ(row->sign_flip.p_value, 1) << "one cluster cannot be evidence";
  EXPECT_EQ(row->outcome, Outcome::kUndecided);
}

std::vector<db::PairRow> Pairs(const std::vector<std::vector<double>>& clusters) {
  std::vector<db::PairRow> pairs;
  for (size_t cluster = 0; cluster < clusters.size(); ++cluster) {
    for (double difference : clusters[cluster]) {
      db::PairRow& pair = pairs.emplace_back();
      pair.cluster = absl::StrCat(cluster);
      pair.baseline_value = difference < 0 ? -difference : 0;
      pair.candidate_value = difference > 0 ? difference : 0;
      pair.difference = difference;
    }
  }
  return pairs;
}

Comparison Compared(const std::vector<std::vector<double>>& clusters, const CompareOptions& options = {}) {
  const std::vector<db::PairRow> pairs = Pairs(clusters);
  return *ComparePairs(pairs, {true, true, std::ssize(pairs), 0.0, 1.0}, options);
}

// Between nothing and everything lost, the interval excludes zero exactly when p is below 0.05.
TEST(Compare, IntervalAndPCannotContradictEachOther) {
  int excluded_count = 0;
  for (int lost = 0; lost <= 48; ++lost) {
    std::vector<std::vector<double>> clusters(12, std::vector<double>(4));
    for (int i = 0; i < lost; ++i) clusters[i * 5 % 12][i / 12] = -1;
    const Comparison row = Compared(clusters);
    EXPECT_EQ(row.p_value<0.05, row.low> 0 || row.high < 0) << lost;
    EXPECT_EQ(row.outcome == Outcome::kWorse, row.p_value < 0.05) << lost;
    excluded_count += row.high < 0;
  }
  EXPECT_GT(excluded_count, 30);
  EXPECT_LT(excluded_count, 49);
}

// Four contexts that all lose a lot: worse by t, and a sign-flip test that cannot go below 2 / 16 does not agree.
TEST(Compare, FewContextsAreFragileAndSayWhatTheyCanReach) {
  const Comparison row = Compared({{-1, -1, 0, 0}, {-1, 0, 0, 0}, {-1, -1, -1, 0}, {-1, -1, -1, -1}});
  EXPECT_EQ(row.outcome, Outcome::kWorse);
  EXPECT_DOUBLE_EQ(row.p_sign_flip_min, 0.125);
  EXPECT_DOUBLE_EQ(row.sign_flip.p_value, 0.125);
  EXPECT_TRUE(row.is_fragile);
  // With two contexts alike fewer than three differ from the rest: the spread is not known, and t alone decides nothing.
  const Comparison alike = Compared({{-1, -1, 0, 0}, {-1, 0, 0, 0}, {-1, -1, -1, 0}, {-1, -1, 0, 0}});
  EXPECT_LT(alike.p_value, 0.05);
  EXPECT_TRUE(alike.is_variance_borrowed);
  EXPECT_EQ(alike.outcome, Outcome::kUndecided);
  const Comparison lone = Compared({{-1, -1, -1, -1}});
  EXPECT_FALSE(lone.can_infer);
  EXPECT_EQ(lone.p_value, 1);
  EXPECT_EQ(lone.outcome, Outcome::kUndecided);
  EXPECT_EQ(lone.detectable_difference, std::nullopt);
}

// No difference at all can be called equivalent: +-3 points need about 500 contexts of 4, +-10 fewer than 100.
TEST(Compare, EquivalenceIsTwoOneSidedTests) {
  std::vector<std::vector<double>> clusters;
  for (int i = 0; i < 100; ++i) clusters.push_back({i % 10 == 0 ? 1.0 : 0.0, i % 10 == 5 ? -1.0 : 0.0, 0, 0});
  CompareOptions options;
  options.margin = 0.023;
  const Comparison row = Compared(clusters, options);
  EXPECT_EQ(row.difference, 0);
  // Ten clusters at +1/4 and ten at -1/4 of a hundred: se = sqrt(20 * (1/16) / 99 / 100) = 0.0112367. With one pair gained
  // and one lost more, design effect 400 se^2 / (20 / 399) = 1.00758: sqrt(400^2 se^2 + 2.01515) / 402 = 0.0117251.
  EXPECT_NEAR(row.standard_error, 0.0112367, 1e-7);
  EXPECT_NEAR(row.p_equivalence, 1 - StudentTCdf(0.023 / 0.01172515, 99), 1e-6);
  EXPECT_EQ(row.outcome, Outcome::kEquivalent);
  // Two one-sided tests at 5 % are a 90 % interval: within 2 points, and the interval shown, of 95 %, is not.
  options.margin = 0.02;
  const Comparison wide = Compared(clusters, options);
  EXPECT_LT(wide.p_equivalence, 0.05);
  EXPECT_GT(wide.high, 0.02);
  EXPECT_EQ(wide.outcome, Outcome::kUndecided);
}

// Nominal 5 %. 4,000 experiments: one standard error of a true rate of 5 % is 0.34 points, so a true rate between 4 and
// 6 % shows between 3 and 7 % with three of them to spare. `null_rates` measures it to 0.15.
TEST(Compare, FalseAlarmsKeepTheirLevelAndRowsDoNot) {
  for (double correlation : {0.0, 0.5, 0.9}) {
    const NullRates rates = SimulateNull({.correlation = correlation}, 4000, 999, 11);
    EXPECT_GT(rates.interval, 0.03) << correlation;
    EXPECT_LT(rates.interval, 0.07) << correlation;
    EXPECT_GT(rates.coverage, 0.93) << correlation;
    EXPECT_EQ(rates.contradictions, 0) << correlation;
  }
  // The control: rows taken for independent.
  EXPECT_GT(SimulateNull({.correlation = 0.5, .ignore_clusters = true}, 1000, 999, 11).interval, 0.12);
  // A true difference with one side almost always right, where a t interval alone has 79 % coverage.
  EXPECT_GT(
      SimulateNull({.cluster_count = 12, .cluster_size = 4, .correlation = 0.9, .flip_share = 0.1, .loss_share = 1e-4},
                   2000, 999, 5)
          .coverage,
      0.90);
}

}  // namespace
}  // namespace varifocal::stats
