// The reader and the views, with values verified by hand, while a writer has the database open; and diff bit for bit.
// Method: a small job written with known scores; expected rows by hand.
#include "db/reader.h"

#include <cmath>

#include <set>

#include "absl/strings/str_cat.h"
#include "db/diff.h"
#include "db/fakes/fake_results.h"
#include "db/refusal.h"
#include "db/sqlite/database.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

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

class ReaderTest : public ::testing::Test {
 protected:
  void Open(const std::string& name, const NewJob& job) {
    job_ = job;
    path_ = directory_.File(name);
    writer_.reset();
    writer_ = *Writer::Open(path_);
    execution_id_ = *writer_->AddExecution(FakeExecution());
    job_id_ = writer_->AddJob(job)->job_id;
    cells_ = *writer_->Cells(job_id_);
  }
  // exact_match as given, token_f1 half of it; nothing for a failure.
  void Record(size_t cell, int64_t index, std::optional<double> score) {
    Outcome outcome = score.has_value() ? FakeOutcome(cells_[cell], job_, execution_id_, index)
                                        : FakeFailure(cells_[cell], job_, execution_id_, index);
    if (score.has_value()) outcome.scores = {{"exact_match", *score}, {"token_f1", *score / 2}};
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_;
  NewJob job_;
  std::unique_ptr<Writer> writer_;
  int64_t execution_id_ = 0, job_id_ = 0;
  std::vector<CellRow> cells_;
};

// Refusals are wrong answers that begin like one, by the same rule in C++ and in SQL.
TEST_F(ReaderTest, CountsRefusals) {
  struct Case {
    const char* answer;
    bool is_refusal;
  };
  constexpr Case kCases[] = {{"I cannot tell.", true},
                             {"\n  Sorry, no.", true},
                             {"I don\u2019t know", true},
                             {"i DON'T KNOW", true},
                             {"The text does not say.", true},
                             {"sorry is the word", false},
                             {"harbor; I cannot add more", false},
                             {"", false},
                             {"100%", false}};
  Open("refusals.db", FakeJob({.variants = {"baseline"}, .planned_count = 2 * std::ssize(kCases)}));
  int64_t index = 0, expected = 0;
  for (const Case& c : kCases) {
    EXPECT_EQ(IsRefusal(c.answer), c.is_refusal) << c.answer;
    for (const double score : {0.0, 1.0}) {  // the gold answer of a question may be "not mentioned"
      Outcome outcome = FakeOutcome(cells_[0], job_, execution_id_, index++);
      outcome.generation.answer = c.answer;
      outcome.scores = {{"exact_match", score}, {"token_f1", score}};
      ASSERT_TRUE(writer_->RecordSample(outcome).ok());
      expected += c.is_refusal && score == 0;
    }
  }
  const auto counts = (*Reader::Open(path_))->CountAnswers(job_id_);
  ASSERT_TRUE(counts.ok()) << counts.status();
  ASSERT_EQ(counts->size(), 1u);
  EXPECT_EQ(counts->front().answered_count, 2 * std::ssize(kCases));
  EXPECT_EQ(counts->front().refused_count, expected);
  EXPECT_EQ(counts->front().empty_count, 2);
}

TEST_F(ReaderTest, CountsTruncatedPrompts) {
  Open("truncated.db", FakeJob({.variants = {"baseline"}, .planned_count = 4}));
  for (int64_t i = 0; i < 3; ++i) {
    Outcome outcome = FakeOutcome(cells_[0], job_, execution_id_, i);
    if (i < 2) outcome.sample.truncation_json = R"({"cut_token_count":2251,"gold_survived":true})";
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  }
  const auto counts = (*Reader::Open(path_))->CountAnswers(job_id_);
  ASSERT_TRUE(counts.ok()) << counts.status();
  EXPECT_EQ(counts->front().answered_count, 3);
  EXPECT_EQ(counts->front().truncated_count, 2);
  EXPECT_EQ(counts->front().cut_count, 0) << "a truncated prompt is not a cut answer";
  const auto database = *sqlite::Database::Open(path_, {.read_only = true});
  EXPECT_EQ(*database->QueryInt("SELECT sum(is_truncated) FROM v_samples WHERE is_primary"), 2);
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

TEST_F(ReaderTest, MeansByLengthAreOverTasksAndOverWhatIsThere) {
  Open("means.db", FakeJob({.tasks = {"label", "recall"}, .lengths = {1024, 2048}, .planned_count = 2}));
  const auto record = [&](const CellRow& cell, int64_t index, double value) {
    Outcome outcome = FakeOutcome(cell, job_, execution_id_, index);
    outcome.scores = {{"exact_match", value}, {"token_f1", value}};
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  };
  for (const CellRow& cell : cells_) {
    if (cell.cell.variant != "baseline" || cell.cell.context_length != 1024) continue;
    record(cell, 0, 1);
    if (cell.cell.task == "recall") record(cell, 1, 0);
  }
  const std::vector<LengthMeanRow> rows = *(*Reader::Open(path_))->MeansByLength(job_id_);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].variant, "baseline");
  EXPECT_EQ(rows[0].context_length, 1024);
  EXPECT_EQ(rows[0].mean, 0.75) << "1 of label, 1/2 of recall";
  EXPECT_EQ(rows[0].recorded_count, 3);
  EXPECT_EQ(rows[0].planned_count, 4);
  EXPECT_EQ(rows[1].mean, std::nullopt);
  EXPECT_EQ(rows[2].variant, "focal");
}

TEST_F(ReaderTest, SharesOfLearnedGroupsAreMeansByCell) {
  Open("groups.db", FakeJob({.planned_count = 4}));
  const auto record = [&](size_t cell, int64_t index, std::optional<double> pairs, std::optional<double> largest) {
    Outcome outcome = FakeOutcome(cells_[cell], job_, execution_id_, index);
    outcome.generation.pairs_visible_share = pairs;
    outcome.generation.largest_group_share = largest;
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  };
  record(0, 0, std::nullopt, std::nullopt);  // the baseline has no groups
  record(1, 0, 0.25, 0.5);
  record(1, 1, 0.75, std::nullopt);  // not computed where all groups attend to each other
  record(1, 2, std::nullopt, std::nullopt);
  const std::vector<GroupSharesRow> rows = *(*Reader::Open(path_))->GroupShares(job_id_);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].variant, "focal");
  EXPECT_EQ(rows[0].answer_count, 2);
  EXPECT_EQ(rows[0].pairs_visible, 0.5);
  EXPECT_EQ(rows[0].largest_group, 0.5);
  writer_.reset();
  {
    auto old = *sqlite::Database::Open(path_, {});
    ASSERT_TRUE(old->Execute("DROP VIEW v_samples; ALTER TABLE generations DROP COLUMN pairs_visible_share;"
                             "ALTER TABLE generations DROP COLUMN thinking_state;"
                             "UPDATE schema_version SET version = 4")
                    .ok());
  }
  EXPECT_TRUE((*Reader::Open(path_))->GroupShares(job_id_)->empty()) << "a file of an older program";
  EXPECT_TRUE((*Reader::Open(path_))->ThinkingCosts(job_id_)->empty());
  EXPECT_EQ((*Reader::Open(path_))->CountAnswers(job_id_)->front().unfinished_count, 0);
}

// An unfinished answer is neither empty nor cut; tokens are of answers whose blocks were found.
TEST_F(ReaderTest, ThinkingIsCountedByKind) {
  Open("thinking.db", FakeJob({.planned_count = 8}));
  const auto record = [&](int64_t index, std::optional<std::string> state, const char* raw, double score) {
    Outcome outcome = FakeOutcome(cells_[1], job_, execution_id_, index);
    outcome.scores = {{"exact_match", score}, {"token_f1", score}};
    outcome.generation.answer_raw = raw;
    outcome.generation.answer = state == "unfinished" ? "" : "Paris";
    outcome.generation.finish_reason = state == "unfinished" ? "length" : "stop";
    outcome.generation.new_token_count = 10;
    outcome.generation.thinking_state = state;
    if (state.has_value()) outcome.generation.thinking_token_count = 6;
    if (state.has_value()) outcome.generation.is_thinking_forced = index == 2;
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  };
  record(0, "unfinished", "<think>", 0);
  record(1, "empty", "<think></think>Paris", 1);
  record(2, "nested", "<think>", 1);
  record(3, "repeated", "<think>", 0);
  record(4, "closed", "<think>a</think>Paris", 1);
  record(5, "none", "Paris", 1);
  record(6, std::nullopt, "\n <think>Paris", 0);
  record(7, std::nullopt, "Paris <think>", 1);
  const auto reader = *Reader::Open(path_);
  const AnswerCounts counts = reader->CountAnswers(job_id_)->front();
  EXPECT_EQ(counts.answered_count, 8);
  EXPECT_EQ(counts.empty_count + counts.cut_count, 0);
  for (int64_t AnswerCounts::*count :
       {&AnswerCounts::unfinished_count, &AnswerCounts::empty_block_count, &AnswerCounts::nested_count,
        &AnswerCounts::repeated_count, &AnswerCounts::forced_count, &AnswerCounts::scored_thinking_count}) {
    EXPECT_EQ(counts.*count, 1);
  }
  const std::vector<ThinkingCostRow> costs = *reader->ThinkingCosts(job_id_);
  ASSERT_EQ(costs.size(), 1u);
  EXPECT_EQ(costs[0].answer_count, 6);
  EXPECT_EQ(costs[0].thinking_tokens, 6);
  EXPECT_EQ(costs[0].answer_tokens, 4);
  EXPECT_EQ(costs[0].right_count, 4);
  EXPECT_EQ(costs[0].tokens_per_right, 15);
}

// An answer of which filters left nothing is no empty one; without filters, or without text outside of thinking, it is.
TEST_F(ReaderTest, NothingExtractedIsCounted) {
  NewJob job = FakeJob({.planned_count = 8});
  const std::string task = job.cells[0].task;
  job.spec_json = absl::StrCat(R"({"suite":{"tasks":[{"name":"other"},{"name":")", task,
                               R"(","filters":[{"filter":"last_line"}]}]},"thinking_markers":{")", job.variants[0].name,
                               R"(":"[\"<think>\",\"</think>\"]"}})");
  const auto record = [&](int64_t index, const char* raw, const char* answer, const char* state) {
    Outcome outcome = FakeOutcome(cells_[0], job_, execution_id_, index);
    outcome.generation.answer_raw = raw;
    outcome.generation.answer = answer;
    if (state != nullptr) outcome.generation.thinking_state = state;
    outcome.scores = {{"exact_match", 0.0}, {"token_f1", 0.0}};
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  };
  for (const bool has_filters : {true, false}) {
    if (!has_filters) job.spec_json = "{}";
    Open(has_filters ? "filters.db" : "none.db", job);
    record(0, "I cannot say.", "", nullptr);
    record(1, " \n", "", nullptr);
    record(2, "Answer: I cannot say.", "I cannot say.", nullptr);
    record(3, "<think>", "", "unfinished");
    record(4, "<think>Paris?</think>\n", "", "closed");
    record(5, "<think>Paris?</think>\nI cannot say.", "", "closed");
    const AnswerCounts counts = (*Reader::Open(path_))->CountAnswers(job_id_)->front();
    EXPECT_EQ(counts.answered_count, 6);
    EXPECT_EQ(counts.unextracted_count, has_filters ? 2 : 0);
    EXPECT_EQ(counts.empty_count, has_filters ? 2 : 4);
    EXPECT_EQ(counts.refused_count, 1);
    EXPECT_EQ(counts.unfinished_count, 1);
  }
}

TEST_F(ReaderTest, AttentionIsMeansByHeadAndRowsByAnswer) {
  Open("attention.db", FakeJob({.planned_count = 4}));
  const auto record = [&](int64_t index, double score, double evidence) {
    Outcome outcome = FakeOutcome(cells_[1], job_, execution_id_, index);
    outcome.scores = {{"exact_match", score}, {"token_f1", score}};
    for (int64_t head = 0; head < 2; ++head) {
      outcome.attention.push_back({.layer = 3,
                                   .head = head,
                                   .scale = 0.5,
                                   .entropy = 2,
                                   .largest_weight = 0.25,
                                   .first_mass = 0.125,
                                   .evidence_mass = evidence * head,
                                   .distractor_mass = std::nullopt,
                                   .question_mass = 0.5,
                                   .strip = "00ff"});
    }
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  };
  Record(0, 0, 1.0);  // the baseline was not inspected
  record(0, 1, 0.5);
  record(1, 0, 0.25);
  record(2, 1, 0.75);
  auto reader = *Reader::Open(path_);
  const std::vector<AttentionMeansRow> rows = *reader->AttentionMeans(job_id_);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[1].variant, "focal");
  EXPECT_EQ(rows[1].layer, 3);
  EXPECT_EQ(rows[1].head, 1);
  EXPECT_EQ(rows[1].answer_count, 3);
  EXPECT_EQ(rows[1].evidence_mass, 0.5);
  EXPECT_EQ(rows[1].evidence_mass_right, 0.625);
  EXPECT_EQ(rows[1].evidence_mass_wrong, 0.25);
  EXPECT_EQ(rows[0].evidence_mass, 0.0);
  EXPECT_EQ(rows[0].distractor_mass, std::nullopt);
  const std::vector<SampleDetail> details =
      *reader->Samples({.job_id = job_id_, .variant = "focal", .sample_index = 2});
  ASSERT_EQ(details.size(), 1u);
  const std::vector<AttentionHeadRecord> heads = *reader->AttentionHeads(details[0].generation_id);
  ASSERT_EQ(heads.size(), 2u);
  EXPECT_EQ(heads[1].head, 1);
  EXPECT_EQ(heads[1].evidence_mass, 0.75);
  EXPECT_EQ(heads[1].distractor_mass, std::nullopt);
  EXPECT_EQ(heads[1].strip, "00ff");
  EXPECT_EQ(
      sqlite::Database::Open(path_, {.read_only = true}).value()->QueryInt("SELECT count(*) FROM v_attention").value(),
      6);
  writer_.reset();
  {
    auto old = *sqlite::Database::Open(path_, {});
    ASSERT_TRUE(old->Execute("DROP VIEW v_attention; DROP TABLE attention_heads;"
                             "UPDATE schema_version SET version = 6")
                    .ok());
  }
  EXPECT_TRUE((*Reader::Open(path_))->AttentionMeans(job_id_)->empty()) << "a file of an older program";
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

  const auto found = reader->Failures(job_id_);
  ASSERT_TRUE(found.ok()) << found.status();
  const std::vector<FailureGroup>& failures = *found;
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
  absl::Status missing = reader->LatestJob({"other", "focal"}).status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("baseline, other, focal"));
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
