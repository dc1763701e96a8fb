// What the reader counts and averages over answers. Method: a small job written with known answers; numbers by hand.

#include "absl/strings/str_cat.h"
#include "db/refusal.h"
#include "db/sqlite/database.h"
#include "tests/fakes/reader_fixture.h"
#include "tests/support/assign_or_fail.h"

namespace varifocal::db {
namespace {

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
  ASSIGN_OR_FAIL(const auto counts, (*Reader::Open(path_))->CountAnswers(job_id_));
  ASSERT_EQ(counts.size(), 1u);
  EXPECT_EQ(counts.front().answered_count, 2 * std::ssize(kCases));
  EXPECT_EQ(counts.front().refused_count, expected);
  EXPECT_EQ(counts.front().empty_count, 2);
}

TEST_F(ReaderTest, CountsTruncatedPrompts) {
  Open("truncated.db", FakeJob({.variants = {"baseline"}, .planned_count = 4}));
  for (int64_t i = 0; i < 3; ++i) {
    Outcome outcome = FakeOutcome(cells_[0], job_, execution_id_, i);
    if (i < 2) outcome.sample.truncation_json = R"({"cut_token_count":2251,"gold_survived":true})";
    ASSERT_TRUE(writer_->RecordSample(outcome).ok());
  }
  ASSIGN_OR_FAIL(const auto counts, (*Reader::Open(path_))->CountAnswers(job_id_));
  EXPECT_EQ(counts.front().answered_count, 3);
  EXPECT_EQ(counts.front().truncated_count, 2);
  EXPECT_EQ(counts.front().cut_count, 0) << "a truncated prompt is not a cut answer";
  const auto database = *sqlite::Database::Open(path_, {.read_only = true});
  EXPECT_EQ(*database->QueryInt("SELECT sum(is_truncated) FROM v_samples WHERE is_primary"), 2);
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

}  // namespace
}  // namespace varifocal::db
