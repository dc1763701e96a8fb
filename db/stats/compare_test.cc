// The comparison table: fields verified by hand on a small job in a real database, flags for failures and missing
// pairs, the suite mean and the contrast of lengths. Method: hand-made scores.
#include "db/stats/compare.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/stats/estimates.h"
#include "db/stats/family.h"
#include "db/stats/special.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/compare_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal::stats {
namespace {

using ::testing::HasSubstr;

TEST_F(CompareTest, OneCellByHand) {
  // Six clusters of four. Baseline right on question 0 of each; focal on 0 and 1, and in cluster 5 on none.
  Write(db::FakeJob({.planned_count = 24}), [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline") return i % 4 == 0 ? 1.0 : 0.0;
    return i < 20 && i % 4 < 2 ? 1.0 : 0.0;
  });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  ASSERT_EQ(report.comparisons.size(), 2u);
  const Comparison& row = report.comparisons[0];
  EXPECT_EQ(row.task, "recall");
  EXPECT_EQ(row.metric, "exact_match");
  EXPECT_TRUE(row.is_primary_metric);
  EXPECT_EQ(row.sample_count, 24);
  EXPECT_EQ(row.cluster_count, 6);
  EXPECT_EQ(row.failed_count, 0);
  EXPECT_FALSE(row.is_incomplete);
  EXPECT_DOUBLE_EQ(row.baseline_mean, 0.25);
  EXPECT_DOUBLE_EQ(row.candidate_mean, 10.0 / 24);
  EXPECT_DOUBLE_EQ(row.difference, 4.0 / 24);
  EXPECT_EQ(row.gain_count, 5);
  EXPECT_EQ(row.loss_count, 1);
  // Cluster differences +1/4 five times, -1/4 once: standard error 0.0833333 (sd sqrt(6/5 * (1/16 - 1/36)) = 0.204124,
  // over sqrt(6)). One cluster of six differs from the rest, so one gained and one lost pair are added: (24^2 * 0.0833333^2
  // + 2 * 1) / 26^2 = 0.00887574, whose root is 0.0942111. The design effect is 1: independent pairs of this kind would
  // spread more, (24 * 6 - 4^2) / 24 / 23 / 24 = 0.00966184 against 0.00694444. t(0.975, 5) = 2.570582.
  EXPECT_TRUE(row.is_variance_borrowed);
  EXPECT_NEAR(row.standard_error, 0.0942111, 1e-7);
  EXPECT_NEAR(row.degrees, 5, 1e-12);
  EXPECT_NEAR(row.low, 1.0 / 6 - 2.570582 * 0.0942111, 1e-6);
  EXPECT_NEAR(row.high, 1.0 / 6 + 2.570582 * 0.0942111, 1e-6);
  EXPECT_NEAR(row.p_value, 2 * StudentTCdf(-(1.0 / 6) / 0.0942111, 5), 1e-6);
  // |sum| = 4 of 6: sums 4 and 6 in either direction, (6 + 1) * 2 / 64.
  EXPECT_DOUBLE_EQ(row.sign_flip.p_value, 14.0 / 64);
  EXPECT_EQ(row.sign_flip.test, "sign_flip_exact");
  EXPECT_EQ(row.sign_flip.draws, 64);
  EXPECT_DOUBLE_EQ(row.p_sign_flip_min, 2.0 / 64);
  // t(0.975, 5) + t(0.8, 5) = 2.570582 + 0.919544
  EXPECT_NEAR(*row.detectable_difference, (2.570582 + 0.919544) * 0.0942111, 1e-6);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
  EXPECT_DOUBLE_EQ(*row.margin, 0.03);
  // The baseline has a quarter in every cluster, so that its mean does not vary: the difference's interval, divided.
  ASSERT_TRUE(row.relative.has_value());
  EXPECT_NEAR(row.relative.gain, 2.0 / 3, 1e-12);
  EXPECT_NEAR(row.relative.low, row.low / 0.25, 1e-9);
  EXPECT_NEAR(row.relative.high, row.high / 0.25, 1e-9);
  EXPECT_LE(row.baseline_interval->low, 0.25);
  EXPECT_GE(row.baseline_interval->high, 0.25);

  const Comparison& f1 = report.comparisons[1];
  EXPECT_EQ(f1.metric, "token_f1");
  EXPECT_FALSE(f1.is_primary_metric);
  EXPECT_DOUBLE_EQ(f1.difference, 2.0 / 24);

  ASSERT_EQ(report.suite.size(), 1u);
  EXPECT_DOUBLE_EQ(report.suite[0].difference, row.difference) << "one task: the suite is the task";
  EXPECT_NEAR(report.suite[0].low, row.low, 1e-12);
  EXPECT_NEAR(report.suite[0].p_value, row.p_value, 1e-12);
  EXPECT_NEAR(report.suite[0].relative.low, row.relative.low, 1e-12);
  EXPECT_NEAR(report.suite[0].relative.high, row.relative.high, 1e-12);
  EXPECT_TRUE(report.contrasts.empty());
  EXPECT_FALSE(report.is_incomplete);
}

// Two data seeds of eight questions: focal gains two questions of the first, loses one of the second, and does nothing to the
// rows of a file, which have no seed.
TEST_F(CompareTest, SeveralSeedsArePooledAndShownOneByOne) {
  db::NewJob job = db::FakeJob({.tasks = {"recall", "rows"}, .planned_count = 16});
  job.spec_json = R"({"suite": {"seeds": 2, "tasks": [{"name": "recall", "parameters": {}},
                                                       {"name": "rows", "parameters": {"sha256": "00"}}]}})";
  const auto score = [](const db::CellRecord& cell, int64_t i) {
    if (cell.task == "rows") return 1.0;
    if (cell.variant == "baseline") return i == 12 ? 1.0 : 0.0;
    return i == 1 || i == 6 ? 1.0 : 0.0;
  };
  Write(job, score);
  ASSIGN_OR_FAIL(const auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  const Comparison& recall = report.comparisons[0];
  EXPECT_DOUBLE_EQ(recall.difference, 1.0 / 16) << "pooled";
  ASSERT_EQ(recall.by_seed.size(), 2u);
  EXPECT_EQ(recall.by_seed[0].seed, 7);  // the job's
  EXPECT_DOUBLE_EQ(recall.by_seed[0].difference, 2.0 / 8);
  EXPECT_EQ(recall.by_seed[1].seed, 8);
  EXPECT_DOUBLE_EQ(recall.by_seed[1].difference, -1.0 / 8);
  EXPECT_EQ(report.comparisons[2].task, "rows");
  EXPECT_TRUE(report.comparisons[2].by_seed.empty());
  ASSERT_EQ(report.suite[0].by_seed.size(), 2u);
  EXPECT_DOUBLE_EQ(report.suite[0].by_seed[0].difference, 2.0 / 8) << "of the tasks whose questions a seed changes";
  EXPECT_DOUBLE_EQ(report.suite[0].difference, 1.0 / 32);

  job.spec_json = R"({"suite": {"tasks": [{"name": "recall", "parameters": {}}]}})";
  path_ = directory_.File("one_seed.db");
  Write(job, score);
  EXPECT_TRUE(CompareVariants(*reader_, job_id_, "baseline", "focal")->suite[0].by_seed.empty());
}

// A baseline right in only one cluster of six: its mean is not distinguished from zero, whatever the candidate's is.
TEST_F(CompareTest, NoRelativeGainOverABaselineNearZero) {
  Write(db::FakeJob({.planned_count = 24}), [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline") return i == 0 ? 1.0 : 0.0;
    return i % 4 < 2 ? 1.0 : 0.0;
  });
  ASSIGN_OR_FAIL(const auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  EXPECT_EQ(report.comparisons[0].relative.problem, RelativeGainProblem::kBaselineNearZero);
  EXPECT_EQ(report.suite[0].relative.problem, RelativeGainProblem::kBaselineNearZero);
  EXPECT_GT(report.suite[0].low, 0) << "the difference itself is there";
}

// Values that do not begin at zero have no ratio.
TEST(ComparePairs, NoRelativeGainWithoutAZero) {
  std::vector<db::PairRow> pairs(12);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].cluster = absl::StrCat(i / 2);
    pairs[i].baseline_value = 0.5;
    pairs[i].candidate_value = 0.5 + 0.01 * i;
    pairs[i].difference = *pairs[i].candidate_value - 0.5;
  }
  EXPECT_EQ(ComparePairs(pairs, {.worst_value = -1, .best_value = 1})->relative.problem, RelativeGainProblem::kNoZero);
  EXPECT_EQ(ComparePairs(pairs, {})->relative.problem, RelativeGainProblem::kNoZero);
  EXPECT_TRUE(ComparePairs(pairs, {.worst_value = 1, .best_value = 0})->relative.has_value());
}

TEST_F(CompareTest, FailuresCountAsWorstAndSayIncomplete) {
  Write(db::FakeJob({.planned_count = 24}), [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
    if (cell.variant == "focal" && i < 6) return std::nullopt;
    return 1.0;
  });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  const Comparison& row = report.comparisons[0];
  EXPECT_EQ(row.sample_count, 24);
  EXPECT_EQ(row.failed_count, 6);
  EXPECT_DOUBLE_EQ(row.difference, -0.25);
  EXPECT_TRUE(row.is_incomplete);
  EXPECT_TRUE(report.suite[0].is_incomplete);
  EXPECT_TRUE(report.is_incomplete);

  ASSIGN_OR_FAIL(auto estimates, EstimateScores(*reader_, job_id_));
  const Estimate& focal = estimates[2];
  EXPECT_EQ(focal.variant, "focal");
  EXPECT_DOUBLE_EQ(*focal.mean, 0.75);
  EXPECT_DOUBLE_EQ(*focal.mean_answered, 1.0);
  EXPECT_TRUE(focal.is_incomplete);
  EXPECT_EQ(focal.cluster_count, 6);
}

TEST_F(CompareTest, FailuresAloneDecideNothing) {
  // The baseline answers a quarter of the questions rightly; the candidate fails on every one.
  Write(db::FakeJob({.planned_count = 48}), [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
    if (cell.variant == "focal") return std::nullopt;
    return (i / 4 + i) % 4 == 0 ? 1.0 : 0.0;
  });
  for (const bool is_reversed : {false, true}) {  // as baseline, it would make the other better
    ASSIGN_OR_FAIL(const auto report, CompareVariants(*reader_, job_id_, is_reversed ? "focal" : "baseline",
                                                      is_reversed ? "baseline" : "focal"));
    const Comparison& cell = report.comparisons[0];
    const SuiteComparison& mean = report.suite[0];
    EXPECT_NEAR(cell.difference, is_reversed ? 0.25 : -0.25, 1e-12) << "a failed sample is wrong";
    for (const Inference* row : {static_cast<const Inference*>(&cell), static_cast<const Inference*>(&mean)}) {
      EXPECT_LT(row->p_adjusted, 0.001);
      EXPECT_EQ(row->outcome, Outcome::kUndecided);
      EXPECT_TRUE(row->failures_decide);
      ASSERT_TRUE(row->answered.has_value());
      EXPECT_FALSE(row->answered->can_infer) << "no pair is left";
    }
  }
}

TEST_F(CompareTest, ADifferenceThatTheAnswersShowIsDecidedDespiteFailures) {
  // Without failures the candidate is right where the baseline is not; one failure changes nothing. With twelve failures
  // of one cluster out of four a difference of zero looks like a loss.
  const auto is_better = [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
    if (cell.variant == "focal" && i == 5) return std::nullopt;
    return cell.variant == "focal" || i % 4 == i / 4 % 4 ? 1.0 : 0.0;
  };
  const auto is_equal_but_fails = [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
    if (cell.variant == "focal" && i % 4 == 1) return std::nullopt;
    return i % 8 < 4 || i % 4 == 1 ? 1.0 : 0.0;
  };
  Write(db::FakeJob({.planned_count = 48}), is_better);
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->suite[0].failed_count, 1);
  EXPECT_EQ(report->suite[0].outcome, Outcome::kBetter);
  EXPECT_FALSE(report->suite[0].failures_decide);
  EXPECT_EQ(report->suite[0].answered->outcome, Outcome::kBetter);
  Write(db::FakeJob({.planned_count = 48}), is_equal_but_fails);
  CompareOptions options;
  options.with_max_t = true;
  for (const CompareOptions& how : {CompareOptions(), options}) {
    report = CompareVariants(*reader_, job_id_, "baseline", "focal", how);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_LT(report->suite[0].p_adjusted, 0.01);
    EXPECT_TRUE(report->suite[0].failures_decide) << "worse only by its failures";
    EXPECT_EQ(report->suite[0].outcome, Outcome::kUndecided);
    EXPECT_NEAR(report->suite[0].answered->difference, 0, 1e-12);
  }
}

TEST_F(CompareTest, AFailureAtOneLengthIsOneOfTheContrast) {
  // Equal answers; at 4K the candidate fails on a question of each context.
  Write(db::FakeJob({.lengths = {1024, 4096}, .planned_count = 48}),
        [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
          if (cell.variant == "focal" && cell.context_length == 4096 && i % 4 == 1) return std::nullopt;
          return i % 8 < 4 || i % 4 == 1 ? 1.0 : 0.0;
        });
  ASSIGN_OR_FAIL(const auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  ASSERT_FALSE(report.contrasts.empty());
  EXPECT_NEAR(report.contrasts[0].difference, -0.25, 1e-12);
  EXPECT_LT(report.contrasts[0].p_adjusted, 0.01);
  EXPECT_TRUE(report.contrasts[0].failures_decide);
  EXPECT_EQ(report.contrasts[0].outcome, Outcome::kUndecided);
}

TEST_F(CompareTest, OneScoreHasOneInterval) {
  // Tasks with perfect scores borrow their design effect from other tasks, whose metrics of second rank do not count.
  Write(db::FakeJob({.tasks = {"recall", "label"}, .lengths = {1024, 4096}, .planned_count = 48}),
        [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
          if (cell.task == "recall") return 1.0;
          return (i / 4 + cell.context_length / 1024) % 3 == 0 || i % 5 == 0 ? 1.0 : 0.0;
        });
  const auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  const auto estimates = EstimateScores(*reader_, job_id_);
  ASSERT_TRUE(report.ok() && estimates.ok());
  int count = 0;
  for (const Comparison& row : report->comparisons) {
    for (const Estimate& estimate : *estimates) {
      if (estimate.task != row.task || estimate.metric != row.metric || estimate.context_length != row.context_length)
        continue;
      const bool is_baseline = estimate.variant == row.baseline;
      ++count;
      EXPECT_EQ(*estimate.mean, is_baseline ? row.baseline_mean : row.candidate_mean) << row.task << row.metric;
      const Interval interval = (is_baseline ? row.baseline_interval : row.candidate_interval).value();
      EXPECT_EQ(estimate.interval->low, interval.low) << row.task << " " << row.metric << " " << row.context_length;
      EXPECT_EQ(estimate.interval->high, interval.high) << row.task << " " << row.metric << " " << row.context_length;
    }
  }
  EXPECT_EQ(count, 2 * 2 * 2 * 2) << "tasks, metrics, lengths, sides";
}

TEST_F(CompareTest, MissingSamplesSayIncomplete) {
  Write(
      db::FakeJob({.planned_count = 24}), [](const db::CellRecord&, int64_t) { return 1.0; }, 20);
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  EXPECT_EQ(report.comparisons[0].sample_count, 20);
  EXPECT_EQ(report.comparisons[0].planned_count, 24);
  EXPECT_TRUE(report.is_incomplete);
  // Nothing differs anywhere: one gained and one lost pair are added, each as heavy as a cluster of four: 2 * 4 / 22^2.
  const Comparison& row = report.comparisons[0];
  EXPECT_EQ(row.difference, 0);
  EXPECT_NEAR(row.standard_error, std::sqrt(8.0) / 22, 1e-12);
  EXPECT_NEAR(row.high, StudentTQuantile(0.975, 4) * std::sqrt(8.0) / 22, 1e-9);
  EXPECT_EQ(row.p_value, 1);
  EXPECT_TRUE(row.is_unfinished);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
  EXPECT_EQ(report.suite[0].finished_task_count, 0);
  EXPECT_EQ(report.suite[0].planned_task_count, 1);
  EXPECT_TRUE(report.suite[0].is_unfinished);
}

TEST_F(CompareTest, RefusesWhatCannotBeCompared) {
  Write(
      db::FakeJob({.planned_count = 4}), [](const db::CellRecord&, int64_t) { return 1.0; }, 0);
  EXPECT_EQ(CompareVariants(*reader_, job_id_, "focal", "focal").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(CompareVariants(*reader_, job_id_, "baseline", "focus").status(),
              IsError(absl::StatusCode::kNotFound, HasSubstr("baseline, focal")));
  EXPECT_EQ(CompareVariants(*reader_, job_id_, "baseline", "focal").status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(CompareTest, SuiteIsTheMeanOverTasksAndTheGainGrows) {
  // Two tasks of twelve clusters. At 1024 no difference; at 4096 focal gains one question in each cluster of recall and
  // two in each of icl, but for two clusters of each task.
  const db::NewJob job = db::FakeJob({.tasks = {"icl", "recall"}, .lengths = {1024, 4096}, .planned_count = 48});
  Write(job, [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline" || cell.context_length == 1024 || i >= 40) return 0.0;
    return i % 4 < (cell.task == "icl" ? 2 : 1) ? 1.0 : 0.0;
  });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  ASSERT_EQ(report.suite.size(), 2u);
  EXPECT_EQ(report.suite[0].context_length, 1024);
  EXPECT_EQ(report.suite[0].difference, 0);
  EXPECT_EQ(report.suite[0].p_adjusted, 1);
  const SuiteComparison& at_4k = report.suite[1];
  EXPECT_EQ(at_4k.task_count, 2);
  EXPECT_EQ(at_4k.cluster_count, 24);
  EXPECT_EQ(at_4k.sample_count, 96);
  EXPECT_NEAR(at_4k.difference, (20.0 / 48 + 10.0 / 48) / 2, 1e-15);
  EXPECT_EQ(at_4k.sign_flip.test, "sign_flip_exact") << "twenty clusters differ, four do not";
  EXPECT_DOUBLE_EQ(at_4k.sign_flip.p_value, 2.0 / (1 << 20));
  EXPECT_EQ(at_4k.test_count, 2) << "two lengths";
  EXPECT_DOUBLE_EQ(at_4k.p_adjusted, 2 * at_4k.p_value);
  EXPECT_GT(at_4k.low, 0);
  EXPECT_EQ(at_4k.outcome, Outcome::kBetter);

  ASSERT_EQ(report.contrasts.size(), 3u);
  EXPECT_EQ(report.contrasts[0].task, "icl");
  EXPECT_EQ(report.contrasts[0].short_length, 1024);
  EXPECT_EQ(report.contrasts[0].long_length, 4096);
  EXPECT_EQ(report.contrasts[0].question_count, 48);
  EXPECT_EQ(report.contrasts[0].cluster_count, 12);
  EXPECT_DOUBLE_EQ(report.contrasts[0].difference, 20.0 / 48);
  EXPECT_DOUBLE_EQ(report.contrasts[0].sign_flip.p_value, 2.0 / 1024);
  EXPECT_EQ(report.contrasts[2].task, "");
  EXPECT_NEAR(report.contrasts[2].difference, 15.0 / 48, 1e-15);
  EXPECT_NEAR(report.contrasts[2].long_difference, 15.0 / 48, 1e-15);
  EXPECT_EQ(report.contrasts[2].short_difference, 0);
}

// The difference of question i at the lengths 1K, 2K and 8K is 0, a and b by its cluster. With x = 0, 1, 3 doublings and
// mean 4 / 3 the least-squares slope is (-4/3 * 0 - 1/3 a + 5/3 b) / (14/3) = (5 b - a) / 14.
TEST_F(CompareTest, TheSlopeUsesEveryLength) {
  Write(db::FakeJob({.lengths = {1024, 2048, 8192}, .planned_count = 48}), [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline" || cell.context_length == 1024) return 0.0;
    return i / 4 % 3 == 0 || (cell.context_length == 8192 && i / 4 % 3 == 1) ? 1.0 : 0.0;
  });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  ASSERT_EQ(report.contrasts.size(), 2u);
  EXPECT_EQ(report.contrasts[0].kind, LengthContrast::Kind::kChange);
  EXPECT_DOUBLE_EQ(report.contrasts[0].difference, 2.0 / 3);
  const LengthContrast& slope = report.contrasts[1];
  EXPECT_EQ(slope.kind, LengthContrast::Kind::kSlope);
  EXPECT_EQ(slope.short_length, 1024);
  EXPECT_EQ(slope.long_length, 8192);
  EXPECT_EQ(slope.question_count, 48);
  // Four clusters each with a = b = 1, with b alone, and with none.
  EXPECT_NEAR(slope.difference, (4.0 / 14 + 5.0 / 14) / 3, 1e-15);
  // Cluster means 4/14, 5/14, 0, four times each: their variance is that of the mean.
  const double mean = 9.0 / 42,
               squares = 4 * (std::pow(4.0 / 14 - mean, 2) + std::pow(5.0 / 14 - mean, 2) + mean * mean);
  EXPECT_NEAR(slope.standard_error, std::sqrt(squares / 11 / 12), 1e-15);
  EXPECT_NEAR(*slope.margin, kDefaultMargin / 3, 1e-15) << "over three doublings";
  EXPECT_EQ(slope.test_count, 1) << "a family of its own";
  EXPECT_EQ(slope.outcome, Outcome::kBetter);
}

// Differences that are equal at every length have no slope: the weights of 64, 128, 256 and 512 do not add up to exactly
// zero, and what is left is no evidence.
TEST_F(CompareTest, EqualDifferencesHaveNoSlope) {
  Write(db::FakeJob({.tasks = {"recall", "rag"}, .lengths = {64, 128, 256, 512}, .planned_count = 48}),
        [](const db::CellRecord& cell, int64_t i) {
          return cell.variant == "baseline" ? 0.1 : i / 4 < (cell.task == "rag" ? 9 : 7) ? 0.4 : 0.1;
        });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  ASSERT_EQ(report.contrasts.size(), 6u);
  for (const LengthContrast& row : report.contrasts) {
    EXPECT_EQ(row.difference, 0);
    EXPECT_FALSE(row.IsDecided());
    EXPECT_TRUE(row.is_variance_borrowed);
    EXPECT_GT(row.high, 0);
    EXPECT_LT(row.low, 0);
  }
}

TEST_F(CompareTest, LowerMayBeBetter) {
  db::NewJob job = db::FakeJob({.planned_count = 8});
  for (db::TaskMetricRecord& metric : job.metrics) std::swap(metric.worst_value, metric.best_value);
  Write(job, [](const db::CellRecord& cell, int64_t i) { return cell.variant == "focal" && i > 0 ? 0.0 : 1.0; });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  EXPECT_DOUBLE_EQ(report.comparisons[0].difference, -7.0 / 8);
  EXPECT_EQ(report.comparisons[0].gain_count, 7);
  EXPECT_DOUBLE_EQ(report.suite[0].difference, 7.0 / 8) << "better is positive";
  EXPECT_DOUBLE_EQ(report.suite[0].candidate_mean, 7.0 / 8);
}

// A perfect score on both sides must not have a wider interval than two lost questions.
TEST_F(CompareTest, PerfectScoresAreNotTheLeastCertain) {
  const db::NewJob job = db::FakeJob({.lengths = {1024, 4096}, .planned_count = 48});
  Write(job, [](const db::CellRecord& cell, int64_t i) {
    if (cell.context_length == 1024) return 1.0;
    return cell.variant == "focal" ? (i * 7 % 3 == 0 ? 0.0 : 1.0) : (i * 5 % 4 == 0 ? 0.0 : 1.0);
  });
  ASSIGN_OR_FAIL(auto report, CompareVariants(*reader_, job_id_, "baseline", "focal"));
  const Comparison& perfect = report.comparisons[0];
  ASSERT_EQ(perfect.context_length, 1024);
  EXPECT_EQ(perfect.difference, 0);
  EXPECT_TRUE(perfect.is_variance_borrowed);
  // The other length's answers do not cluster: 48 pairs, and one gained and one lost: se = sqrt(2) / 50.
  EXPECT_NEAR(perfect.standard_error, std::sqrt(2.0) / 50, 1e-9);
  EXPECT_LT(perfect.high - perfect.low, 0.13) << "was 0.5 by the rule of three over clusters";
  EXPECT_GT(perfect.baseline_interval->low, 0.92) << "Wilson with 48 values; 0.758 with 12 clusters as values";
  // The same variance inside the mean over tasks, which has this one task.
  EXPECT_NEAR(report.suite[0].low, perfect.low, 1e-12);
  ASSIGN_OR_FAIL(auto estimates, EstimateScores(*reader_, job_id_));
  EXPECT_NEAR(estimates[0].interval->low, perfect.baseline_interval->low, 1e-12);
}

// The adjusted p of one candidate does not depend on which candidates are asked for.
TEST_F(CompareTest, TheFamilyIsTheJobsWhateverIsAsked) {
  const db::NewJob job =
      db::FakeJob({.variants = {"baseline", "focal", "third"}, .lengths = {1024, 4096}, .planned_count = 24});
  Write(job, [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline") return 0.0;
    return (i * 7 + (cell.variant == "third")) % (cell.context_length == 1024 ? 5 : 3) == 0 ? 1.0 : 0.0;
  });
  const db::JobVariant baseline{job_id_, "baseline"}, focal{job_id_, "focal"}, other{job_id_, "third"};
  auto alone = CompareFamily(*reader_, baseline, {focal});
  auto both = CompareFamily(*reader_, baseline, {other, focal});
  ASSERT_TRUE(alone.ok() && both.ok());
  ASSERT_EQ(alone->size(), 1u);
  for (size_t i = 0; i < 2; ++i) {
    const SuiteComparison &a = alone->at(0).report.suite[i], &b = both->at(1).report.suite[i];
    EXPECT_EQ(a.candidate, "focal");
    EXPECT_EQ(a.test_count, 4) << "two candidates at two lengths";
    EXPECT_EQ(a.test_count, b.test_count);
    EXPECT_EQ(a.p_adjusted, b.p_adjusted);
    EXPECT_GE(a.p_adjusted, a.p_value);
    EXPECT_EQ(a.detectable_difference, b.detectable_difference);
  }
  EXPECT_EQ(CompareVariants(*reader_, job_id_, "baseline", "focal")->suite[0].test_count, 2) << "of the pair alone";

  // So is the one by max-t, which is never below p.
  CompareOptions options;
  options.with_max_t = true;
  const auto alone_max_t = *CompareFamily(*reader_, baseline, {focal}, options);
  const auto both_max_t = *CompareFamily(*reader_, baseline, {other, focal}, options);
  for (size_t i = 0; i < 2; ++i) {
    const SuiteComparison &a = alone_max_t[0].report.suite[i], &b = both_max_t[1].report.suite[i];
    EXPECT_TRUE(a.is_max_t);
    EXPECT_EQ(a.p_adjusted, b.p_adjusted);
    EXPECT_GE(a.p_adjusted, a.p_value);
    EXPECT_NE(a.p_adjusted, alone->at(0).report.suite[i].p_adjusted);
    EXPECT_FALSE(alone->at(0).report.suite[i].is_max_t);
    EXPECT_FALSE(alone_max_t[0].report.comparisons[i].is_max_t) << "cells are by Holm";
  }
}

}  // namespace
}  // namespace varifocal::stats
