// The comparison table: fields a person can check on a small job in a real database, failures and gaps flagged, the
// suite mean and the contrast of lengths, and the rate of false alarms. Method: hand-made scores; simulated null
// experiments, with the row-wise test as the control that must fail.
#include "db/stats/compare.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "db/fakes/fake_results.h"
#include "db/stats/estimates.h"
#include "db/stats/null_simulation.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::stats {
namespace {

using ::testing::HasSubstr;

class CompareTest : public ::testing::Test {
 protected:
  // One sample per cell and index; `score` gives exact_match, token_f1 is half of it, nothing is a failure.
  using Score = std::function<std::optional<double>(const db::CellRecord&, int64_t)>;
  void Write(const db::NewJob& job, const Score& score, int64_t recorded_count = 1'000'000) {
    auto writer = *db::Writer::Open(path_);
    const int64_t execution_id = *writer->AddExecution(db::FakeExecution());
    job_id_ = writer->AddJob(job)->job_id;
    const std::vector<db::CellRow> cells = *writer->Cells(job_id_);
    for (const db::CellRow& row : cells) {
      for (int64_t i = 0; i < std::min(recorded_count, row.cell.planned_count); ++i) {
        const std::optional<double> value = score(row.cell, i);
        db::Outcome outcome =
            value.has_value() ? db::FakeOutcome(row, job, execution_id, i) : db::FakeFailure(row, job, execution_id, i);
        if (value.has_value()) outcome.scores = {{"exact_match", *value}, {"token_f1", *value / 2}};
        ASSERT_TRUE(writer->RecordSample(outcome).ok());
      }
    }
    writer.reset();
    reader_ = *db::Reader::Open(path_);
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  std::unique_ptr<db::Reader> reader_;
  int64_t job_id_ = 0;
};

TEST_F(CompareTest, OneCellByHand) {
  // Six clusters of four. Baseline right on question 0 of each; focal on 0 and 1, and in cluster 5 on none.
  Write(db::FakeJob({.planned_count = 24}), [](const db::CellRecord& cell, int64_t i) {
    if (cell.variant == "baseline") return i % 4 == 0 ? 1.0 : 0.0;
    return i < 20 && i % 4 < 2 ? 1.0 : 0.0;
  });
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->comparisons.size(), 2u);
  const Comparison& row = report->comparisons[0];
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
  // Cluster differences +1/4 five times, -1/4 once: mean 1/6, sd sqrt(6/5 * (1/16 - 1/36)) = 0.204124, over sqrt(6)
  // 0.0833333; t(0.975, 5) = 2.570582.
  EXPECT_NEAR(row.low, 1.0 / 6 - 2.570582 * 0.08333333, 1e-6);
  EXPECT_NEAR(row.high, 1.0 / 6 + 2.570582 * 0.08333333, 1e-6);
  // |sum| = 4 of 6: sums 4 and 6 in either direction, (6 + 1) * 2 / 64.
  EXPECT_DOUBLE_EQ(row.p_value, 14.0 / 64);
  EXPECT_EQ(row.test, "sign_flip_exact");
  EXPECT_EQ(row.draws, 64);
  // t(0.975, 5) + t(0.8, 5) = 2.570582 + 0.919544
  EXPECT_NEAR(*row.detectable_difference, (2.570582 + 0.919544) * 0.08333333, 1e-6);
  EXPECT_LE(row.baseline_interval.low, 0.25);
  EXPECT_GE(row.baseline_interval.high, 0.25);

  const Comparison& f1 = report->comparisons[1];
  EXPECT_EQ(f1.metric, "token_f1");
  EXPECT_FALSE(f1.is_primary_metric);
  EXPECT_DOUBLE_EQ(f1.difference, 2.0 / 24);

  ASSERT_EQ(report->suite.size(), 1u);
  EXPECT_DOUBLE_EQ(report->suite[0].difference, row.difference) << "one task: the suite is the task";
  EXPECT_NEAR(report->suite[0].low, row.low, 1e-12);
  EXPECT_EQ(report->suite[0].p_value, row.p_value);
  EXPECT_TRUE(report->contrasts.empty());
  EXPECT_FALSE(report->is_incomplete);
}

TEST_F(CompareTest, FailuresCountAsWorstAndSayIncomplete) {
  Write(db::FakeJob({.planned_count = 24}), [](const db::CellRecord& cell, int64_t i) -> std::optional<double> {
    if (cell.variant == "focal" && i < 6) return std::nullopt;
    return 1.0;
  });
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok()) << report.status();
  const Comparison& row = report->comparisons[0];
  EXPECT_EQ(row.sample_count, 24);
  EXPECT_EQ(row.failed_count, 6);
  EXPECT_DOUBLE_EQ(row.difference, -0.25);
  EXPECT_TRUE(row.is_incomplete);
  EXPECT_TRUE(report->suite[0].is_incomplete);
  EXPECT_TRUE(report->is_incomplete);

  auto estimates = EstimateScores(*reader_, job_id_);
  ASSERT_TRUE(estimates.ok()) << estimates.status();
  const Estimate& focal = (*estimates)[2];
  EXPECT_EQ(focal.variant, "focal");
  EXPECT_DOUBLE_EQ(*focal.mean, 0.75);
  EXPECT_DOUBLE_EQ(*focal.mean_answered, 1.0);
  EXPECT_TRUE(focal.is_incomplete);
  EXPECT_EQ(focal.cluster_count, 6);
}

TEST_F(CompareTest, MissingSamplesSayIncomplete) {
  Write(
      db::FakeJob({.planned_count = 24}), [](const db::CellRecord&, int64_t) { return 1.0; }, 20);
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->comparisons[0].sample_count, 20);
  EXPECT_EQ(report->comparisons[0].planned_count, 24);
  EXPECT_TRUE(report->is_incomplete);
  // Nothing differs: the rule of three over five clusters, and p = 1.
  EXPECT_EQ(report->comparisons[0].difference, 0);
  EXPECT_NEAR(report->comparisons[0].high, -std::log(0.05) / 5, 1e-12);
  EXPECT_EQ(report->comparisons[0].p_value, 1);
  EXPECT_EQ(report->comparisons[0].detectable_difference, std::nullopt);
}

TEST_F(CompareTest, RefusesWhatCannotBeCompared) {
  Write(
      db::FakeJob({.planned_count = 4}), [](const db::CellRecord&, int64_t) { return 1.0; }, 0);
  EXPECT_EQ(CompareVariants(*reader_, job_id_, "focal", "focal").status().code(), absl::StatusCode::kInvalidArgument);
  absl::Status unknown = CompareVariants(*reader_, job_id_, "baseline", "focus").status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(unknown.message(), HasSubstr("baseline, focal"));
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
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->suite.size(), 2u);
  EXPECT_EQ(report->suite[0].context_length, 1024);
  EXPECT_EQ(report->suite[0].difference, 0);
  EXPECT_EQ(report->suite[0].p_holm, 1);
  const SuiteComparison& at_4k = report->suite[1];
  EXPECT_EQ(at_4k.task_count, 2);
  EXPECT_EQ(at_4k.cluster_count, 24);
  EXPECT_EQ(at_4k.sample_count, 96);
  EXPECT_NEAR(at_4k.difference, (20.0 / 48 + 10.0 / 48) / 2, 1e-15);
  EXPECT_EQ(at_4k.test, "sign_flip_exact") << "twenty clusters differ, four do not";
  EXPECT_DOUBLE_EQ(at_4k.p_value, 2.0 / (1 << 20));
  EXPECT_DOUBLE_EQ(at_4k.p_holm, 4.0 / (1 << 20)) << "two lengths";
  EXPECT_GT(at_4k.low, 0);

  ASSERT_EQ(report->contrasts.size(), 3u);
  EXPECT_EQ(report->contrasts[0].task, "icl");
  EXPECT_EQ(report->contrasts[0].short_length, 1024);
  EXPECT_EQ(report->contrasts[0].long_length, 4096);
  EXPECT_EQ(report->contrasts[0].question_count, 48);
  EXPECT_EQ(report->contrasts[0].cluster_count, 12);
  EXPECT_DOUBLE_EQ(report->contrasts[0].contrast, 20.0 / 48);
  EXPECT_DOUBLE_EQ(report->contrasts[0].p_value, 2.0 / 1024);
  EXPECT_EQ(report->contrasts[2].task, "");
  EXPECT_NEAR(report->contrasts[2].contrast, 15.0 / 48, 1e-15);
  EXPECT_NEAR(report->contrasts[2].long_difference, 15.0 / 48, 1e-15);
  EXPECT_EQ(report->contrasts[2].short_difference, 0);
}

TEST_F(CompareTest, LowerMayBeBetter) {
  db::NewJob job = db::FakeJob({.planned_count = 8});
  for (db::TaskMetricRecord& metric : job.metrics) std::swap(metric.worst_value, metric.best_value);
  Write(job, [](const db::CellRecord& cell, int64_t i) { return cell.variant == "focal" && i > 0 ? 0.0 : 1.0; });
  auto report = CompareVariants(*reader_, job_id_, "baseline", "focal");
  ASSERT_TRUE(report.ok());
  EXPECT_DOUBLE_EQ(report->comparisons[0].difference, -7.0 / 8);
  EXPECT_EQ(report->comparisons[0].gain_count, 7);
  EXPECT_DOUBLE_EQ(report->suite[0].difference, 7.0 / 8) << "better is positive";
  EXPECT_DOUBLE_EQ(report->suite[0].candidate_mean, 7.0 / 8);
}

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
  EXPECT_EQ(row->p_value, 1) << "one cluster cannot be evidence";
}

// Nominal 5 %. 4,000 experiments: one standard error of a true rate of 5 % is 0.34 points, so a true rate between 4 and
// 6 % shows between 3 and 7 % with three of them to spare. `null_rates` measures it to 0.15.
TEST(Compare, FalseAlarmsKeepTheirLevelAndRowsDoNot) {
  for (double correlation : {0.0, 0.5, 0.9}) {
    const NullRates rates = SimulateNull({.correlation = correlation}, 4000, 999, 11);
    EXPECT_GT(rates.sign_flip, 0.03) << correlation;
    EXPECT_LT(rates.sign_flip, 0.07) << correlation;
    EXPECT_GT(rates.interval, 0.03) << correlation;
    EXPECT_LT(rates.interval, 0.07) << correlation;
  }
  // The control: rows taken for independent.
  EXPECT_GT(SimulateNull({.correlation = 0.5, .ignore_clusters = true}, 1000, 999, 11).sign_flip, 0.12);
}

}  // namespace
}  // namespace varifocal::stats
