// Special functions, intervals, tests. Method: golden numbers from scipy and from enumeration
// (recipes/goldens/make_statistics.py), and cases verified by hand.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/random.h"
#include "db/stats/clusters.h"
#include "db/stats/holm.h"
#include "db/stats/inference.h"
#include "db/stats/max_t.h"
#include "db/stats/relative_gain.h"
#include "db/stats/score_intervals.h"
#include "db/stats/sign_flip.h"
#include "db/stats/special.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/read_json.h"

namespace varifocal::stats {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

const Json& Golden() {
  static const Json golden = testing_support::ReadJson("tests/testdata/goldens/statistics/golden.json");
  return golden;
}

// lgamma(2e5) is 2.2e6, so one rounding of it (2^-53 relative) is 2.5e-10 absolute, which the exponential turns into as
// much relative error; three lgammas and two logarithms take part.
constexpr double kBetaTolerance = 1e-9;

TEST(Special, IncompleteBetaIsScipys) {
  for (const Json& c : Golden()["incomplete_beta"]) {
    const double expected = c["value"].get<double>();
    EXPECT_NEAR(RegularizedIncompleteBeta(c["a"].get<double>(), c["b"].get<double>(), c["x"].get<double>()), expected,
                kBetaTolerance * std::max(expected, 1e-20))
        << c.dump();
  }
}

// The tail is I_x(v/2, 1/2): the same relative error, and a quantile inherits it through a density that is never
// flatter than the tail over the quantile.
TEST(Special, DistributionsAndQuantilesAreScipys) {
  for (const Json& c : Golden()["student_t_cdf"]) {
    const double expected = c["value"].get<double>();
    EXPECT_NEAR(StudentTCdf(c["t"].get<double>(), c["degrees"].get<double>()), expected, 1e-9 * expected) << c.dump();
  }
  for (const Json& c : Golden()["student_t_quantile"]) {
    const double expected = c["value"].get<double>();
    EXPECT_NEAR(StudentTQuantile(c["probability"].get<double>(), c["degrees"].get<double>()), expected,
                1e-8 * (1 + std::abs(expected)))
        << c.dump();
  }
  for (const Json& c : Golden()["normal_quantile"]) {
    EXPECT_NEAR(NormalQuantile(c["probability"].get<double>()), c["value"].get<double>(), 1e-7) << c.dump();
  }
  EXPECT_DOUBLE_EQ(StudentTCdf(0, 5), 0.5);
  EXPECT_NEAR(StudentTCdf(1, 1), 0.75, 1e-15) << "Cauchy: 1/2 + atan(1)/pi";
}

TEST(Intervals, WilsonIsScipys) {
  for (const Json& c : Golden()["wilson"]) {
    const Interval interval =
        WilsonInterval(c["mean"].get<double>(), c["effective_count"].get<double>(), c["confidence"].get<double>());
    EXPECT_NEAR(interval.low, c["low"].get<double>(), 1e-9) << c.dump();
    EXPECT_NEAR(interval.high, c["high"].get<double>(), 1e-9) << c.dump();
  }
}

TEST(Intervals, DifferencesOfEqualClustersAreScipys) {
  for (const Json& c : Golden()["t_interval"]) {
    std::vector<Cluster> clusters;
    for (const Json& difference : c["differences"]) clusters.push_back({difference.get<double>(), 1});
    const Interval interval = *ScoreInterval(clusters, {.range = {-10, 10}});
    EXPECT_NEAR(MeanOfClusters(clusters).mean, c["mean"].get<double>(), 1e-14);
    EXPECT_NEAR(interval.low, c["low"].get<double>(), 1e-9) << c.dump();
    EXPECT_NEAR(interval.high, c["high"].get<double>(), 1e-9) << c.dump();
  }
}

TEST(Intervals, UnequalClustersUseTheRatioForm) {
  // By hand: 1 of 1, 2 of 4, 0 of 3: mean 3/8; residuals 5/8, 1/2, -9/8, their squares over 1 - share of the values:
  // 0.390625 / (7/8) + 0.25 / (4/8) + 1.265625 / (5/8) = 2.9714286; sqrt(2.9714286) / 8 = 0.2154729.
  const ClusteredMean mean = MeanOfClusters({{1, 1}, {2, 4}, {0, 3}});
  EXPECT_DOUBLE_EQ(mean.mean, 0.375);
  EXPECT_NEAR(mean.standard_error, 0.2154729, 1e-7);
  for (const Json& c : Golden()["cluster_robust"]) {
    std::vector<Cluster> clusters;
    for (const Json& cluster : c["clusters"]) {
      Cluster& made = clusters.emplace_back();
      for (const Json& value : cluster) {
        made.sum += value.get<double>();
        made.square_sum += value.get<double>() * value.get<double>();
        ++made.count;
      }
    }
    const ClusteredMean robust = MeanOfClusters(clusters);
    EXPECT_NEAR(robust.standard_error, c["standard_error"].get<double>(), 1e-12) << c.dump();
    EXPECT_NEAR(robust.degrees, c["degrees"].get<double>(), 1e-9) << c.dump();
    const Inference inferred = InferDifference({{clusters, 10, 1}}, {.margin = 0.1, .with_sign_flip = false});
    ASSERT_FALSE(inferred.is_variance_borrowed);
    EXPECT_NEAR(inferred.low, c["low"].get<double>(), 1e-8) << c.dump();
    EXPECT_NEAR(inferred.high, c["high"].get<double>(), 1e-8) << c.dump();
    EXPECT_NEAR(inferred.p_value, c["p"].get<double>(), 1e-9) << c.dump();
    EXPECT_NEAR(inferred.p_equivalence, c["p_equivalence"].get<double>(), 1e-9) << c.dump();
  }
}

// Both ends found by a root finder on the t test itself.
TEST(RelativeGain, TheIntervalInvertsTheTest) {
  int without_value = 0;
  for (const Json& c : Golden()["relative_gain"]) {
    TaskRatio task;
    for (size_t i = 0; i < c["baseline"].size(); ++i) {
      Cluster &difference = task.differences.emplace_back(), &baseline = task.baseline.emplace_back();
      for (size_t j = 0; j < c["baseline"][i].size(); ++j) {
        const double value = c["baseline"][i][j].get<double>();
        difference.sum += c["candidate"][i][j].get<double>() - value;
        baseline.sum += value;
        ++difference.count;
        ++baseline.count;
      }
    }
    const Inference inferred = InferDifference({{task.differences, 10, 1}}, {.with_sign_flip = false});
    ASSERT_FALSE(inferred.is_variance_borrowed);
    const RelativeGain relative = InferRelativeGain({task}, inferred, 0.95);
    if (!c["has_value"].get<bool>()) {
      EXPECT_EQ(relative.problem, RelativeGainProblem::kBaselineNearZero);
      ++without_value;
      continue;
    }
    ASSERT_TRUE(relative.has_value()) << c.dump();
    EXPECT_NEAR(relative.gain, c["gain"].get<double>(), 1e-10);
    EXPECT_NEAR(relative.low, std::max(-1.0, c["low"].get<double>()), 1e-7);
    EXPECT_NEAR(relative.high, c["high"].get<double>(), 1e-7);
    EXPECT_EQ(relative.low > 0 || relative.high < 0, inferred.p_value < 0.05);
  }
  EXPECT_EQ(without_value, 1);
}

TEST(RelativeGain, OneContextHasNone) {
  const std::vector<Cluster> one = {{2, 4, 2}};
  const Inference inferred = InferDifference({{one, 1, 1}}, {.with_sign_flip = false});
  EXPECT_EQ(InferRelativeGain({{one, one}}, inferred, 0.95).problem, RelativeGainProblem::kNoInference);
}

TEST(Inference, MeansOverTasksCombineByWelchsRule) {
  for (const Json& c : Golden()["task_mean"]) {
    std::vector<TaskDifferences> tasks;
    for (const Json& differences : c["tasks"]) {
      TaskDifferences& task = tasks.emplace_back();
      for (const Json& value : differences) {
        task.clusters.push_back({value.get<double>(), 1, value.get<double>() * value.get<double>()});
      }
    }
    const Inference inferred = InferDifference(tasks, {.with_sign_flip = false});
    EXPECT_NEAR(inferred.difference, c["difference"].get<double>(), 1e-14);
    EXPECT_NEAR(inferred.degrees, c["degrees"].get<double>(), 1e-9);
    EXPECT_NEAR(inferred.p_value, c["p"].get<double>(), 1e-9);
    EXPECT_NEAR(inferred.low, c["low"].get<double>(), 1e-8);
    EXPECT_NEAR(inferred.high, c["high"].get<double>(), 1e-8);
  }
}

// The variance with one pair gained and one lost added.
TEST(Inference, SparseClustersAddOnePairEitherWay) {
  for (const Json& c : Golden()["sparse_pairs"]) {
    std::vector<Cluster> clusters;
    for (int64_t i = 0; i < c["pairs"].get<int64_t>(); ++i) {
      const double value =
          i < c["lost"].get<int64_t>() ? -1 : i < c["lost"].get<int64_t>() + c["gained"].get<int64_t>();
      clusters.push_back({value, 1, value * value});
    }
    const Inference inferred = InferDifference({{clusters, 1, 1}}, {.with_sign_flip = false});
    ASSERT_TRUE(inferred.is_variance_borrowed);
    EXPECT_NEAR(inferred.standard_error, c["standard_error"].get<double>(), 1e-12) << c.dump();
  }
}

// A mean over tasks has spread when three clusters of any of its tasks differ; a task without has its own variance then.
TEST(Inference, SpreadIsCountedOverTheTasksOfAMean) {
  const auto task = [](int stray) {
    TaskDifferences task{std::vector<Cluster>(12, Cluster{0, 4, 0}), 1, 1};
    for (int i = 0; i < stray; ++i) task.clusters[i] = {i % 2 ? -1.0 : 1.0, 4, 1};
    return task;
  };
  const Inference sparse = InferDifference({task(1), task(1), task(0)}, {.with_sign_flip = false});
  EXPECT_TRUE(sparse.is_variance_borrowed);
  const Inference joint = InferDifference({task(1), task(1), task(1), task(0)}, {.with_sign_flip = false});
  EXPECT_FALSE(joint.is_variance_borrowed);
  // Of a task with one pair of 48: (1/4)^2 * (1 - 1/12) / 11 / 12; the mean of four has three of them.
  EXPECT_NEAR(joint.standard_error, std::sqrt(3 * (1 / 16.0) * (11 / 12.0) / 11 / 12) / 4, 1e-12);
  EXPECT_NEAR(joint.degrees, 33, 1e-9);
  const Inference one = InferDifference({task(3), task(0)}, {.with_sign_flip = false});
  EXPECT_FALSE(one.is_variance_borrowed);
  EXPECT_NEAR(one.degrees, 11, 1e-9) << "of the task that has a variance";
  const Inference none = InferDifference({task(0), task(0)}, {.with_sign_flip = false});
  EXPECT_TRUE(none.is_variance_borrowed);
  EXPECT_GT(none.standard_error, 0) << "equal answers are not certain";
}

// Two contexts with all of their questions gained, and no difference elsewhere: docs/measuring.md states p > 0.15.
TEST(Inference, TwoContextsThatDifferCannotDecide) {
  for (int count = 4; count <= 200; ++count) {
    for (int64_t size = 1; size <= 6; ++size) {
      std::vector<Cluster> clusters(count, Cluster{0, size, 0});
      for (int i = 0; i < 2; ++i) clusters[i].sum = clusters[i].square_sum = size;
      for (const double design_effect : {1.0, static_cast<double>(size)}) {
        const Inference row = InferDifference({{clusters, 1, design_effect}}, {.with_sign_flip = false});
        ASSERT_TRUE(row.is_variance_borrowed) << count;
        ASSERT_GT(row.p_value, 0.15) << count << " contexts of " << size;
      }
    }
  }
}

TEST(Inference, HolmCountsTestsThatHaveNoAnswersYet) {
  std::vector<Cluster> clusters;
  for (int i = 0; i < 8; ++i) clusters.push_back({1.0 + i % 3, 4, 4});
  Inference one = InferDifference({{clusters, 1, 1}}, {}), two = one;
  AdjustForMultipleTests({&one}, 1, 0.95);
  AdjustForMultipleTests({&two}, 18, 0.95);
  EXPECT_EQ(one.p_adjusted, one.p_value);
  EXPECT_DOUBLE_EQ(two.p_adjusted, 18 * one.p_value);
  EXPECT_EQ(two.test_count, 18);
  ASSERT_TRUE(one.detectable_difference.has_value());
  ASSERT_TRUE(two.detectable_difference.has_value());
  EXPECT_GT(*two.detectable_difference, *one.detectable_difference);
  two.difference_max = *two.detectable_difference * 0.99;
  AdjustForMultipleTests({&two}, 18, 0.95);
  EXPECT_EQ(two.detectable_difference, std::nullopt) << "larger than any difference";
  two.is_unfinished = true;
  AdjustForMultipleTests({&two}, 18, 0.95);
  EXPECT_EQ(two.outcome, Outcome::kUndecided) << "no verdict on an unfinished row, however clear";
}

TEST(Clusters, StrayClustersAreCountedAgainstTheMostFrequentMean) {
  EXPECT_EQ(DifferingClusterCount({{0, 4}, {0, 4}, {1, 4}, {0, 2}}), 1);
  EXPECT_EQ(DifferingClusterCount({{1, 4}, {2, 4}, {3, 4}}), 2);
  EXPECT_TRUE(HasSpread({{1, 4}, {2, 4}, {3, 4}})) << "no two alike: a graded metric";
  EXPECT_FALSE(HasSpread({{0, 4}, {0, 4}, {0, 4}, {1, 4}, {2, 4}}));
  EXPECT_TRUE(HasSpread({{0, 4}, {0, 4}, {3, 4}, {1, 4}, {2, 4}}));
  EXPECT_FALSE(HasSpread({{1, 4}}));
}

TEST(Clusters, TheDesignEffectIsPooledOverSamples) {
  std::vector<Cluster> alike, still;
  for (int i = 0; i < 20; ++i) {
    alike.push_back({i % 2 ? 4.0 : 0.0, 4, i % 2 ? 4.0 : 0.0});
    still.push_back({4, 4, 4});
  }
  // A cluster is one value.
  EXPECT_NEAR(*PooledDesignEffect({alike, still}), 4 * (79.0 / 80) * (20.0 / 19), 1e-12);
  EXPECT_EQ(PooledDesignEffect({still}), std::nullopt) << "no values";
  EXPECT_EQ(DesignEffectMax({{0, 2}, {0, 6}}), (4 + 36) / 8.0);
}

TEST(Intervals, EffectiveSampleCountCountsWhatIsIndependent) {
  std::vector<Cluster> alike, singles, perfect;
  for (int i = 0; i < 20; ++i) {
    alike.push_back({i % 2 ? 4.0 : 0.0, 4});  // a cluster counts as one value
    singles.push_back({i % 2 ? 1.0 : 0.0, 1});
    perfect.push_back({4.0, 4});
  }
  EXPECT_NEAR(EffectiveSampleCount(singles), 20, 1e-9) << "clusters of one are independent values";
  // Twenty values that come as eighty: design effect 4 * (79/80) * (20/19).
  EXPECT_NEAR(EffectiveSampleCount(alike), 80 / (4 * 79.0 / 80 * 20 / 19), 1e-9);
  EXPECT_EQ(EffectiveSampleCount(perfect), 20) << "failure clustering cannot be estimated";
  EXPECT_EQ(EffectiveSampleCount({{3, 4}}), 1);
  std::vector<Cluster> balanced(20, Cluster{2, 4});  // less spread than chance would give is not more evidence
  EXPECT_EQ(EffectiveSampleCount(balanced), 80);
}

TEST(Intervals, RuleOfThreeWhereNoVarianceIsSeen) {
  const double share = -std::log(0.05) / 12;  // 0.2496, "three over twelve"
  EXPECT_NEAR(share, 3.0 / 12, 5e-4);
  const std::vector<Cluster> perfect(12, Cluster{4, 4, 4});
  const Interval all = *ScoreInterval(perfect, {.range = {0, 1}});
  EXPECT_DOUBLE_EQ(all.low, 1 - share) << "a cluster counts as one value";
  EXPECT_EQ(all.high, 1);
  const Interval borrowed = *ScoreInterval(perfect, {.range = {0, 1}, .borrowed_design_effect = 1});
  EXPECT_DOUBLE_EQ(borrowed.low, 1 + std::log(0.05) / 48) << "values do not depend on each other elsewhere";
  const Interval binary = *ScoreInterval(perfect, {.is_binary = true, .borrowed_design_effect = 1});
  EXPECT_NEAR(binary.low, WilsonInterval(1, 48).low, 1e-12);
  const Interval lone = *ScoreInterval({{2, 4}}, {.range = {-1, 1}});
  EXPECT_EQ(lone.low, -1);
  EXPECT_EQ(lone.high, 1);
  // Means that are equal on paper only (0.1 + 0.2 against 0.3) show no variance either.
  EXPECT_EQ(MeanOfClusters({{0.1 + 0.2, 1}, {0.3, 1}, {0.3, 1}}).standard_error, 0);
}

// Values without bounds have Student's t interval and nothing else; the literals are scipy's.
TEST(Intervals, WithoutBoundsNothingIsClippedOrAdded) {
  const ScoreOptions options{.range = RangeOf(std::nullopt, std::nullopt)};
  const Interval three = *ScoreInterval({{-12.103, 1}, {-11.252, 1}, {-12.132, 1}}, options);
  EXPECT_NEAR(three.low, -13.070838, 1e-5);
  EXPECT_NEAR(three.high, -10.587162, 1e-5);
  const Interval two = *ScoreInterval({{-12, 1}, {-11, 1}}, options);
  EXPECT_NEAR(two.low, -11.5 - 12.7062 * 0.5, 1e-4) << "t with one degree of freedom";
  EXPECT_NEAR(two.high, -11.5 + 12.7062 * 0.5, 1e-4);
  EXPECT_FALSE(ScoreInterval({{2.094, 1}, {2.094, 1}, {2.094, 1}}, options).has_value());
  EXPECT_FALSE(ScoreInterval({{2.094, 1}}, options).has_value()) << "one context";
}

// Likewise differences: a detectable one always, no verdict from equal ones.
TEST(Inference, WithoutBoundsADifferenceHasTheTInterval) {
  const double infinite = RangeOf(0.0, std::nullopt).Width();
  Inference row = InferDifference({{{{1.0, 1}, {-1.0, 1}, {0.7, 1}}, infinite, 1}}, {});
  AdjustForMultipleTests({&row}, 1, 0.95);
  EXPECT_TRUE(row.can_infer);
  EXPECT_NEAR(row.low, 0.233333 - 4.302653 * 0.622718, 1e-4);
  EXPECT_NEAR(row.high, 0.233333 + 4.302653 * 0.622718, 1e-4);
  ASSERT_TRUE(row.detectable_difference.has_value());
  EXPECT_GT(*row.detectable_difference, 3);
  const Inference equal = InferDifference({{{{0.5, 1}, {0.5, 1}, {0.5, 1}}, infinite, 1}}, {});
  EXPECT_FALSE(equal.can_infer);
  EXPECT_FALSE(equal.has_single_cluster);
}

// Three contexts with 0, 1 and 1: fewer than three differ, better by t, and sign flips cannot.
TEST(Inference, FewContextsThatDifferDecideWithSignFlipsAlone) {
  std::vector<Cluster> few = {{0, 4, 0}, {4, 4, 4}, {4, 4, 4}};
  Inference row = InferDifference({{few, 1, 1}}, {.margin = 0.03});
  AdjustForMultipleTests({&row}, 1, 0.95);
  EXPECT_TRUE(row.is_variance_borrowed);
  EXPECT_GT(row.sign_flip.p_value, 0.05);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
  std::vector<Cluster> many(40, Cluster{4, 4, 4});  // two of forty differ from the rest, all of which gain
  many[0] = many[1] = {0, 4, 0};
  Inference sure = InferDifference({{many, 1, 1}}, {.margin = 0.03});
  AdjustForMultipleTests({&sure}, 1, 0.95);
  EXPECT_TRUE(sure.is_variance_borrowed);
  EXPECT_EQ(sure.outcome, Outcome::kBetter);
}

// A difference within the margin is worse and so by less than the margin; equivalent has its interval within it.
TEST(Inference, OutcomesAgreeWithTheMargin) {
  std::vector<Cluster> small;
  for (int i = 0; i < 100; ++i) small.push_back({i % 4 == 0 ? -0.4 : 0.0, 10, 0});
  Inference row = InferDifference({{small, 1, 1}}, {.margin = 0.03});
  AdjustForMultipleTests({&row}, 1, 0.95);
  EXPECT_EQ(row.outcome, Outcome::kWorse);
  EXPECT_GT(row.low, -0.03);
  EXPECT_TRUE(row.IsWithinMargin());
  for (double shift = 0; shift < 0.03; shift += 0.0005) {
    std::vector<Cluster> around;
    for (int i = 0; i < 40; ++i) around.push_back({(i % 2 == 0 ? 0.7 : -0.7) + 10 * shift, 10, 1});
    Inference near = InferDifference({{around, 1, 1}}, {.margin = 0.03});
    AdjustForMultipleTests({&near}, 1, 0.95);
    if (near.outcome == Outcome::kEquivalent) {
      EXPECT_GT(near.low, -0.03) << shift;
      EXPECT_LT(near.high, 0.03) << shift;
    }
  }
}

TEST(Clusters, OrderOfRowsDoesNotMatter) {
  std::vector<ClusteredValue> values;
  Random random("order");
  for (int i = 0; i < 400; ++i) values.push_back({std::string(1, static_cast<char>('a' + i % 7)), random.Uniform()});
  const ClusteredMean one = MeanOfClusters(GroupByCluster(values));
  random.Shuffle(values);
  const ClusteredMean two = MeanOfClusters(GroupByCluster(values));
  EXPECT_EQ(one.mean, two.mean);
  EXPECT_EQ(one.standard_error, two.standard_error);
}

TEST(SignFlip, ExactIsEnumeration) {
  for (const Json& c : Golden()["sign_flip"]) {
    const SignFlipResult result = SignFlipTest(c["differences"].get<std::vector<double>>());
    EXPECT_EQ(result.test, "sign_flip_exact");
    EXPECT_EQ(result.draws, c["assignment_count"].get<int64_t>());
    EXPECT_EQ(result.p_value, c["p"].get<double>()) << c.dump();
  }
  EXPECT_DOUBLE_EQ(SignFlipTest({1, 1, 1, 1, 1, 0, 0}).p_value, 2.0 / 32) << "all five one way, two tails";
  EXPECT_EQ(SignFlipTest({}).p_value, 1);
}

TEST(SignFlip, SampledAgreesWithTheNormalLimitAndNeverReachesZero) {
  // 400 differences of size 1, 30 more one way than the other: z = 30/20 = 1.5; ties at exactly 30 count, so the tail
  // starts at 29 (sums are even): P(|Z| > 29/20) = 0.1470. Twenty thousand draws: one standard error is 0.0025.
  std::vector<double> sums(400, -1);
  for (int i = 0; i < 215; ++i) sums[i] = 1;
  const SignFlipResult result = SignFlipTest(sums, {.draws = 20'000, .seed = 3});
  EXPECT_EQ(result.test, "sign_flip_sampled");
  EXPECT_NEAR(result.p_value, 0.1470, 4 * 0.0025);
  EXPECT_EQ(result.p_value, SignFlipTest(sums, {.draws = 20'000, .seed = 3}).p_value) << "seeded";
  EXPECT_NE(result.p_value, SignFlipTest(sums, {.draws = 20'000, .seed = 4}).p_value);
  const SignFlipResult extreme = SignFlipTest(std::vector<double>(40, 1), {.draws = 10'000});
  EXPECT_DOUBLE_EQ(extreme.p_value, 1.0 / 10'001) << "the +1 rule";
}

TEST(SignFlip, SampledAndExactAgreeAtTheBoundary) {
  // The same twenty differences twice: exact, and with one tiny extra cluster that forces sampling.
  std::vector<double> sums;
  Random random("boundary");
  for (int i = 0; i < 20; ++i) sums.push_back(random.Uniform() - 0.3);
  const double exact = SignFlipTest(sums).p_value;
  sums.push_back(1e-12);
  const SignFlipResult sampled = SignFlipTest(sums, {.draws = 200'000});
  EXPECT_EQ(sampled.test, "sign_flip_sampled");
  EXPECT_NEAR(sampled.p_value, exact, 4 * std::sqrt(exact * (1 - exact) / 200'000));
}

std::vector<ClusterContributions> Contributions(const Json& rows) {
  std::vector<ClusterContributions> tests;
  for (const Json& row : rows) {
    ClusterContributions& test = tests.emplace_back();
    for (size_t i = 0; i < row.size(); ++i) test[absl::StrCat("c", i)] = row[i].get<double>();
  }
  return tests;
}

TEST(MaxT, ExactIsEnumeration) {
  for (const Json& c : Golden()["max_t"]) {
    EXPECT_EQ(MaxTAdjust(Contributions(c["contributions"])), c["adjusted"].get<std::vector<double>>()) << c.dump();
  }
  EXPECT_TRUE(MaxTAdjust({}).empty());
  EXPECT_THAT(MaxTAdjust({{}, {{"a", 0.0}}}), ElementsAre(1.0, 1.0));
}

TEST(MaxT, OneTestIsTheSignFlipTest) {
  const std::vector<double> sums = {1, 2, 1, -1, 3, 0, 2, 1};
  ClusterContributions test;
  for (size_t i = 0; i < sums.size(); ++i) test[absl::StrCat(i)] = sums[i] / 100;
  EXPECT_DOUBLE_EQ(MaxTAdjust({test}).front(), SignFlipTest(sums).p_value);
  // The same test five times is one test: Holm would multiply by five.
  const double alone = MaxTAdjust({test}).front();
  EXPECT_THAT(MaxTAdjust(std::vector<ClusterContributions>(5, test)), ::testing::Each(alone));
}

TEST(MaxT, SampledAgreesWithExact) {
  std::vector<ClusterContributions> tests;
  Random random("max_t");
  for (int j = 0; j < 6; ++j) {
    ClusterContributions& test = tests.emplace_back();
    for (int c = 0; c < 20; ++c) test[absl::StrCat("c", c)] = random.Uniform() - 0.25 - 0.05 * j;
  }
  const std::vector<double> exact = MaxTAdjust(tests);
  for (ClusterContributions& test : tests) test["tiny"] = 1e-12;  // one cluster more than are enumerated
  const std::vector<double> sampled = MaxTAdjust(tests, {.draws = 50'000});
  for (size_t j = 0; j < tests.size(); ++j) {
    EXPECT_NEAR(sampled[j], exact[j], 4 * std::sqrt(exact[j] * (1 - exact[j]) / 50'000) + 2.0 / 50'000) << j;
  }
  EXPECT_EQ(sampled, MaxTAdjust(tests, {.draws = 50'000})) << "seeded";
}

TEST(Holm, StepsDown) {
  // 0.01 * 3 = 0.03; max(0.03, 0.02 * 2) = 0.04; max(0.04, 0.9) = 0.9
  EXPECT_THAT(HolmAdjust({0.9, 0.01, 0.02}), ElementsAre(DoubleEq(0.9), DoubleEq(0.03), DoubleEq(0.04)));
  EXPECT_THAT(HolmAdjust({0.6, 0.7}), ElementsAre(1, 1));
  EXPECT_THAT(HolmAdjust({}), ElementsAre());
}

}  // namespace
}  // namespace varifocal::stats
