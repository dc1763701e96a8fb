// Inference over training seeds, permutations, and equal-loss ratios. Method: golden numbers from numpy and scipy
// (recipes/goldens/make_replicates.py), cases by hand, and simulated experiments with a known truth.
#include "db/stats/replicates.h"

#include <cmath>

#include "base/json.h"
#include "db/stats/equal_loss.h"
#include "db/stats/permutation.h"
#include "db/stats/replicate_simulation.h"
#include "gtest/gtest.h"
#include "tests/support/read_json.h"

namespace varifocal::stats {
namespace {

const Json& ReplicatesGolden() {
  static const Json golden = testing_support::ReadJson("tests/testdata/goldens/replicates/golden.json");
  return golden;
}

// Sums of at most 500 terms below 1 with rounding 2^-53 each, and quantiles within 1e-8: see stats_test.cc.
constexpr double kReplicatesTolerance = 1e-7;

TEST(Replicates, AreNumpysAndScipys) {
  int over_seeds = 0;
  for (const Json& c : ReplicatesGolden()["replicates"]) {
    std::vector<ReplicatedTask> tasks;
    for (const Json& contexts : c["contexts"])
      tasks.push_back({contexts.get<std::vector<std::string>>(), /*difference_max=*/100, /*design_effect=*/1});
    std::vector<ReplicateGroup> groups;
    for (const Json& runs : c["groups"])
      groups.push_back({groups.empty() ? 1.0 : -1.0, runs.get<std::vector<std::vector<std::vector<double>>>>()});
    InferenceOptions options;
    options.margin = c["margin"].get<double>();
    const ReplicatedInference row = InferReplicates(tasks, groups, options);
    EXPECT_NEAR(row.difference, c["difference"].get<double>(), 1e-12);
    EXPECT_NEAR(row.standard_error, c["standard_error"].get<double>(), kReplicatesTolerance) << c.dump();
    EXPECT_NEAR(row.degrees, c["degrees"].get<double>(), 1e-5 * row.degrees) << c.dump();
    EXPECT_NEAR(row.low, c["low"].get<double>(), kReplicatesTolerance);
    EXPECT_NEAR(row.high, c["high"].get<double>(), kReplicatesTolerance);
    EXPECT_NEAR(row.p_value, c["p"].get<double>(), kReplicatesTolerance);
    EXPECT_NEAR(row.p_equivalence, c["p_equivalence"].get<double>(), kReplicatesTolerance);
    EXPECT_EQ(row.is_over_seeds, c["is_over_seeds"].get<bool>());
    if (!row.is_over_seeds) continue;
    ++over_seeds;
    EXPECT_NEAR(row.seed_share, c["seed_share"].get<double>(), 1e-10);
    EXPECT_NEAR(row.sign_flip.p_value, c["p_check"].get<double>(), 1e-12);
    EXPECT_EQ(row.sign_flip.draws, c["division_count"].get<int64_t>());
    EXPECT_EQ(row.is_fragile, (row.p_value < 0.05) != (row.sign_flip.p_value < 0.05));
  }
  EXPECT_EQ(over_seeds, 7);
}

// Two seeds whose contexts agree within each: all variance is between seeds, one degree of freedom.
TEST(Replicates, TwoSeedsWithoutContextEffectsAreStudentsTOfTwoValues) {
  ReplicatedTask task{{"a", "a", "b", "b", "c", "c"}, 10, 1};
  ReplicateGroup group{1, {{{1, 1, 1, 1, 1, 1}}, {{3, 3, 3, 3, 3, 3}}}};
  const ReplicatedInference row = InferReplicates({task}, {group}, {});
  EXPECT_EQ(row.difference, 2);
  // The contexts have no spread: their variance is that of a pair of +-10 added, (2 * 10^2) / (6 + 2)^2 = 3.125; that of
  // the seeds is ((1 - 2)^2 + (3 - 2)^2) / 1 / 2 = 1.
  EXPECT_NEAR(row.standard_error, std::sqrt(1 + 3.125), 1e-12);
  EXPECT_NEAR(row.seed_share, 1 / 4.125, 1e-12);
  EXPECT_EQ(row.sign_flip.p_value, 0.5) << "two of four assignments of signs";
  EXPECT_EQ(row.p_sign_flip_min, 0.5);
}

TEST(Replicates, OneSeedIsOverContextsAndSaysSo) {
  ReplicatedTask task{{"a", "b", "c", "d"}, 1, 1};
  const ReplicatedInference row = InferReplicates({task}, {{1, {{{0.1, 0.2, 0.3, 0.4}}}}}, {});
  EXPECT_FALSE(row.is_over_seeds);
  EXPECT_TRUE(row.can_infer);
  // Student's t of four values: sd 0.129099, error 0.0645497, quantile 3.18245.
  EXPECT_NEAR(row.high - row.difference, 3.182446305 * 0.06454972244, 1e-8);
}

TEST(Replicates, AnUnpairedArmOfOneSeedHasNoSpreadBetweenSeeds) {
  ReplicatedTask task{{"a", "b", "c", "d"}, 1, 1};
  const ReplicateGroup many{1, {{{0, 1, 0, 1}}, {{1, 1, 0, 1}}, {{1, 0, 0, 1}}}}, one{-1, {{{0, 0, 0, 1}}}};
  EXPECT_FALSE(InferReplicates({task}, {many, one}, {}).is_over_seeds);
}

TEST(Permutation, IsEnumerationByPython) {
  for (const Json& c : ReplicatesGolden()["permutation"]) {
    const auto a = c["a"].get<std::vector<double>>(), b = c["b"].get<std::vector<double>>();
    const SignFlipResult result = PermutationTest(a, b);
    EXPECT_EQ(result.test, "permutation_exact");
    EXPECT_NEAR(result.p_value, c["p"].get<double>(), 1e-12) << c.dump();
    EXPECT_EQ(result.draws, c["division_count"].get<int64_t>());
    EXPECT_NEAR(SmallestPermutationP(a.size(), b.size()), c["p_min"].get<double>(), 1e-15);
  }
}

TEST(Permutation, ManyValuesAreDrawn) {
  std::vector<double> a, b;
  for (int i = 0; i < 12; ++i) {
    a.push_back(i);
    b.push_back(i + 0.5);
  }
  const SignFlipResult result = PermutationTest(a, b);  // 2,704,156 divisions
  EXPECT_EQ(result.test, "permutation_sampled");
  EXPECT_EQ(result.draws, 20'000);
  // By t: difference 0.5, pooled sd 3.6056, t = 0.3397 of 22: p = 0.737. Permutations agree within their error of 0.003
  // and the difference of the two tests.
  EXPECT_NEAR(result.p_value, 0.737, 0.03);
  for (double& value : b) value += 20;
  EXPECT_EQ(PermutationTest(a, b).p_value, 1.0 / 20'001) << "never zero";
}

TEST(EqualLoss, IsNumpysAndScipys) {
  for (const Json& c : ReplicatesGolden()["equal_loss"]) {
    std::vector<EqualLossSeed> seeds;
    const auto x = c["x"].get<std::vector<double>>();
    for (size_t s = 0; s < c["baseline"].size(); ++s) {
      EqualLossSeed seed;
      for (size_t i = 0; i < x.size(); ++i) seed.baseline.push_back({x[i], c["baseline"][s][i].get<double>()});
      seed.candidate = c["candidate"][s].get<double>();
      seeds.push_back(seed);
    }
    const EqualLossRatio row = InferEqualLoss(seeds, c["at"].get<double>(), /*up=*/false);
    EXPECT_EQ(row.above_count, c["above_count"].get<int64_t>());
    EXPECT_EQ(row.below_count, c["below_count"].get<int64_t>());
    EXPECT_EQ(row.problem == EqualLossProblem::kCensored, row.above_count + row.below_count > 0);
    ASSERT_EQ(row.ratio.has_value(), c.contains("ratio"));
    if (!row.ratio.has_value()) continue;
    EXPECT_NEAR(*row.ratio, c["ratio"].get<double>(), 1e-9);
    ASSERT_EQ(row.low.has_value(), c.contains("low")) << c.dump();
    if (!row.low.has_value()) continue;
    EXPECT_NEAR(*row.low, c["low"].get<double>(), kReplicatesTolerance);
    EXPECT_NEAR(*row.high, c["high"].get<double>(), kReplicatesTolerance * *row.high);
    EXPECT_NEAR(row.p_value, c["p"].get<double>(), kReplicatesTolerance);
    EXPECT_NEAR(row.sign_flip.p_value, c["p_check"].get<double>(), 1e-12);
    EXPECT_EQ(row.p_value<0.05, *row.low> 1 || *row.high < 1);
  }
}

TEST(EqualLoss, ByHand) {
  // Loss 4 at 100, 3 at 400: 3.5 is half-way in the logarithm, at 200. The candidate has it at 100: a factor of 2.
  const std::vector<AxisValue> curve = {{100, 4}, {400, 3}};
  EqualLossRatio row = InferEqualLoss({{curve, 3.5}, {curve, 3.5}}, 100, false);
  EXPECT_NEAR(*row.ratio, 2, 1e-12);
  EXPECT_EQ(row.problem, EqualLossProblem::kNoSpread) << "two equal seeds are not certainty";
  row = InferEqualLoss({{curve, 3.5}}, 100, false);
  EXPECT_EQ(row.problem, EqualLossProblem::kOneSeed);
  // Two seeds, factors 2 and 4: the geometric mean is 8^(1/2), of one degree of freedom.
  row = InferEqualLoss({{curve, 3.5}, {curve, 3}}, 100, false);
  EXPECT_NEAR(*row.ratio, std::sqrt(8.0), 1e-12);
  // log 2 / 2 on either side of the mean: an error of log 2 / 2, times 12.7062.
  EXPECT_NEAR(std::log(*row.high / *row.ratio), 12.70620474 * std::log(2.0) / 2, 1e-6);
  // A score: up is better.
  EXPECT_NEAR(FirstReach({{100, 0.2}, {400, 0.6}}, 0.4, true).x, 200, 1e-9);
}

TEST(EqualLoss, OutsideOfTheMeasuredRangeThereAreBoundsAlone) {
  const std::vector<AxisValue> curve = {{100, 4}, {400, 3}};
  EqualLossRatio row = InferEqualLoss({{curve, 3.5}, {curve, 2.9}}, 100, false);
  EXPECT_EQ(row.problem, EqualLossProblem::kCensored);
  EXPECT_EQ(row.above_count, 1);
  EXPECT_FALSE(row.ratio.has_value());
  EXPECT_NEAR(*row.at_least, 2, 1e-12);
  EXPECT_FALSE(row.at_most.has_value());
  row = InferEqualLoss({{curve, 4.1}, {curve, 3.5}}, 400, false);
  EXPECT_EQ(row.below_count, 1);
  EXPECT_NEAR(*row.at_most, 0.5, 1e-12);
  EXPECT_FALSE(row.at_least.has_value());
}

TEST(EqualLoss, ACurveThatTurnsBackIsReachedFirstWhereItFirstIsAsGood) {
  const Reach reach = FirstReach({{1, 4}, {2, 2}, {4, 3}, {8, 1}}, 3, false);
  EXPECT_EQ(reach.side, 0);
  EXPECT_NEAR(reach.x, std::sqrt(2.0), 1e-12);
  EXPECT_EQ(FirstReach({{1, 4}, {2, 3}}, 4, false).x, 1);
  EXPECT_EQ(FirstReach({{1, 4}, {2, 3}}, 3, false).x, 2);
  EXPECT_EQ(FirstReach({{1, 4}}, 3, false).side, 1);
  EXPECT_EQ(FirstReach({{1, 4}}, 5, false).side, -1);
}

// 2,000 experiments: one standard error of 5 % is 0.49 points.
TEST(ReplicateSimulation, TheIntervalHoldsItsLevelAndLeavingOutALevelDoesNot) {
  struct Row {
    ReplicateDesign design;
    double false_max;
  };
  for (const Row& row :
       {Row{{3, 3, true, 12, 4, 1, 1, 1}, 0.065}, Row{{8, 8, true, 12, 4, 1, 1, 1}, 0.065},
        Row{{3, 3, false, 12, 4, 1, 0, 1}, 0.065}, Row{{5, 5, true, 12, 4, 1, 0, 1, 0, true}, 0.065}}) {
    const ReplicateRates rates = SimulateReplicates(row.design, 2000, 7);
    EXPECT_LE(rates.interval, row.false_max);
    EXPECT_GE(rates.coverage, 1 - row.false_max);
    EXPECT_EQ(rates.contradictions, 0);
    EXPECT_GE(rates.seeds_ignored, 0.15) << "seeds left out must be anticonservative";
    EXPECT_GE(rates.one_run, 0.15) << "one run an arm says nothing about other seeds";
  }
  const ReplicateRates contexts = SimulateReplicates({8, 8, true, 12, 4, 0.1, 1, 0.5}, 2000, 8);
  EXPECT_LE(contexts.interval, 0.065);
  EXPECT_GE(contexts.contexts_ignored, 0.2) << "contexts left out must be anticonservative too";
}

}  // namespace
}  // namespace varifocal::stats
