// Which lengths a job tested, from prompts written with known counts and hashes; and rows of reports by them.
#include "db/stats/tested_lengths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/sha256.h"
#include "db/fakes/fake_results.h"
#include "db/stats/effective_length.h"
#include "db/stats/estimates.h"
#include "db/stats/family.h"
#include "db/writer.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/process.h"

namespace varifocal::stats {
namespace {

using testing::ElementsAre;

struct FakePrompt {
  std::string text;  // its hash; a prompt without one could not be made
  int64_t tokens = 0;
};

class TestedLengthsTest : public testing::Test {
 protected:
  // A job of two variants; `prompt_of` by task, length and index.
  void Write(const db::FakeJobOptions& options,
             const std::function<FakePrompt(const std::string&, int64_t, int64_t)>& prompt_of,
             std::map<int64_t, int64_t> answered = {}) {
    FakeClock clock(1);
    ASSIGN_OR_FAIL(const auto writer, db::Writer::Open(path_, clock));
    const db::NewJob job = db::FakeJob(options);
    db::AddFakeJob(*writer, job, [&](const db::CellRow& cell, int64_t i, db::Outcome& outcome) {
      const int64_t length = cell.cell.context_length;
      const FakePrompt prompt = prompt_of(cell.cell.task, length, i);
      outcome.sample.token_ids_sha256 = Sha256Hex(prompt.text);
      outcome.sample.prompt_token_count = prompt.tokens;
      if (prompt.text.empty()) outcome.sample.token_ids_sha256 = std::nullopt;
      if (prompt.text.empty()) outcome.sample.prompt_token_count = std::nullopt;
      return !answered.contains(length) || i < answered[length];
    });
    ASSIGN_OR_FAIL(reader_, db::Reader::Open(path_));
    ASSIGN_OR_FAIL(tested_, TestedLengths::Read(*reader_, 1));
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("tested_lengths.db");
  std::unique_ptr<db::Reader> reader_;
  TestedLengths tested_;
};

// Rows of a file are asked with the same prompts at every length: one test, named by its tokens, counted once by Holm.
TEST_F(TestedLengthsTest, EqualPromptsAreOneTest) {
  Write({.tasks = {"rows"}, .lengths = {8192, 16384, 32768}, .planned_count = 24},
        [](const std::string&, int64_t, int64_t i) {
          return FakePrompt{absl::StrCat("row ", i), 7 + i % 2};
        });
  EXPECT_EQ(tested_.Of("rows", 8192), 8);
  EXPECT_EQ(tested_.Of("rows", 16384), std::nullopt);
  EXPECT_EQ(tested_.Of("rows", 32768), std::nullopt);
  const TestedLength test = tested_.At("rows", 8);
  EXPECT_FALSE(test.is_reached);
  EXPECT_EQ(test.tokens_min, 7);
  EXPECT_EQ(test.tokens_max, 8);
  EXPECT_THAT(test.nominal, ElementsAre(8192, 16384, 32768));
  ASSIGN_OR_FAIL(const auto family, CompareFamily(*reader_, {1, "baseline"}, {{1, "focal"}}));
  const ComparisonReport& report = family[0].report;
  ASSERT_EQ(report.suite.size(), 1u);
  EXPECT_EQ(report.suite[0].context_length, 8);
  EXPECT_EQ(report.suite[0].test_count, 1) << "not once for each length";
  EXPECT_EQ(report.comparisons.size(), 2u) << "two metrics";
  EXPECT_TRUE(report.contrasts.empty()) << "one length has no change";
  EXPECT_EQ(EstimateScores(*reader_, 1)->size(), 4u) << "two variants and metrics";
  EXPECT_TRUE(EffectiveLengths(*reader_, 1)->empty());
}

// RULER's rows fall short of their label by upstream's own rule: its scores are by label, and the tokens are still shown.
TEST_F(TestedLengthsTest, RulersLengthsAreLabels) {
  Write({.tasks = {"niah_single_2"}, .metric = "ruler/string_match_all", .lengths = {1024, 4096}, .planned_count = 24},
        [](const std::string&, int64_t length, int64_t i) {
          return FakePrompt{absl::StrCat(length, " ", i), length == 1024 ? 430 : 3489};
        });
  EXPECT_EQ(tested_.Of("niah_single_2", 1024), 1024);
  EXPECT_TRUE(tested_.At("niah_single_2", 1024).is_reached);
  ASSERT_EQ(tested_.NotFilled().size(), 1u);
  EXPECT_EQ(tested_.NotFilled()[0].second.tokens_max, 430);
}

// Prompts of 3K at 8K are a test at 3K; at 1K they were truncated and reach it.
TEST_F(TestedLengthsTest, PartlyReachedLengthsAreNamedByTheirPrompts) {
  Write({.tasks = {"rows"}, .lengths = {1024, 8192, 16384}, .planned_count = 12},
        [](const std::string&, int64_t length, int64_t i) {
          return length == 1024 ? FakePrompt{absl::StrCat("cut ", i), 1010}
                                : FakePrompt{absl::StrCat("row ", i), 2950 + 10 * i};
        });
  EXPECT_EQ(tested_.Of("rows", 1024), 1024);
  EXPECT_EQ(tested_.Of("rows", 8192), 3060);
  EXPECT_EQ(tested_.Of("rows", 16384), std::nullopt);
  ASSIGN_OR_FAIL(const auto lengths, EffectiveLengths(*reader_, 1));
  for (const EffectiveLength& row : lengths) EXPECT_THAT(row.tested, ElementsAre(1024, 3060));
}

// 9,000 tokens at 12,000 reach it (three quarters, tokens to generate included), 8,990 do not.
TEST_F(TestedLengthsTest, ThreeQuartersReachALength) {
  Write({.tasks = {"near", "short"}, .lengths = {12000}, .planned_count = 4},
        [](const std::string& task, int64_t, int64_t i) {
          return FakePrompt{absl::StrCat(task, i), task == "near" ? 8992 : 8982};  // and 8 to generate
        });
  EXPECT_EQ(tested_.Of("near", 12000), 12000);
  EXPECT_TRUE(tested_.At("near", 12000).is_reached);
  EXPECT_EQ(tested_.Of("short", 12000), 8982);
}

// One long row among 39 short ones does not make a length; half of the rows do.
TEST_F(TestedLengthsTest, HalfOfThePromptsReachALength) {
  Write({.tasks = {"few", "half"}, .lengths = {256}, .planned_count = 40},
        [](const std::string& task, int64_t, int64_t i) {
          return FakePrompt{absl::StrCat(task, i), i < (task == "half" ? 20 : 19) ? 205 : 5 + i % 6};
        });
  EXPECT_EQ(tested_.Of("half", 256), 256);
  EXPECT_EQ(tested_.Of("few", 256), 205);
  const TestedLength test = tested_.At("few", 205);
  EXPECT_FALSE(test.is_reached);
  EXPECT_TRUE(test.HasReaching());
  EXPECT_FALSE(test.IsFilled());
  EXPECT_EQ(test.tokens_min, 5);
}

// Tasks that fill their lengths keep them; the mean over tasks at 8K is over those that reach it.
TEST_F(TestedLengthsTest, AMeanIsOverTheTasksThatReachTheLength) {
  Write({.tasks = {"long", "rows_a", "rows_b"}, .lengths = {4096, 8192}, .planned_count = 12},
        [](const std::string& task, int64_t length, int64_t i) {
          if (task == "long") return FakePrompt{absl::StrCat(task, length, i), length - 16};
          return FakePrompt{absl::StrCat(task, i), task == "rows_a" ? 20 : 300};
        });
  ASSIGN_OR_FAIL(const auto family, CompareFamily(*reader_, {1, "baseline"}, {{1, "focal"}}));
  std::map<int64_t, int64_t> tasks_at;
  for (const SuiteComparison& row : family[0].report.suite) tasks_at[row.context_length] = row.planned_task_count;
  EXPECT_EQ(tasks_at, (std::map<int64_t, int64_t>{{300, 2}, {4096, 1}, {8192, 1}}));
  EXPECT_EQ(tested_.At("", 300).tokens_min, 20);
  EXPECT_EQ(tested_.At("", 300).tokens_max, 300);
  EXPECT_EQ(tested_.At("rows_a", 300).Tokens(), 20);
}

// A length that no prompt reaches may have as many tokens as another length: both keep a name of their own.
TEST_F(TestedLengthsTest, NoTwoTestsHaveOneName) {
  Write({.tasks = {"rows"}, .lengths = {1024, 8192}, .planned_count = 4},
        [](const std::string&, int64_t length, int64_t i) {
          return FakePrompt{absl::StrCat(length, i), 1024};
        });
  EXPECT_EQ(tested_.Of("rows", 1024), 1024);
  EXPECT_EQ(tested_.Of("rows", 8192), 1025);
  EXPECT_EQ(tested_.At("rows", 1025).Tokens(), 1024);
}

// Where some prompts are the same and others are not, the tests are two; in a running job the prompts so far decide.
TEST_F(TestedLengthsTest, SomeEqualPromptsAreTwoTests) {
  Write({.tasks = {"rows"}, .lengths = {4096, 8192}, .planned_count = 8},
        [](const std::string&, int64_t length, int64_t i) {
          return i == 0 ? FakePrompt{absl::StrCat("cut at ", length), 4000} : FakePrompt{absl::StrCat(i), 3100};
        });
  EXPECT_EQ(tested_.Of("rows", 4096), 4096);
  EXPECT_EQ(tested_.Of("rows", 8192), 4000);
}

// A prompt that could not be made at one length is not another question there.
TEST_F(TestedLengthsTest, APromptThatFailedAtOneLengthMakesNoTest) {
  Write({.tasks = {"rows"}, .lengths = {4096, 8192}, .planned_count = 8},
        [](const std::string&, int64_t length, int64_t i) {
          return FakePrompt{length == 4096 && i == 0 ? "" : absl::StrCat(i), 3000};
        });
  EXPECT_EQ(tested_.Of("rows", 4096), 3000);
  EXPECT_EQ(tested_.Of("rows", 8192), std::nullopt);
}

TEST_F(TestedLengthsTest, ARunningJobIsReadByWhatIsThere) {
  Write({.tasks = {"rows"}, .lengths = {1024, 2048, 4096}, .planned_count = 8},
        [](const std::string&, int64_t, int64_t i) {
          return FakePrompt{absl::StrCat(i), 900};
        },
        {{1024, 8}, {2048, 3}, {4096, 0}});
  EXPECT_EQ(tested_.Of("rows", 1024), 1024);
  EXPECT_EQ(tested_.Of("rows", 2048), std::nullopt) << "its three prompts are the first three";
  EXPECT_EQ(tested_.Of("rows", 4096), 4096) << "nothing is known of it yet";
  EXPECT_EQ(tested_.Of("other", 4096), 4096);
}

}  // namespace
}  // namespace varifocal::stats
