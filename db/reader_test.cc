// The reader and the views, with values verified by hand, while a writer has the database open; and diff bit for bit.
// Method: a small job written with known scores; expected rows by hand.
#include "db/reader.h"

#include <cmath>

#include <set>

#include "absl/strings/str_cat.h"
#include "db/diff.h"
#include "db/sqlite/database.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/reader_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal::db {
namespace {

using ::testing::HasSubstr;

std::vector<PairRow> PairsOf(Reader& reader, int64_t job_id, const std::string& baseline,
                             const std::string& candidate) {
  std::vector<PairRow> pairs;
  const absl::Status read = reader.EachPair(job_id, baseline, candidate, [&](PairRow row) {
    pairs.push_back(std::move(row));
    return absl::OkStatus();
  });
  EXPECT_TRUE(read.ok()) << read;
  return pairs;
}

TEST_F(ReaderTest, AnotherPrimaryMetricIsThatOfTheTasksThatHaveIt) {
  Open("primary.db", FakeJob({.variants = {"baseline"}, .tasks = {"label", "recall"}, .planned_count = 2}));
  for (const CellRow& cell : cells_) {
    for (int64_t i = 0; i < 2; ++i) {
      ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job_, execution_id_, i)).ok());
    }
  }
  const auto before = *Reader::Open(path_);
  const int64_t generation_id =
      before->Samples({.job_id = job_id_, .task = "recall", .sample_index = 1})->front().generation_id;
  ASSERT_TRUE(
      writer_
          ->ImportScores(job_id_, {{"baseline", "imported/mine", "f", std::string(64, 'a'), {{generation_id, 0.25}}}})
          .ok());
  const auto reader = *Reader::Open(path_);
  ASSERT_TRUE(reader->HoldSnapshot().ok());
  EXPECT_EQ(reader->SetPrimaryMetric("mine").code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(reader->SetPrimaryMetric("imported/mine").ok());
  std::vector<std::string> primary;
  const std::vector<TaskMetricRecord> metrics = *reader->Metrics(job_id_);
  for (const TaskMetricRecord& metric : metrics) {
    if (metric.metric_index == 0) primary.push_back(absl::StrCat(metric.task, " ", metric.metric));
  }
  EXPECT_EQ(primary, std::vector<std::string>{"recall imported/mine"});
  std::vector<std::optional<double>> values;
  ASSERT_TRUE(reader
                  ->EachAnswer(job_id_, "baseline",
                               [&](const AnswerRow& row) {
                                 if (row.sample.task == "recall") values.push_back(row.value);
                                 EXPECT_TRUE(row.sample.token_ids_sha256.has_value());
                                 return absl::OkStatus();
                               })
                  .ok());
  EXPECT_EQ(values, (std::vector<std::optional<double>>{std::nullopt, 0.25}));
  EXPECT_EQ(before->Metrics(job_id_)->front().metric_index, 0) << "another reader";
}

TEST_F(ReaderTest, VariantsHaveTheirTraining) {
  NewJob job = FakeJob();
  job.variants[1].model.parameter_count = 1000;
  job.variants[1].model.training_arm = "focal";
  job.variants[1].model.training_seed = 0;
  job.variants[1].model.training_tokens = 1 << 20;
  Open("training.db", job);
  const std::vector<VariantRecord> variants = *(*Reader::Open(path_))->Variants(job_id_);
  EXPECT_EQ(variants[0].model.training_arm, std::nullopt);
  EXPECT_EQ(variants[0].model.parameter_count, std::nullopt);
  EXPECT_EQ(variants[1].model.training_arm, "focal");
  EXPECT_EQ(variants[1].model.training_seed, 0);
  EXPECT_EQ(variants[1].model.training_tokens, 1 << 20);
  EXPECT_EQ(variants[1].model.parameter_count, 1000);
  job.variants[1].model.training_seed = 1;  // the same weights under another seed are another model
  const int64_t second = writer_->AddJob(job)->job_id;
  EXPECT_EQ((*(*Reader::Open(path_))->Variants(second))[1].model.training_seed, 1);
  EXPECT_EQ((*(*Reader::Open(path_))->Variants(job_id_))[1].model.training_seed, 0);
}

TEST_F(ReaderTest, ViewsHoldWhatWasWritten) {
  NewJob job = FakeJob({.planned_count = 4});
  job.metrics[1].worst_value.reset();  // token_f1 serves as a metric without a worst value
  Open("a.db", job);
  for (int64_t i = 0; i < 3; ++i) Record(0, i, i == 0 ? 0.0 : 1.0);  // baseline: 0 1 1, one sample to come
  Record(1, 0, 1.0);                                                 // focal: 1, failed, 1, 0
  Record(1, 1, std::nullopt);
  Record(1, 2, 1.0);
  Record(1, 3, 0.0);
  auto reader = *Reader::Open(path_);

  auto database = *sqlite::Database::Open(path_, {.read_only = true});
  auto means = *database->Prepare(
      "SELECT variant, metric, planned_count, answered_count, failed_count, mean, mean_answered FROM v_scores_by_length "
      "ORDER BY variant, metric");
  const auto expect_row = [&](const char* variant, const char* metric, int answered, int failed,
                              std::optional<double> mean, double mean_answered) {
    SCOPED_TRACE(absl::StrCat(variant, " ", metric));
    ASSERT_TRUE(*means.Step());
    EXPECT_EQ(means.Text(0), variant);
    EXPECT_EQ(means.Text(1), metric);
    EXPECT_EQ(means.Int(2), 4);
    EXPECT_EQ(means.Int(3), answered);
    EXPECT_EQ(means.Int(4), failed);
    EXPECT_EQ(means.OptionalReal(5), mean);
    EXPECT_DOUBLE_EQ(means.Real(6), mean_answered);
  };
  expect_row("baseline", "exact_match", 3, 0, 2.0 / 3, 2.0 / 3);
  expect_row("baseline", "token_f1", 3, 0, 1.0 / 3, 1.0 / 3);    // without failures no worst value is needed
  expect_row("focal", "exact_match", 3, 1, 0.5, 2.0 / 3);        // the failure counts as 0
  expect_row("focal", "token_f1", 3, 1, std::nullopt, 1.0 / 3);  // no worst value, no mean over failures
  EXPECT_FALSE(*means.Step());

  std::vector<SampleRow> samples;
  ASSERT_TRUE(reader
                  ->EachSampleRow(job_id_, "focal",
                                  [&](SampleRow row) {
                                    samples.push_back(std::move(row));
                                    return absl::OkStatus();
                                  })
                  .ok());
  ASSERT_EQ(samples.size(), 8u);
  EXPECT_EQ(samples[1].sample_index, 1);
  EXPECT_EQ(samples[1].error_code, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(samples[1].value, std::nullopt) << "never a silent zero";

  std::vector<AnswerRow> answers;
  ASSERT_TRUE(reader
                  ->EachAnswer(job_id_, "focal",
                               [&](AnswerRow row) {
                                 answers.push_back(std::move(row));
                                 return absl::OkStatus();
                               })
                  .ok());
  ASSERT_EQ(answers.size(), 4u);
  EXPECT_EQ(answers[0].sample.prompt_token_count, 1014);
  EXPECT_EQ(answers[0].value, samples[0].value);
  EXPECT_EQ(answers[1].generation.error_code, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(answers[1].value, std::nullopt);
  EXPECT_EQ((*reader->Samples({.job_id = job_id_, .after_id = answers[2].generation_id - 1, .limit = 1}))[0]
                .sample.sample_index,
            answers[2].sample.sample_index);
  int used = 0;
  EXPECT_EQ(reader
                ->EachAnswer(job_id_, "focal",
                             [&](const AnswerRow&) {
                               ++used;
                               return absl::CancelledError("enough");
                             })
                .message(),
            "enough");
  EXPECT_EQ(used, 1) << "the first error ends the read";

  ASSIGN_OR_FAIL(const auto failures, reader->Failures(job_id_));
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures[0].error_code, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(failures[0].sample_count, 1);
  EXPECT_GT(failures[0].latest_us, 0);
  EXPECT_THAT(failures[0].latest_message, HasSubstr("needs 9 pages"));
  EXPECT_TRUE(reader->Failures(job_id_ + 1)->empty());

  std::vector<PairRow> pairs = PairsOf(*reader, job_id_, "baseline", "focal");
  ASSERT_EQ(pairs.size(), 6u) << "three pairs, two metrics";
  EXPECT_EQ(pairs[0].question_id, "recall-q0");
  EXPECT_EQ(pairs[0].cluster, "recall-c0");
  EXPECT_EQ(*pairs[0].difference, 1);
  EXPECT_EQ(*pairs[1].candidate_value, 0) << "a failure is the worst value";
  EXPECT_EQ(pairs[1].candidate_error, "RESOURCE_EXHAUSTED");
  EXPECT_EQ(*pairs[1].difference, -1);
  EXPECT_EQ(pairs[4].difference, std::nullopt) << "failed, and the metric has no worst value";
  EXPECT_EQ(PairsOf(*reader, job_id_, "focal", "baseline")[0].difference, -1);

  JobRow row = *reader->Job(job_id_);
  EXPECT_EQ(row.planned_count, 8);
  EXPECT_EQ(row.answered_count, 6);
  EXPECT_EQ(row.failed_count, 1);
}

TEST_F(ReaderTest, SeesWhatIsWrittenMeanwhileAndPagesByKey) {
  Open("a.db", FakeJob({.planned_count = 10}));
  auto reader = *Reader::Open(path_);
  EXPECT_EQ(reader->Samples({.job_id = job_id_})->size(), 0u);
  for (int64_t i = 0; i < 10; ++i) Record(0, i, i % 2 ? std::optional(1.0) : std::nullopt);
  std::vector<int64_t> seen;
  SampleQuery query{.job_id = job_id_, .variant = "baseline", .limit = 3};
  while (true) {
    std::vector<SampleDetail> page = *reader->Samples(query);
    if (page.empty()) break;
    for (const SampleDetail& row : page) seen.push_back(row.sample.sample_index);
    query.after_id = page.back().generation_id;
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(reader->Samples({.job_id = job_id_, .only_failed = true})->size(), 5u);
  EXPECT_EQ(reader->Samples({.job_id = job_id_, .context_length = 2048})->size(), 0u);

  const int64_t second = writer_->AddJob(FakeJob({.variants = {"baseline", "other"}}))->job_id;
  EXPECT_EQ((*reader->Jobs())[0].job_id, second);
  EXPECT_EQ((*reader->Jobs(second))[0].job_id, job_id_);
  EXPECT_EQ(reader->LatestJob()->job_id, second);
  EXPECT_EQ(reader->LatestJob({"baseline", "focal"})->job_id, job_id_);
  EXPECT_THAT(reader->LatestJob({"other", "focal"}).status(),
              IsError(absl::StatusCode::kNotFound, HasSubstr("baseline, other, focal")));
}

TEST_F(ReaderTest, VariantsWithOtherTokenizersPairByQuestion) {
  Open("a.db", FakeJob({.planned_count = 2, .tokenizers = {"t", "u"}}));
  for (size_t cell : {0, 1}) {
    for (int64_t i : {0, 1}) Record(cell, i, 1.0);
  }
  auto reader = *Reader::Open(path_);
  EXPECT_TRUE(*reader->TokenizersDiffer(job_id_, "baseline", "focal"));
  EXPECT_EQ(PairsOf(*reader, job_id_, "baseline", "focal").size(), 4u);
}

// Write order, ids, times and executions are ignored; one bit of one score is not.
TEST_F(ReaderTest, DiffSeesContentAndNothingElse) {
  const NewJob job = FakeJob({.tasks = {"recall", "icl"}, .lengths = {1024, 2048}, .planned_count = 6});
  Open("a.db", job);
  for (const CellRow& cell : cells_) {
    for (int64_t i = 0; i < 6; ++i) {
      ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, i)).ok());
    }
  }
  const std::string a = path_;
  NewJob other = job;
  other.suite = "by another name";
  Open("b.db", other);
  for (size_t c = cells_.size(); c-- > 0;) {
    for (int64_t i = 6; i-- > 0;) {
      if (c == 3 && i == 5) continue;
      Outcome outcome = FakeOutcome(cells_[c], job, *writer_->AddExecution(FakeExecution()), i);
      outcome.generation.prefill_us = 77;
      outcome.generation.cached_token_count = 128;
      ASSERT_TRUE(writer_->RecordSample(outcome).ok());
    }
  }
  ContentDiff diff = *DiffDatabases(a, path_);
  EXPECT_EQ(diff.row_count_a, 8 * 6 * 2);
  EXPECT_EQ(diff.difference_count, 2) << "one sample, two metrics";
  EXPECT_EQ(diff.differences[0].b, "(no row)");

  Outcome last = FakeOutcome(cells_[3], job, execution_id_, 5);
  last.scores[1].value = std::nextafter(last.scores[1].value, 2);
  ASSERT_TRUE(writer_->RecordSample(last).ok());
  diff = *DiffDatabases(a, path_);
  ASSERT_EQ(diff.difference_count, 1);
  EXPECT_EQ(diff.differences[0].column, "value");
  EXPECT_EQ(diff.differences[0].metric, "token_f1");
  EXPECT_EQ(diff.differences[0].sample_index, 5);
  EXPECT_NE(diff.differences[0].a, diff.differences[0].b);
  EXPECT_EQ(DiffDatabases(a, a)->difference_count, 0);
}

TEST_F(ReaderTest, AMissingJobNamesThoseThatExist) {
  const std::string path = directory_.File("jobs.db");
  const auto message = [&] { return std::string((*Reader::Open(path))->Job(99).status().message()); };
  auto writer = *Writer::Open(path);
  EXPECT_THAT(message(), Message(99));
  EXPECT_FALSE((*(*Reader::Open(path))->UnfinishedJobOf("baseline")).has_value());
  for (int i = 0; i < 11; ++i) ASSERT_TRUE(writer->AddJob(FakeJob()).ok());
  EXPECT_THAT(message(), Message(99, "2, 3, 4, 5, 6, 7, 8, 9, 10, 11"));
  const auto unfinished = *(*Reader::Open(path))->UnfinishedJobOf("baseline");
  ASSERT_TRUE(unfinished.has_value());
  EXPECT_EQ(unfinished->state, JobState::kQueued);
}

TEST_F(ReaderTest, DiffShowsRowsOfOneSideAndMissingValues) {
  NewJob job = FakeJob({.variants = {"baseline"}, .lengths = {1024, 2048}, .planned_count = 2});
  Open("a.db", job);
  Outcome answer = FakeOutcome(cells_[0], job, execution_id_, 0);
  ASSERT_TRUE(writer_->RecordSample(answer).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cells_[0], job, execution_id_, 1)).ok());
  const std::string a = path_;
  Open("b.db", job);
  answer.generation.answer = std::nullopt;
  ASSERT_TRUE(writer_->RecordSample(answer).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cells_[1], job, execution_id_, 0)).ok());
  for (const bool is_swapped : {false, true}) {
    const ContentDiff diff = is_swapped ? *DiffDatabases(path_, a) : *DiffDatabases(a, path_);
    // By metric: the answer; sample 1 of 1024 on one side; sample 0 of 2048 on the other.
    ASSERT_EQ(diff.difference_count, 6);
    std::set<std::string> columns;
    for (const ContentDifference& difference : diff.differences) {
      columns.insert(absl::StrCat(difference.column, ": ", is_swapped ? difference.b : difference.a, " / ",
                                  is_swapped ? difference.a : difference.b));
    }
    EXPECT_EQ(columns.size(), 3u);
    EXPECT_TRUE(columns.count(": (a row) / (no row)") && columns.count(": (no row) / (a row)"));
    EXPECT_THAT(*columns.rbegin(), HasSubstr("answer: word"));
    EXPECT_THAT(*columns.rbegin(), HasSubstr(" / NULL"));
  }
  EXPECT_EQ(DiffDatabases(a, path_, 1)->differences.size(), 1u);
}

}  // namespace
}  // namespace varifocal::db
