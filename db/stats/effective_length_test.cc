// The effective context length: cases verified by hand, an independent implementation (recipes/goldens/make_statistics.py),
// the error rates of both ends of its interval on simulated scores at the threshold, and its rows from a database.
#include "db/stats/effective_length.h"

#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/random.h"
#include "db/fakes/fake_results.h"
#include "db/fakes/normal.h"
#include "db/writer.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/process.h"
#include "tests/support/read_json.h"

namespace varifocal::stats {
namespace {

// Twelve contexts of four questions, the same ones at 1K, 2K, 4K and 8K; value(length index, question).
LengthValues Values(const std::function<double(int, int)>& value) {
  LengthValues values;
  for (int length = 0; length < 4; ++length) {
    for (int i = 0; i < 48; ++i) {
      values[int64_t{1024} << length].push_back(
          {.question_id = absl::StrCat(i), .cluster = absl::StrCat(i / 4), .value = value(length, i)});
    }
  }
  return values;
}

TEST(EffectiveLength, FallsWhereTheScoreFalls) {
  // 100 %, 100 %, half, nothing: far from 85 % on either side.
  const LengthValues values = Values([](int length, int i) { return length < 2 ? 1.0 : length == 2 ? i % 2 : 0.0; });
  const EffectiveLength found = FindEffectiveLength({values}, {});
  EXPECT_EQ(found.problem, EffectiveLengthProblem::kNone);
  EXPECT_DOUBLE_EQ(found.shortest_score, 1);
  EXPECT_DOUBLE_EQ(found.threshold, 0.85);
  EXPECT_EQ(found.length, 2048);
  EXPECT_EQ(found.low, 2048);
  EXPECT_EQ(found.high, 2048);
  EXPECT_EQ(FindEffectiveLength({values}, {.share = 0.3}).length, 4096);
  EXPECT_EQ(FindEffectiveLength({values}, {.score = 0.4}).length, 4096);
}

TEST(EffectiveLength, EndsAreCensored) {
  const EffectiveLength all = FindEffectiveLength({Values([](int, int) { return 1.0; })}, {});
  EXPECT_EQ(all.length, 8192);
  EXPECT_EQ(all.low, 8192);
  EXPECT_EQ(all.high, 8192);
  const EffectiveLength none = FindEffectiveLength({Values([](int, int) { return 0.0; })}, {.score = 0.856});
  EXPECT_EQ(none.length, std::nullopt);
  EXPECT_EQ(none.low, std::nullopt);
  EXPECT_EQ(none.high, std::nullopt);
}

// A share of nothing would be reached by any score.
TEST(EffectiveLength, TheWorstScoreAtTheShortestLengthIsNoThreshold) {
  const auto tasks = {Values([](int length, int) { return length == 0 ? 0.0 : 1.0; })};
  const EffectiveLength found = FindEffectiveLength(tasks, {});
  EXPECT_EQ(found.problem, EffectiveLengthProblem::kNoScore);
  EXPECT_EQ(found.length, std::nullopt);
  EXPECT_EQ(found.high, std::nullopt);
  EXPECT_EQ(FindEffectiveLength(tasks, {.score = 0.5}).problem, EffectiveLengthProblem::kNone);
}

// A score that recovers at a longer length does not count.
TEST(EffectiveLength, EveryShorterLengthMustReachTheThreshold) {
  const EffectiveLength found =
      FindEffectiveLength({Values([](int length, int) { return length == 1 ? 0.0 : 1.0; })}, {});
  EXPECT_EQ(found.length, 1024);
  EXPECT_EQ(found.low, 1024);
  EXPECT_EQ(found.high, 8192) << "the longest length is not below the threshold, and tests go downwards from it";
}

TEST(EffectiveLength, NearTheThresholdTheIntervalIsWide) {
  // At 4K and 8K three of four contexts are right on everything, one on nothing: 75 % of twelve contexts.
  const EffectiveLength found =
      FindEffectiveLength({Values([](int length, int i) { return length < 2 || i / 4 % 4 != 0 ? 1.0 : 0.0; })}, {});
  EXPECT_EQ(found.length, 2048);
  EXPECT_EQ(found.low, 2048);
  EXPECT_EQ(found.high, 8192);
}

// From two contexts: a share of the score at the shortest length is below it whatever the score is.
TEST(EffectiveLength, AShareIsReachedAtTheShortestLength) {
  LengthValues values = Values([](int length, int i) { return length == 0 ? i % 2 : 0.0; });
  for (auto& [length, at_length] : values) at_length.resize(8);
  const EffectiveLength found = FindEffectiveLength({values}, {});
  EXPECT_EQ(found.low, 1024);
  EXPECT_GE(found.high, 1024);
  EXPECT_EQ(FindEffectiveLength({values}, {.score = 0.49}).low, std::nullopt) << "a score may be missed there";
}

TEST(EffectiveLength, OtherQuestionsAtEachLengthAreIndependent) {
  LengthValues values = Values([](int length, int) { return length < 2 ? 1.0 : 0.0; });
  for (LengthValue& value : values[4096]) value.question_id += "x";
  const EffectiveLength found = FindEffectiveLength({values, values}, {});
  EXPECT_EQ(found.length, 2048);
  EXPECT_EQ(found.high, 2048);
}

// Contexts differ widely, each with the same score at every length: certain by question, not by means. The shortest length has
// four times the contexts.
TEST(EffectiveLength, QuestionsOfALongerLengthArePairedWithTheirsAtTheShortest) {
  LengthValues values = Values([](int, int i) { return i / 4 % 2; });
  for (int i = 48; i < 192; ++i) {
    values[1024].push_back({.question_id = absl::StrCat(i), .cluster = absl::StrCat(i / 4), .value = i / 4 % 2 * 1.0});
  }
  EXPECT_EQ(FindEffectiveLength({values}, {}).low, 8192);
  for (LengthValue& value : values[8192]) value.question_id += "x";
  EXPECT_NE(FindEffectiveLength({values}, {}).low, 8192);
}

TEST(EffectiveLength, OneContextHasNoInterval) {
  LengthValues values = Values([](int, int) { return 1.0; });
  for (LengthValue& value : values[4096]) value.cluster = "0";
  for (LengthValue& value : values[1024]) value.cluster = "0";
  const EffectiveLength found = FindEffectiveLength({values}, {});
  EXPECT_EQ(found.problem, EffectiveLengthProblem::kNoInference);
  EXPECT_EQ(found.length, 8192);
  EXPECT_EQ(found.low, std::nullopt);
}

TEST(EffectiveLength, TheIndependentImplementationAgrees) {
  const Json golden = testing_support::ReadJson("tests/testdata/goldens/statistics/golden.json");
  ASSERT_GE(golden["effective_length"].size(), 12u);
  for (const Json& c : golden["effective_length"]) {
    std::vector<LengthValues> tasks;
    for (const Json& task : c["tasks"]) {
      LengthValues& values = tasks.emplace_back();
      for (size_t length = 0; length < task.size(); ++length) {
        for (size_t i = 0; i < task[length].size(); ++i) {
          values[int64_t{1024} << length].push_back(
              {absl::StrCat(i), absl::StrCat("c", i / c["cluster_size"].get<size_t>()), task[length][i].get<double>()});
        }
      }
    }
    EffectiveLengthOptions options;
    options.share = c["share"].get<double>();
    if (!c["score"].is_null()) options.score = c["score"].get<double>();
    const EffectiveLength found = FindEffectiveLength(tasks, options);
    const auto same = [](const std::optional<int64_t>& length, const Json& index) {
      return length.has_value() ? *length == int64_t{1024} << index.get<int>() : index == -1;
    };
    EXPECT_TRUE(same(found.length, c["length"])) << c.dump();
    EXPECT_TRUE(same(found.low, c["low"])) << c.dump();
    EXPECT_TRUE(same(found.high, c["high"])) << c.dump();
    EXPECT_NEAR(found.threshold, c["threshold"].get<double>(), 1e-12);
  }
}

// The worst case for an end: the score of one length is at the threshold, just on the wrong side of it.
TEST(EffectiveLength, EachEndErrsInOneOfForty) {
  Random random("effective length");
  const auto rates = [&](double at_4k, const EffectiveLengthOptions& options) {
    const double means[] = {0.75, 0.7, at_4k, 0.25};
    constexpr int kExperimentCount = 3000;
    double low = 0, high = 0;
    for (int experiment = 0; experiment < kExperimentCount; ++experiment) {
      double contexts[12];
      for (double& context : contexts) context = 0.03 * Normal(random);  // the same at every length
      const EffectiveLength found = FindEffectiveLength(
          {Values([&](int length, int i) { return means[length] + contexts[i / 4] + 0.05 * Normal(random); })},
          options);
      low += found.low.value_or(0) > 2048;
      high += found.high.value_or(0) < 4096;
    }
    return std::pair(low / kExperimentCount, high / kExperimentCount);
  };
  constexpr double kSlack = 0.0086;  // three standard errors of 2.5 % in 3,000
  for (const EffectiveLengthOptions& options : {EffectiveLengthOptions{.score = 0.5}, {.share = 2.0 / 3}}) {
    EXPECT_NEAR(rates(0.4999, options).first, 0.025, kSlack) << "too long";
    EXPECT_NEAR(rates(0.5001, options).second, 0.025, kSlack) << "too short";
  }
}

class EffectiveLengthsTest : public ::testing::Test {
 protected:
  // 24 questions on six contexts for each task and length; right unless the length is 4K or more.
  void Write(int64_t recorded_count) {
    db::NewJob job = db::FakeJob({.tasks = {"recall", "icl"}, .lengths = {1024, 4096}, .planned_count = 24});
    job_id_ = db::AddFakeJob(**db::Writer::Open(path_), job, [&](const auto& row, int64_t i, db::Outcome& outcome) {
      const bool is_right = row.cell.context_length < 4096 || row.cell.variant == "baseline";
      outcome.scores = {{"exact_match", is_right ? 1.0 : 0.0}, {"token_f1", 0.5}};
      if (!is_right && row.cell.task != "icl") db::Fail(outcome);
      return i < recorded_count;
    });
    reader_ = *db::Reader::Open(path_);
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  std::unique_ptr<db::Reader> reader_;
  int64_t job_id_ = 0;
};

TEST_F(EffectiveLengthsTest, EveryVariantTaskAndTheMean) {
  ASSERT_NO_FATAL_FAILURE(Write(24));
  ASSIGN_OR_FAIL(const auto rows, EffectiveLengths(*reader_, job_id_));
  ASSERT_EQ(rows.size(), 6u);
  for (const EffectiveLength& row : rows) {
    EXPECT_EQ(row.problem, EffectiveLengthProblem::kNone);
    EXPECT_EQ(row.length, row.variant == "baseline" ? 4096 : 1024) << row.variant << " " << row.task;
    EXPECT_EQ(row.high, row.length) << "a failed sample counts as the worst value";
  }
  EXPECT_EQ(rows[2].task, "");
}

TEST_F(EffectiveLengthsTest, UnfinishedJobsHaveNone) {
  ASSERT_NO_FATAL_FAILURE(Write(20));
  ASSIGN_OR_FAIL(const auto rows, EffectiveLengths(*reader_, job_id_));
  for (const EffectiveLength& row : rows) {
    EXPECT_EQ(row.problem, EffectiveLengthProblem::kUnfinished);
    EXPECT_EQ(row.length, std::nullopt);
  }
}

}  // namespace
}  // namespace varifocal::stats
