// The one value of a question with several answers. Method: exact fractions and the published numpy code for pass@k
// (recipes/goldens/make_epochs.py), cases by hand for the majority; then a database of 3 answers to each of 8 questions, read as
// questions, as pairs within a job and across jobs, with failed and missing answers one at a time.
#include "db/epochs.h"

#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "db/fakes/fake_results.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/compare.h"
#include "db/stats/estimates.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/read_json.h"

namespace varifocal::db {
namespace {

using ::testing::ElementsAre;

constexpr EpochStatistic kMean{EpochStatistic::Kind::kMean};
constexpr EpochStatistic kMajority{EpochStatistic::Kind::kMajority};
EpochStatistic PassAt(int64_t k) { return {EpochStatistic::Kind::kPass, k}; }

std::vector<EpochValue> Values(const std::vector<double>& values) {
  std::vector<EpochValue> answers;
  for (const double value : values) answers.push_back({value, false, ""});
  return answers;
}

Json Golden() { return testing_support::ReadJson("tests/testdata/goldens/epochs/golden.json"); }

TEST(Epochs, PassAtKIsTheExactFraction) {
  int64_t case_count = 0;
  const Json golden = Golden();
  for (const Json& row : golden.at("pass_at_k")) {
    std::vector<double> values(row.at("n"), 0);
    std::fill(values.begin(), values.begin() + row.at("c").get<int64_t>(), 1);
    const std::optional<double> value = ReduceEpochs(PassAt(row.at("k")), Values(values));
    ASSERT_TRUE(value.has_value());
    // n factors of one rounding each.
    EXPECT_NEAR(*value, row.at("value").get<double>(), values.size() * 3e-16) << row;
    EXPECT_GE(*value, 0);
    EXPECT_LE(*value, 1);
    ++case_count;
  }
  EXPECT_GT(case_count, 400);
}

TEST(Epochs, OfGradedAnswersItIsTheExpectedBest) {
  const Json golden = Golden();
  for (const Json& row : golden.at("best_of_k")) {
    std::vector<double> values = row.at("values");
    EXPECT_NEAR(ReduceEpochs(PassAt(row.at("k")), Values(values)).value(), row.at("value").get<double>(), 1e-14) << row;
    for (double& value : values) value = -value;  // the best is the lowest
    EXPECT_NEAR(ReduceEpochs(PassAt(row.at("k")), Values(values), /*lower_is_better=*/true).value(),
                -row.at("value").get<double>(), 1e-14);
  }
}

TEST(Epochs, EqualValuesStandForThemselves) {
  for (const double value : {0.1, 1.0 / 3, 0.7}) {
    for (const EpochStatistic& statistic : {kMean, PassAt(2), kMajority})
      EXPECT_EQ(ReduceEpochs(statistic, Values({value, value, value})), value) << statistic.Name();
  }
}

TEST(Epochs, TooFewAnswersOrOneWithoutAValueHaveNone) {
  EXPECT_EQ(ReduceEpochs(PassAt(3), Values({1, 1})), std::nullopt);
  EXPECT_EQ(ReduceEpochs(PassAt(2), Values({1, 0})), 1);
  std::vector<EpochValue> answers = Values({1, 0});
  answers[1].value.reset();
  EXPECT_EQ(ReduceEpochs(kMean, answers), std::nullopt);
  EXPECT_EQ(ReduceEpochs(PassAt(1), answers), std::nullopt);
}

std::vector<EpochValue> Answers(const std::vector<std::pair<std::string, double>>& given) {
  std::vector<EpochValue> answers;
  for (const auto& [text, value] : given) answers.push_back({value, text == "failed", MajorityForm(text)});
  return answers;
}

TEST(Epochs, MajorityIsTheMostFrequentAnswer) {
  const auto value = [](const std::vector<std::pair<std::string, double>>& given) {
    return ReduceEpochs(kMajority, Answers(given));
  };
  EXPECT_EQ(value({{"Paris", 0}, {" the  answer", 1}, {"The answer.", 1}}), 1) << "equal but for form";
  EXPECT_EQ(value({{"a", 0}, {"b", 1}, {"b", 1}, {"a", 0}}), 0) << "tied: the earliest";
  EXPECT_EQ(value({{"c", 1}, {"a", 0}, {"b", 0.5}}), 1);
  EXPECT_EQ(value({{"A.", 0.25}, {"a", 0.75}, {"b", 1}}), 0.25) << "the value of the earliest of them";
  EXPECT_EQ(value({{"failed", 0}, {"failed", 0}, {"b", 1}}), 1) << "a failure is no answer";
  EXPECT_EQ(value({{"failed", 0}, {"failed", 0}}), 0) << "the worst value";
  EXPECT_EQ(value({{"", 0}, {"", 0}, {"b", 1}}), 0) << "an empty answer is one";
}

TEST(Epochs, FormKeepsWhatTellsAnswersApart) {
  EXPECT_EQ(MajorityForm("  \"Paris\",\n"), "paris");
  EXPECT_EQ(MajorityForm("**(B)**"), "b");
  EXPECT_EQ(MajorityForm("New  York\tCity!"), "new york city");
  EXPECT_EQ(MajorityForm("???"), "???");
  EXPECT_EQ(MajorityForm(""), "");
  EXPECT_NE(MajorityForm("-5"), MajorityForm("5"));
  EXPECT_NE(MajorityForm("C++"), MajorityForm("C"));
  EXPECT_NE(MajorityForm("3.14"), MajorityForm("314"));
  EXPECT_NE(MajorityForm("the cat"), MajorityForm("cat"));
}

TEST(Epochs, NamesAreReadBack) {
  for (const EpochStatistic& statistic : {kMean, kMajority, PassAt(1), PassAt(64)})
    EXPECT_EQ(ParseEpochStatistic(statistic.Name()).value(), statistic);
  for (const char* wrong : {"", "pass", "pass@", "pass@0", "pass@-1", "pass@4.5", "pass@x", "median", "Mean"}) {
    const absl::Status status = ParseEpochStatistic(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(status.message(), Message(absl::StrCat("\"", wrong, "\""), "pass@4"));
  }
}

constexpr int kEpochs = 3, kQuestions = 8;

class EpochsInDatabase : public ::testing::Test {
 protected:
  void SetUp() override {
    writer_ = *Writer::Open(directory_.File("a.db"));
    execution_id_ = *writer_->AddExecution(FakeExecution());
    reader_ = *Reader::Open(directory_.File("a.db"));
  }

  // Question q of the baseline has q % 4 right answers of 3, the earliest first, and the candidate one more; wrong answers
  // differ, right ones do not. `change` may modify an outcome, or leave it out by returning false.
  int64_t Add(
      const std::vector<std::string>& variants, int epochs = kEpochs,
      const std::function<bool(const std::string& variant, Outcome&)>& change = [](const std::string&, Outcome&) {
        return true;
      }) {
    NewJob job = FakeJob({.variants = variants, .planned_count = kQuestions * epochs});
    job.spec_json = absl::StrCat(R"({"suite":{)", epochs > 1 ? absl::StrCat("\"epochs\":", epochs, ",") : "",
                                 R"("tasks":[{"kind":"rows","name":"recall"}]}})");
    const int64_t job_id = writer_->AddJob(job)->job_id;
    const std::vector<CellRow> cells = *writer_->Cells(job_id);
    for (const CellRow& cell : cells) {
      for (int64_t i = 0; i < cell.cell.planned_count; ++i) {
        Outcome outcome = FakeOutcome(cell, job, execution_id_, i / epochs);
        outcome.sample.sample_index = i;
        outcome.sample.epoch = i % epochs;
        const int64_t right_count = i / epochs % 4 + (cell.cell.variant == "baseline" ? 0 : 1);
        const bool is_right = outcome.sample.epoch < right_count;
        outcome.generation.answer = is_right ? "right" : absl::StrCat("wrong ", i);
        outcome.scores = {{"exact_match", is_right ? 1.0 : 0.0}, {"token_f1", is_right ? 1.0 : 0.5}};
        if (!change(cell.cell.variant, outcome)) continue;
        const auto recorded = writer_->RecordSample(outcome);
        EXPECT_TRUE(recorded.ok()) << recorded.status();
      }
    }
    return job_id;
  }
  static void Fail(Outcome& outcome) {
    outcome.generation = {};
    outcome.generation.error_code = "RESOURCE_EXHAUSTED";
    outcome.generation.error_message = "it did not";
    outcome.scores.clear();
  }
  // Of exact_match of the baseline, by question.
  std::vector<SampleRow> Rows(int64_t job_id, const EpochStatistic& statistic) {
    std::vector<SampleRow> rows;
    reader_->SetEpochStatistic(statistic);
    const absl::Status read = reader_->EachSampleRow(job_id, "baseline", [&](const SampleRow& row) {
      if (row.metric == "exact_match") rows.push_back(row);
      return absl::OkStatus();
    });
    EXPECT_TRUE(read.ok()) << read;
    return rows;
  }
  std::vector<double> ValuesOf(int64_t job_id, const EpochStatistic& statistic) {
    std::vector<double> values;
    for (const SampleRow& row : Rows(job_id, statistic)) values.push_back(row.value.value_or(-1));
    return values;
  }

  testing_support::TemporaryDirectory directory_;
  std::unique_ptr<Writer> writer_;
  std::unique_ptr<Reader> reader_;
  int64_t execution_id_ = 0;
};

TEST_F(EpochsInDatabase, AQuestionIsOneRow) {
  const int64_t job = Add({"baseline", "focal"});
  const double third = 1.0 / 3;
  EXPECT_EQ(ValuesOf(job, kMean), (std::vector<double>{0, third, 2 * third, 1, 0, third, 2 * third, 1}));
  EXPECT_EQ(ValuesOf(job, PassAt(1)).at(1), ReduceEpochs(PassAt(1), Values({1, 0, 0})));
  EXPECT_EQ(ValuesOf(job, PassAt(3)), (std::vector<double>{0, 1, 1, 1, 0, 1, 1, 1}));
  // With one right answer of three all are different, and the earliest is the right one.
  EXPECT_EQ(ValuesOf(job, kMajority), (std::vector<double>{0, 1, 1, 1, 0, 1, 1, 1}));
  const std::vector<SampleRow> rows = Rows(job, kMean);
  EXPECT_EQ(rows.at(5).sample_index, 5);
  EXPECT_EQ(rows.at(5).question_id, "recall-q5");
  EXPECT_FALSE(rows.at(5).is_partial);
  EXPECT_EQ(reader_->QuestionCells(job)->at(0).cell.planned_count, kQuestions);
  EXPECT_EQ(reader_->Cells(job)->at(0).cell.planned_count, kQuestions * kEpochs);
  const std::vector<SampleDetail> details =
      *reader_->Samples({.job_id = job, .variant = "baseline", .sample_index = 4});
  ASSERT_EQ(details.size(), 1u);
  EXPECT_EQ(details[0].sample.epoch, 1);
}

TEST_F(EpochsInDatabase, AnEpochIsAColumnOfTheViews) {
  const int64_t job = Add({"baseline", "focal"});
  const auto database = *sqlite::Database::Open(directory_.File("a.db"), {.read_only = true});
  EXPECT_EQ(
      database
          ->QueryInt("SELECT count(*) FROM v_samples WHERE job_id = ? AND is_primary AND epoch = sample_index % 3", job)
          .value(),
      2 * kQuestions * kEpochs);
  EXPECT_EQ(database->QueryInt("SELECT count(DISTINCT epoch) FROM v_pairs WHERE job_id = ?", job).value(), kEpochs);
  EXPECT_EQ(database->QueryInt("SELECT count(*) FROM v_pairs WHERE job_id = ? AND baseline_variant = 'baseline'", job)
                .value(),
            2 * kQuestions * kEpochs);
}

// What is inferred has so many values as there are questions, and the clusters are the contexts.
TEST_F(EpochsInDatabase, ComparisonsAreOfQuestions) {
  const int64_t job = Add({"baseline", "focal"});
  reader_->SetEpochStatistic(kMean);
  const stats::ComparisonReport report = *stats::CompareVariants(*reader_, job, "baseline", "focal");
  const stats::Comparison& row = report.comparisons.at(0);
  EXPECT_EQ(row.metric, "exact_match");
  EXPECT_EQ(row.sample_count, kQuestions);
  EXPECT_EQ(row.planned_count, kQuestions);
  EXPECT_EQ(row.cluster_count, 2);
  EXPECT_FALSE(row.is_incomplete);
  EXPECT_DOUBLE_EQ(row.baseline_mean, 0.5);
  EXPECT_DOUBLE_EQ(row.difference, 0.25) << "a third of three questions of four";
  const std::vector<stats::Estimate> estimates = *stats::EstimateScores(*reader_, job);
  EXPECT_EQ(estimates.at(0).planned_count, kQuestions);
  EXPECT_EQ(estimates.at(0).answered_count, kQuestions);
  EXPECT_FALSE(estimates.at(0).is_incomplete);
  EXPECT_DOUBLE_EQ(*estimates.at(0).mean, 0.5);

  reader_->SetEpochStatistic(PassAt(4));
  const absl::Status status = stats::CompareVariants(*reader_, job, "baseline", "focal").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(status.message(), Message("pass@4", "4", "3"));
}

TEST_F(EpochsInDatabase, TwoJobsGiveTheNumbersOfOne) {
  const int64_t both = Add({"baseline", "focal"});
  const int64_t first = Add({"baseline"}), second = Add({"focal"});
  for (const EpochStatistic& statistic : {kMean, PassAt(2), kMajority}) {
    reader_->SetEpochStatistic(statistic);
    const stats::ComparisonReport one = *stats::CompareVariants(*reader_, both, "baseline", "focal");
    const stats::ComparisonReport two =
        *stats::CompareVariants(*reader_, JobVariant{first, "baseline"}, JobVariant{second, "focal"});
    EXPECT_EQ(two.paired_count, kQuestions);
    ASSERT_EQ(one.comparisons.size(), two.comparisons.size());
    for (size_t i = 0; i < one.comparisons.size(); ++i) {
      EXPECT_EQ(one.comparisons[i].difference, two.comparisons[i].difference) << statistic.Name();
      EXPECT_EQ(one.comparisons[i].low, two.comparisons[i].low);
      EXPECT_EQ(one.comparisons[i].planned_count, two.comparisons[i].planned_count);
    }
  }
}

// A job of one answer to each question is compared with one of three; the mean of one is itself.
TEST_F(EpochsInDatabase, JobsOfDifferentEpochsArePaired) {
  const int64_t single = Add({"baseline"}, 1), several = Add({"focal"});
  const CrossPairs pairs = *PairAcrossJobs(*reader_, {single, "baseline"}, {several, "focal"});
  ASSERT_EQ(pairs.cells.size(), 1u);
  EXPECT_EQ(pairs.cells[0].paired_count, kQuestions);
  EXPECT_EQ(pairs.cells[0].planned_count, kQuestions);
  EXPECT_EQ(pairs.baseline_index.at({"recall", 1024, 5 * kEpochs}), 5);
  EXPECT_FALSE(pairs.baseline_index.contains({"recall", 1024, 5 * kEpochs + 1}));
  reader_->SetEpochStatistic(PassAt(2));
  const absl::Status status = PairAcrossJobs(*reader_, {single, "baseline"}, {several, "focal"}).status();
  EXPECT_THAT(status.message(), Message("pass@2", "2", absl::StrCat("job ", single)));
}

TEST_F(EpochsInDatabase, AFailedEpochCountsAsTheWorstValue) {
  const int64_t job = Add({"baseline", "focal"}, kEpochs, [](const std::string& variant, Outcome& outcome) {
    if (variant == "baseline" && outcome.sample.sample_index == 3 * kEpochs) Fail(outcome);
    return true;
  });
  const SampleRow row = Rows(job, kMean).at(3);
  EXPECT_DOUBLE_EQ(row.value.value(), 2.0 / 3);
  EXPECT_EQ(row.error_code, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(ValuesOf(job, PassAt(2)).at(3), 1) << "any two of the three have a right one";
  EXPECT_EQ(ValuesOf(job, kMajority).at(3), 1);
  const stats::Comparison compared = stats::CompareVariants(*reader_, job, "baseline", "focal")->comparisons.at(0);
  EXPECT_EQ(compared.failed_count, 1);
  EXPECT_TRUE(compared.is_incomplete);
  EXPECT_FALSE(compared.is_unfinished);
  const stats::Estimate estimate = stats::EstimateScores(*reader_, job)->at(0);
  EXPECT_EQ(estimate.failed_count, 1);
  EXPECT_TRUE(estimate.is_incomplete);
}

// Question 3 has a failed answer, and one without an imported score: its value is unknown, and so is not the worst.
TEST_F(EpochsInDatabase, AnAnswerWithoutAScoreIsMissingBesideAFailure) {
  const auto fail = [](const std::string& variant, Outcome& outcome) {
    if (variant == "baseline" && outcome.sample.sample_index == 3 * kEpochs) Fail(outcome);
    return true;
  };
  const auto import = [&](int64_t job, const std::string& variant) {
    ScoreImport scores{variant, "imported/mine", "here", std::string(64, 'a'), {}};
    const std::vector<SampleDetail> details = *reader_->Samples({.job_id = job, .variant = variant, .limit = 100});
    for (const SampleDetail& detail : details) {
      const bool is_scored = variant == "focal" || detail.sample.sample_index / kEpochs != 3;
      if (is_scored && detail.generation.error_code.empty()) scores.values.push_back({detail.generation_id, 1});
    }
    ASSERT_TRUE(writer_->ImportScores(job, {scores}).ok());
  };
  const int64_t job = Add({"baseline", "focal"}, kEpochs, fail);
  const int64_t first = Add({"baseline"}, kEpochs, fail), second = Add({"focal"});
  for (const int64_t one : {job, first}) import(one, "baseline");
  for (const int64_t one : {job, second}) import(one, "focal");
  reader_->SetEpochStatistic(kMean);
  int seen = 0;
  const auto look = [&](const SampleRow& row) {
    if (row.metric != "imported/mine" || row.sample_index != 3) return absl::OkStatus();
    ++seen;
    EXPECT_EQ(row.Counted(0), std::nullopt);
    EXPECT_EQ(row.error_code, std::nullopt);
    return absl::OkStatus();
  };
  ASSERT_TRUE(reader_->EachSampleRow(job, "baseline", look).ok());
  EXPECT_EQ(seen, 1);
  const stats::ComparisonReport reports[] = {
      *stats::CompareVariants(*reader_, job, "baseline", "focal"),
      *stats::CompareVariants(*reader_, JobVariant{first, "baseline"}, JobVariant{second, "focal"})};
  for (const stats::ComparisonReport& report : reports) {
    for (const stats::Comparison& row : report.comparisons) {
      const bool is_imported = row.metric == "imported/mine";
      EXPECT_EQ(row.sample_count, is_imported ? kQuestions - 1 : kQuestions) << row.metric;
      EXPECT_EQ(row.failed_count, is_imported ? 0 : 1) << row.metric;
    }
  }
}

TEST_F(EpochsInDatabase, WhereAllFailedTheQuestionHasTheWorstValue) {
  const int64_t job = Add({"baseline"}, kEpochs, [](const std::string&, Outcome& outcome) {
    if (outcome.sample.sample_index / kEpochs == 3) Fail(outcome);
    return true;
  });
  for (const EpochStatistic& statistic : {kMean, PassAt(3), kMajority}) EXPECT_EQ(ValuesOf(job, statistic).at(3), 0);
}

// Question 3 has two answers so far, both right. With pass@3 it has no value; neither is the cell finished with any other.
TEST_F(EpochsInDatabase, AMissingEpochIsStated) {
  const auto without_one = [](const std::string& variant, Outcome& outcome) {
    return variant != "baseline" || outcome.sample.sample_index != 3 * kEpochs + 2;
  };
  const int64_t job = Add({"baseline", "focal"}, kEpochs, without_one);
  const int64_t first = Add({"baseline"}, kEpochs, without_one), second = Add({"focal"});
  EXPECT_TRUE(Rows(job, kMean).at(3).is_partial);
  EXPECT_EQ(ValuesOf(job, kMean).at(3), 1);
  EXPECT_EQ(ValuesOf(job, PassAt(2)).at(3), 1);
  EXPECT_EQ(ValuesOf(job, PassAt(3)).at(3), -1) << "none";
  for (const EpochStatistic& statistic : {kMean, PassAt(2), PassAt(3), kMajority}) {
    SCOPED_TRACE(statistic.Name());
    reader_->SetEpochStatistic(statistic);
    const stats::ComparisonReport reports[] = {
        *stats::CompareVariants(*reader_, job, "baseline", "focal"),
        *stats::CompareVariants(*reader_, JobVariant{first, "baseline"}, JobVariant{second, "focal"})};
    for (const stats::ComparisonReport& report : reports) {
      const stats::Comparison& row = report.comparisons.at(0);
      EXPECT_TRUE(row.is_unfinished);
      EXPECT_TRUE(row.is_incomplete);
      EXPECT_EQ(row.sample_count, statistic == PassAt(3) ? kQuestions - 1 : kQuestions);
      EXPECT_EQ(row.failed_count, 0);
      EXPECT_TRUE(report.is_incomplete);
      EXPECT_TRUE(report.suite.at(0).is_unfinished);
    }
    EXPECT_TRUE(stats::EstimateScores(*reader_, job)->at(0).is_incomplete);
  }
}

// Asked again, exactly the failed and the missing answers are pending.
TEST_F(EpochsInDatabase, ResumeIsByAnswer) {
  const int64_t job = Add({"baseline"}, kEpochs, [](const std::string&, Outcome& outcome) {
    if (outcome.sample.sample_index == 4) Fail(outcome);
    return outcome.sample.sample_index != 11;
  });
  EXPECT_THAT(*writer_->ReadPendingSamples(writer_->Cells(job)->at(0).cell_id), ElementsAre(4, 11));
}

}  // namespace
}  // namespace varifocal::db
