// Arms: which variants are replicates of each other, which are compared, and that the rows are those of InferReplicates over
// the values written. Method: jobs with known values in a database, and numbers verified by hand.
#include "db/stats/arm_table.h"

#include <cmath>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::stats {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Trained {
  std::string name, arm;
  std::optional<int64_t> seed;
  int64_t tokens = 1000, parameters = 100'000;
  std::string attention = "{}";
  std::string weights_of = "";  // another variant's; else its own
};

class ArmsTest : public ::testing::Test {
 protected:
  static constexpr int64_t kQuestions = 24;  // six contexts

  // score(variant index, question); none: failed. Only the first `answered` questions are answered.
  void Make(
      const std::vector<Trained>& variants,
      const std::function<std::optional<double>(size_t, int64_t)>& score = [](size_t, int64_t) { return 1.0; },
      int64_t answered = kQuestions) {
    const std::vector<std::string> names = NamesOf(variants);
    db::NewJob job = db::FakeJob({.variants = names, .planned_count = kQuestions});
    for (size_t i = 0; i < variants.size(); ++i) {
      db::ModelRecord& model = job.variants[i].model;
      if (!variants[i].arm.empty()) model.training_arm = variants[i].arm;
      model.training_seed = variants[i].seed;
      model.training_tokens = variants[i].tokens;
      model.parameter_count = variants[i].parameters;
      model.attention_json = variants[i].attention;
      model.weights_sha256 = Sha256Hex(variants[i].weights_of.empty() ? names[i] : variants[i].weights_of);
    }
    job.metrics[1].worst_value = job.metrics[1].best_value = std::nullopt;  // token_f1 serves as a log-likelihood
    job_id_ = db::AddFakeJob(**db::Writer::Open(path_), job, [&](const auto& cell, int64_t q, db::Outcome& outcome) {
      const size_t v = std::find(names.begin(), names.end(), cell.cell.variant) - names.begin();
      const std::optional<double> value = score(v, q);
      if (!value.has_value()) db::Fail(outcome);
      if (value.has_value()) outcome.scores = {{"exact_match", *value}, {"token_f1", *value - 5}};
      return q < answered;
    });
    table_ = *ArmTable::Read(**db::Reader::Open(path_), job_id_);
  }

  const ArmRow& Row(const std::vector<ArmComparison>& comparisons, const std::string& task, const std::string& metric) {
    for (const ArmRow& row : comparisons.front().rows) {
      if (row.measure.task == task && row.measure.metric == metric) return row;
    }
    ADD_FAILURE() << "no row of " << task << " " << metric;
    return comparisons.front().rows.front();
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  int64_t job_id_ = 0;
  ArmTable table_;
};

TEST_F(ArmsTest, FailuresAloneDecideNothing) {
  const std::vector<Trained> runs = {{"p1", "plain", 1}, {"p2", "plain", 2}, {"p3", "plain", 3}, {"p4", "plain", 4},
                                     {"f1", "focal", 1}, {"f2", "focal", 2}, {"f3", "focal", 3}, {"f4", "focal", 4}};
  // Equal answers, and the candidate's runs fail on two of each four questions.
  Make(runs, [](size_t v, int64_t q) -> std::optional<double> {
    if (v >= 4 && q % 4 < 2) return std::nullopt;
    return q % 4 < 2 || (q + static_cast<int64_t>(v)) % 3 != 0 ? 1.0 : 0.0;
  });
  const ArmRow row = Row(*table_.Compare("plain", "focal", {}), "", "");
  EXPECT_NEAR(row.difference, -0.5, 0.1);
  EXPECT_LT(row.p_adjusted, 0.05);
  EXPECT_TRUE(row.failures_decide);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
  // Where the answers differ as well, some failures change nothing.
  Make(runs, [](size_t v, int64_t q) -> std::optional<double> {
    if (v == 5 && q == 7) return std::nullopt;
    return v < 4 || (q + static_cast<int64_t>(v)) % 12 == 0 ? 1.0 : 0.0;
  });
  const ArmRow worse = Row(*table_.Compare("plain", "focal", {}), "", "");
  EXPECT_FALSE(worse.failures_decide);
  EXPECT_EQ(worse.outcome, Outcome::kWorse);
}

std::vector<std::string> Labels(const Arms& arms) {
  std::vector<std::string> labels;
  for (const Arm& arm : arms.arms) labels.push_back(arm.Label());
  return labels;
}

TEST_F(ArmsTest, RunsThatDifferInTheirSeedAloneAreOneArm) {
  Make({{"b-2", "plain", 2},
        {"b-1", "plain", 1},
        {"f-1", "focal", 1, 1000, 100'000, R"({"focal_attention":{"mode":"constant","temperature":0.4}})"},
        {"f-long", "focal", 1, 4000, 100'000, R"({"focal_attention":{"mode":"constant","temperature":0.4}})"},
        {"f-1@t=0.7", "focal", 1},
        {"alone", "", 5},
        {"unseeded", "plain", std::nullopt},
        {"b-1-copy", "plain", 1, 1000, 100'000, "{}", "b-1"}});
  EXPECT_THAT(Labels(table_.arms()), ElementsAre("plain, 100000 parameters, 1000 tokens, 2 seeds",
                                                 "focal, 100000 parameters, 1000 tokens, 1 seed",
                                                 "focal, 100000 parameters, 4000 tokens, 1 seed",
                                                 "focal@t=0.7, 100000 parameters, 1000 tokens, 1 seed"));
  EXPECT_EQ(table_.arms().arms[0].runs[0].variant, "b-1") << "by seed";
  ASSERT_EQ(table_.arms().notes.size(), 2u);
  EXPECT_THAT(table_.arms().notes[0], Message("unseeded", "plain"));
  EXPECT_THAT(table_.arms().notes[1], Message("b-1-copy", 1, "b-1"));
}

// One of them may have been changed after its training.
TEST_F(ArmsTest, OneSeedWithTwoWeightsIsInNoArm) {
  Make({{"changed", "plain", 1}, {"b-1", "plain", 1}, {"b-2", "plain", 2}, {"f-1", "focal", 3}, {"g-1", "focal", 3}});
  EXPECT_THAT(Labels(table_.arms()), ElementsAre("plain, 100000 parameters, 1000 tokens, 1 seed"));
  EXPECT_EQ(table_.arms().arms[0].runs[0].variant, "b-2");
  ASSERT_EQ(table_.arms().notes.size(), 2u);
  EXPECT_THAT(table_.arms().notes[0], Message("b-1", "changed", 1));
  EXPECT_THAT(table_.arms().notes[1], Message("g-1", "f-1", 3));
}

const std::vector<Trained> kThreeSeeds = {{"p1", "plain", 1}, {"p2", "plain", 2}, {"p3", "plain", 3},
                                          {"f1", "focal", 1}, {"f2", "focal", 2}, {"f3", "focal", 3}};

// Question q of variant v: the first half of the plain runs' answers are right; focal's seed s is right in 3 s more.
std::optional<double> Right(size_t v, int64_t q) {
  const int64_t right = v < 3 ? 12 : 12 + 3 * static_cast<int64_t>(v - 2);
  return q < right ? 1.0 : 0.0;
}

TEST_F(ArmsTest, PairedSeedsAreComparedOverSeedsAndContexts) {
  Make(kThreeSeeds, Right);
  const auto comparisons = *table_.Compare("plain", "focal", {});
  ASSERT_EQ(comparisons.size(), 1u);
  EXPECT_TRUE(comparisons[0].is_paired);
  EXPECT_THAT(comparisons[0].left_out_seeds, IsEmpty());
  const ArmRow& suite = Row(comparisons, "", "");
  EXPECT_DOUBLE_EQ(suite.baseline_mean, 0.5);
  EXPECT_DOUBLE_EQ(suite.candidate_mean, 0.75);
  EXPECT_DOUBLE_EQ(suite.difference, 0.25);  // seeds: 0.125, 0.25, 0.375
  EXPECT_TRUE(suite.is_over_seeds && suite.can_infer);
  EXPECT_EQ(suite.value_count, kQuestions);
  EXPECT_EQ(suite.cluster_count, 6);
  // The seeds' part: sd 0.125 over sqrt(3).
  EXPECT_NEAR(suite.seed_share * suite.standard_error * suite.standard_error, 0.125 * 0.125 / 3, 1e-12);
  EXPECT_EQ(suite.sign_flip.p_value, 0.25) << "2 of 8 assignments of signs to three seeds of one sign";
  EXPECT_EQ(suite.p_sign_flip_min, 0.25);
  EXPECT_EQ(suite.test_count, 1);
  EXPECT_EQ(suite.margin, 0.03);
  // The interval is wider than that of the same answers with the seeds left out.
  ReplicatedTask task{{}, 1, 4};
  ReplicateGroup group{1, {{{}}}};
  for (int64_t q = 0; q < kQuestions; ++q) {
    double sum = 0;
    for (size_t v = 3; v < 6; ++v) sum += *Right(v, q) - *Right(0, q);
    task.clusters.push_back(absl::StrCat(q / 4));
    group.values[0][0].push_back(sum / 3);
  }
  EXPECT_GT(suite.high - suite.low, 1.1 * (InferReplicates({task}, {group}, {}).high - suite.difference) * 2);
  const ArmRow& unbounded = Row(comparisons, "recall", "token_f1");
  EXPECT_EQ(unbounded.margin, std::nullopt);
  EXPECT_NEAR(unbounded.difference, 0.25, 1e-12);
  EXPECT_EQ(suite.low > 0, suite.p_value < 0.05);
}

TEST_F(ArmsTest, FewSeedsInCommonAreComparedUnpairedAndManyArePaired) {
  std::vector<Trained> variants = kThreeSeeds;
  for (size_t v = 3; v < 6; ++v) variants[v].seed = static_cast<int64_t>(v + 4);  // 7, 8, 9
  Make(variants, Right);
  auto comparisons = *table_.Compare("plain", "focal", {});
  EXPECT_FALSE(comparisons[0].is_paired);
  const ArmRow& row = Row(comparisons, "", "");
  EXPECT_DOUBLE_EQ(row.difference, 0.25);
  EXPECT_EQ(row.sign_flip.test, "permutation_exact");
  EXPECT_EQ(row.sign_flip.p_value, 0.1) << "2 of 20 divisions";
  path_ = directory_.File("partly.db");
  variants = kThreeSeeds;
  variants[5].seed = 9;
  Make(variants, Right);
  comparisons = *table_.Compare("plain", "focal", {});
  EXPECT_TRUE(comparisons[0].is_paired);
  EXPECT_THAT(comparisons[0].left_out_seeds, ElementsAre(3, 9));
  EXPECT_DOUBLE_EQ(Row(comparisons, "", "").difference, (0.125 + 0.25) / 2);
}

TEST_F(ArmsTest, OneRunAnArmHasADifferenceAndNoInference) {
  Make({kThreeSeeds[0], kThreeSeeds[3]}, [](size_t v, int64_t q) { return Right(v == 0 ? 0 : 5, q); });
  const auto comparisons = *table_.Compare("plain", "focal", {});
  EXPECT_FALSE(comparisons[0].IsOverSeeds());
  const ArmRow& row = Row(comparisons, "", "");
  EXPECT_DOUBLE_EQ(row.difference, 0.375);
  EXPECT_FALSE(row.can_infer);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
}

TEST_F(ArmsTest, FailuresCountAsTheWorstValueOrAreLeftOutWhereThereIsNone) {
  Make(kThreeSeeds, [](size_t v, int64_t q) { return v == 4 && q == 0 ? std::nullopt : Right(v, q); });
  const auto comparisons = *table_.Compare("plain", "focal", {});
  const ArmRow& suite = Row(comparisons, "", "");
  EXPECT_EQ(suite.counts.failed_count, 1);
  EXPECT_NEAR(suite.candidate_mean, 0.75 - 1.0 / (3 * kQuestions), 1e-12);
  const ArmRow& unbounded = Row(comparisons, "recall", "token_f1");
  EXPECT_EQ(unbounded.value_count, kQuestions - 1) << "for every run";
  EXPECT_FALSE(suite.is_unfinished);
}

TEST_F(ArmsTest, AnUnfinishedJobHasNoOutcome) {
  Make(
      kThreeSeeds, [](size_t v, int64_t) { return v < 3 ? 0.0 : 1.0; }, kQuestions - 4);
  const auto comparisons = *table_.Compare("plain", "focal", {});
  const ArmRow& row = Row(comparisons, "", "");
  EXPECT_TRUE(row.is_unfinished);
  EXPECT_EQ(row.outcome, Outcome::kUndecided);
  EXPECT_EQ(row.difference, 1);
}

TEST_F(ArmsTest, TheFamilyIsEveryOtherArm) {
  std::vector<Trained> variants = kThreeSeeds;
  for (int64_t seed = 1; seed <= 3; ++seed)
    variants.push_back({absl::StrCat("l", seed), "learned", seed, 1000, 100'516});
  Make(variants, [](size_t v, int64_t q) { return Right(v % 6, q); });
  const auto focal = *table_.Compare("plain", "focal", {}), learned = *table_.Compare("plain", "learned", {});
  EXPECT_EQ(Row(focal, "", "").test_count, 2);
  EXPECT_EQ(Row(learned, "", "").test_count, 2) << "a learned temperature adds parameters and stays comparable";
  EXPECT_GE(Row(focal, "", "").p_adjusted, Row(focal, "", "").p_value);
}

TEST_F(ArmsTest, PointsAreComparedWhereBothArmsHaveThem) {
  std::vector<Trained> variants;
  for (const char* arm : {"plain", "focal"}) {
    for (int64_t tokens : {1000, 2000, 4000}) {
      if (arm[0] == 'p' && tokens == 4000) continue;
      for (int64_t seed : {1, 2}) variants.push_back({absl::StrCat(arm, seed, "-", tokens), arm, seed, tokens});
    }
  }
  Make(variants);
  const auto comparisons = *table_.Compare("plain", "focal", {});
  ASSERT_EQ(comparisons.size(), 2u);
  EXPECT_EQ(comparisons[1].candidate.first.model.training_tokens, 2000);
  EXPECT_EQ(comparisons[1].rows[0].test_count, 2) << "both points are one family";
}

TEST_F(ArmsTest, MistakesAreNamed) {
  Make({{"p1", "plain", 1},
        {"p2", "plain", 2},
        {"f1", "focal", 1, 3000},
        {"x1", "x", 1},
        {"x2", "x", 2, 1000, 100'000, R"({"log_n_attention":{"mode":"learned"}})"}});
  EXPECT_THAT(table_.Compare("plain", "foca", {}).status().message(), Message("\"foca\"", "plain", "focal", "x"));
  EXPECT_THAT(table_.Compare("plain", "plain", {}).status().message(), Message("plain"));
  EXPECT_THAT(table_.Compare("plain", "focal", {}).status().message(),
              Message("plain", 1000, "2 seeds", "focal", 3000, "1 seed"));
  EXPECT_THAT(table_.Compare("plain", "x", {}).status().message(), Message("x", "plain", 100000, 1000, "x1", "x2"));
  path_ = directory_.File("none.db");
  Make({{"a", "", 1}, {"b", "", 2}});
  EXPECT_THAT(table_.Compare("a", "b", {}).status().message(), Message());
}

TEST_F(ArmsTest, MeansHaveIntervalsOverSeedsAndContexts) {
  Make(kThreeSeeds, Right);
  const Arm& plain = table_.arms().arms[0];
  const Arm& focal = table_.arms().arms[1];
  const ArmMeasure& suite = table_.measures().front();
  const auto of_plain = table_.MeanOf(plain, suite, 1024, 0.95), of_focal = table_.MeanOf(focal, suite, 1024, 0.95);
  EXPECT_DOUBLE_EQ(of_plain->difference, 0.5);
  EXPECT_EQ(of_plain->seed_share, 0) << "equal seeds";
  EXPECT_DOUBLE_EQ(of_focal->difference, 0.75);
  EXPECT_GT(of_focal->seed_share, 0);
  EXPECT_GE(of_focal->low, 0);
  EXPECT_LE(of_focal->high, 1);
  EXPECT_THAT(table_.RunMeans(focal.runs, suite, 1024), ElementsAre(0.625, 0.75, 0.875));
  EXPECT_THAT(table_.RunMeans(focal.runs, suite, 2048), IsEmpty());
}

// A cell without spread borrows the design effect of the task and metric over all lengths, as variants do: here that of 1K,
// where one question of every context gains, is 1; the cell's own largest would be 4.
TEST_F(ArmsTest, DesignEffectsAreThoseOverAllLengths) {
  db::NewJob job =
      db::FakeJob({.variants = {"p1", "p2", "f1", "f2"}, .lengths = {1024, 2048}, .planned_count = kQuestions});
  for (size_t i = 0; i < job.variants.size(); ++i) {
    db::ModelRecord& model = job.variants[i].model;
    model.training_arm = i < 2 ? "plain" : "focal";
    model.training_seed = i % 2;
    model.training_tokens = 1000;
    model.parameter_count = 100'000;
  }
  job_id_ = db::AddFakeJob(**db::Writer::Open(path_), job, [&](const auto& cell, int64_t q, db::Outcome& outcome) {
    const bool gains = cell.cell.variant[0] == 'f' && cell.cell.context_length == 1024 && q % 4 == 0;
    outcome.scores = {{"exact_match", gains ? 1.0 : 0.0}, {"token_f1", 0.0}};
    return true;
  });
  table_ = *ArmTable::Read(**db::Reader::Open(path_), job_id_);
  const auto comparisons = table_.Compare("plain", "focal", {});
  ASSERT_TRUE(comparisons.ok()) << comparisons.status();
  int count = 0;
  for (const ArmRow& row : comparisons->front().rows) {
    if (row.measure.metric != "exact_match" || row.context_length != 2048) continue;
    ++count;
    // One pair gained and one lost are added to 24: sqrt(2 * design effect) / 26.
    EXPECT_NEAR(row.standard_error, std::sqrt(2.0) / 26, 1e-12);
  }
  EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace varifocal::stats
