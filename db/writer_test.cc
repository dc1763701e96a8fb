// The writer: acknowledged data is stored exactly once; answers replace failures, never the reverse. Method: a real database per
// test, checked through ReadPendingSamples, the reader and the error messages.
#include "db/writer.h"

#include <unistd.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "absl/strings/str_cat.h"
#include "base/sha256.h"
#include "db/sqlite/database.h"
#include "gmock/gmock.h"
#include "tests/fakes/writer_fixture.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(WriterTest, ARequestIdNamesOneJob) {
  NewJob job = FakeJob();
  job.request_id = "6f1c";
  job.body_sha256 = "body one";
  ASSIGN_OR_FAIL(auto first, writer_->AddJob(job));
  EXPECT_FALSE(first.is_existing);
  ASSIGN_OR_FAIL(auto again, writer_->AddJob(job));
  EXPECT_TRUE(again.is_existing);
  EXPECT_EQ(again.job_id, first.job_id);
  job.body_sha256 = "body two";
  EXPECT_THAT(writer_->AddJob(job).status(), IsError(absl::StatusCode::kInvalidArgument, HasSubstr("6f1c")));
  job.request_id.reset();
  EXPECT_NE(Add(job), Add(job)) << "without an id every request is a job";
}

TEST_F(WriterTest, NothingOfARefusedJobStays) {
  NewJob job = FakeJob();
  job.cells.push_back({"unknown", "recall", 1024, 4});
  EXPECT_EQ(writer_->AddJob(job).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read()->Jobs()->size(), 0u);
}

TEST_F(WriterTest, ADeletedOrReplacedFileIsNoticedBeforeAnythingIsAcknowledged) {
  const NewJob job = FakeJob();
  const int64_t job_id = Add(job);
  const CellRow cell = (*writer_->Cells(job_id))[0];
  const std::string path = directory_.File("results.db");
  for (const char* suffix : {"", "-wal", ".lock"}) {
    const std::string file = path + suffix;
    const std::string aside = file + ".aside";
    ASSERT_TRUE(writer_->CheckFiles().ok());
    ASSERT_EQ(std::rename(file.c_str(), aside.c_str()), 0) << file;
    for (const char* what : {"deleted", "replaced"}) {
      const absl::Status recorded = writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 0)).status();
      EXPECT_TRUE(absl::IsDataLoss(recorded)) << file << " " << what << ": " << recorded;
      EXPECT_THAT(recorded.message(), HasSubstr(file));
      EXPECT_THAT(recorded.message(), HasSubstr(what));
      EXPECT_TRUE(absl::IsDataLoss(writer_->AddJob(job).status()));
      EXPECT_TRUE(absl::IsDataLoss(writer_->SetJobState(job_id, JobState::kRunning)));
      EXPECT_TRUE(absl::IsDataLoss(writer_->AddExecution(FakeExecution()).status()));
      testing_support::WriteFile(file, "another file");
    }
    ASSERT_EQ(std::rename(aside.c_str(), file.c_str()), 0);
  }
  EXPECT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 0)).ok()) << "the files are restored";
}

// Run by the next test in a process of its own.
TEST(ForeignConnection, DISABLED_OpensAndCloses) {
  const char* path = std::getenv("VARIFOCAL_FOREIGN_DB");
  ASSERT_NE(path, nullptr);
  ASSIGN_OR_FAIL(auto database, sqlite::Database::Open(path, {}));
  EXPECT_TRUE(database->QueryInt("SELECT count(*) FROM jobs").ok());
}

// A program that opens the database for reading, for example Python, detects by SQLite's locks that it is in use.
TEST_F(WriterTest, AForeignConnectionThatClosesLeavesTheWriteAheadLog) {
  const NewJob job = FakeJob();
  const int64_t job_id = Add(job);
  const auto reader = Read();  // in the same process, as in the daemon
  const auto other =
      testing_support::RunProcess("db_test", {"--gtest_also_run_disabled_tests", "--gtest_filter=ForeignConnection.*"},
                                  {.environment = {absl::StrCat("VARIFOCAL_FOREIGN_DB=", path_)}});
  ASSERT_EQ(other.exit_code, 0) << other.out << other.err;
  EXPECT_EQ(access((path_ + "-wal").c_str(), F_OK), 0);
  EXPECT_TRUE(writer_->CheckFiles().ok()) << writer_->CheckFiles();
  EXPECT_TRUE(writer_->RecordSample(FakeOutcome((*writer_->Cells(job_id))[0], job, execution_id_, 0)).ok());
}

TEST_F(WriterTest, AfterACheckpointTheFileAloneIsComplete) {
  const int64_t job_id = Add(FakeJob());
  int copy_count = 0;
  const auto is_in_copy = [&] {
    const std::string copy = directory_.File(absl::StrCat("copy", copy_count++, ".db"));
    testing_support::WriteFile(copy, testing_support::ReadFile(directory_.File("results.db")));
    auto reader = Reader::Open(copy);
    return reader.ok() && (*reader)->Job(job_id).ok();
  };
  EXPECT_FALSE(is_in_copy()) << "the control: it is in the write-ahead log";
  ASSERT_TRUE(writer_->Checkpoint().ok());
  EXPECT_TRUE(is_in_copy());
  auto busy = *sqlite::Database::Open(directory_.File("results.db"), {.read_only = true});
  auto reading = *sqlite::Transaction::Begin(*busy, sqlite::Transaction::Kind::kRead);
  ASSERT_TRUE(busy->QueryInt("SELECT count(*) FROM jobs").ok());
  Add(FakeJob());
  EXPECT_TRUE(absl::IsUnavailable(writer_->Checkpoint())) << "a reader is in the way";
}

TEST_F(WriterTest, AFileOfVersionTwoIsMigratedAndKeepsItsRows) {
  const int64_t job_id = Add(FakeJob());
  writer_.reset();
  const std::string path = directory_.File("results.db");
  {
    auto old = *sqlite::Database::Open(path, {});
    ASSERT_TRUE(
        old->Execute(
               "DROP TRIGGER generations_count_insert; DROP TRIGGER generations_count_delete;"
               "DROP TRIGGER generations_count_update; DROP TABLE cell_counts;"
               "DROP VIEW v_variants; ALTER TABLE models DROP COLUMN function_sha256;"
               "ALTER TABLE models DROP COLUMN function_json; ALTER TABLE models DROP COLUMN parameter_count;"
               "ALTER TABLE models DROP COLUMN training_arm; ALTER TABLE models DROP COLUMN training_seed;"
               "ALTER TABLE models DROP COLUMN training_tokens;"
               "DROP VIEW v_attention; DROP TABLE attention_heads; DROP TABLE deleted_jobs;"
               "DROP TABLE called_models; DROP TABLE mixed_jobs; DROP TABLE job_charges; DROP TABLE job_starts; DROP VIEW "
               "v_samples; CREATE VIEW v_samples AS SELECT 1 AS job_id; DROP VIEW v_pairs;"
               "ALTER TABLE samples DROP COLUMN depth; ALTER TABLE samples DROP COLUMN epoch;"
               "ALTER TABLE models DROP COLUMN focal_temperature_json;"
               "ALTER TABLE generations DROP COLUMN pairs_visible_share;"
               "ALTER TABLE generations DROP COLUMN largest_group_share;"
               "ALTER TABLE score_imports DROP COLUMN import_id; ALTER TABLE score_imports DROP COLUMN cells_json;"
               "ALTER TABLE generations DROP COLUMN thinking_state;"
               "ALTER TABLE generations DROP COLUMN thinking_token_count;"
               "ALTER TABLE generations DROP COLUMN is_thinking_forced;"
               "UPDATE schema_version SET version = 2")
            .ok());
  }
  EXPECT_EQ((*Reader::Open(path))->Job(job_id)->state, JobState::kQueued) << "readers accept the old file unmigrated";
  writer_ = *Writer::Open(path, clock_);
  ASSERT_TRUE(writer_->SetJobState(job_id, JobState::kRunning).ok());
  EXPECT_EQ(Read()->Job(job_id)->state, JobState::kRunning);
}

TEST_F(WriterTest, ARequestIsFoundBeforeItsJobIsMadeAgain) {
  NewJob job = FakeJob();
  job.request_id = "6f1c";
  job.body_sha256 = "as it was sent";
  const int64_t job_id = Add(job);
  EXPECT_EQ(*writer_->FindRequest("6f1c", "as it was sent"), job_id);
  EXPECT_EQ(*writer_->FindRequest("6f1c", "something else"), std::nullopt);
  EXPECT_EQ(*writer_->FindRequest("6f1d", "as it was sent"), std::nullopt);
  NewJob old = FakeJob();
  old.request_id = "0a";
  old.body_sha256 = Sha256Hex(old.spec_json);  // as version 2 wrote it
  const int64_t old_id = Add(old);
  old.body_sha256 = "as it was sent";
  EXPECT_EQ(writer_->AddJob(old)->job_id, old_id);
}

// The counts that triggers keep, against the rows themselves: failures, answers that replace them, two executions.
TEST_F(WriterTest, CountsAreThoseOfTheRows) {
  const NewJob job = FakeJob({.lengths = {1024, 2048}, .planned_count = 6});
  const int64_t job_id = Add(job);
  const int64_t other_execution = *writer_->AddExecution(FakeExecution());
  const auto expect_equal = [&](const char* when) {
    auto database = *sqlite::Database::Open(path_, {.read_only = true});
    const std::vector<CellRow> cells = *Read()->Cells(job_id);
    for (const CellRow& cell : cells) {
      const auto count = [&](const char* condition) {
        return **database->QueryInt(
            absl::StrCat("SELECT count(*) FROM generations WHERE cell_id = ? AND error_code IS ", condition),
            cell.cell_id);
      };
      EXPECT_EQ(cell.answered_count, count("NULL")) << when;
      EXPECT_EQ(cell.failed_count, count("NOT NULL")) << when;
    }
  };
  const std::vector<CellRow> cells = *writer_->Cells(job_id);
  for (const CellRow& cell : cells) {
    for (int64_t i = 0; i < 4; ++i) {
      ASSERT_TRUE(writer_->RecordSample((i < 2 ? FakeOutcome : FakeFailure)(cell, job, execution_id_, i)).ok());
    }
  }
  expect_equal("failures and answers");
  EXPECT_EQ(Read()->Job(job_id)->failed_count, 2 * std::ssize(cells));
  EXPECT_EQ(*writer_->RecordSample(FakeOutcome(cells[0], job, other_execution, 2)), RecordResult::kReplacedFailure);
  EXPECT_EQ(*writer_->RecordSample(FakeFailure(cells[1], job, other_execution, 2)), RecordResult::kReplacedFailure);
  EXPECT_EQ(*writer_->RecordSample(FakeFailure(cells[0], job, other_execution, 2)), RecordResult::kAlreadyAnswered);
  expect_equal("another execution");
  EXPECT_EQ(Read()->Job(job_id)->answered_count, 2 * std::ssize(cells) + 1);
  auto database = *sqlite::Database::Open(path_, {});
  ASSERT_TRUE(
      database
          ->Execute("UPDATE generations SET error_code = 'X', error_message = 'x', finish_reason = NULL, answer = NULL,"
                    " answer_raw = NULL, execution_id = 1 WHERE generation_id % 2")
          .ok());
  expect_equal("rows that another program changed");
  ASSERT_TRUE(database->Execute("DELETE FROM scores; DELETE FROM attention_heads; DELETE FROM generations").ok());
  expect_equal("none left");
  EXPECT_EQ(**database->QueryInt("SELECT count(*) FROM cell_counts"), 0);
}

TEST_F(WriterTest, FailuresGiveWayToAnswersAndAnswersStay) {
  const NewJob job = FakeJob({.planned_count = 3});
  const CellRow cell = (*writer_->Cells(Add(job)))[0];
  EXPECT_THAT(*writer_->ReadPendingSamples(cell.cell_id), ElementsAre(0, 1, 2));

  EXPECT_EQ(*writer_->RecordSample(FakeFailure(cell, job, execution_id_, 1)), RecordResult::kRecorded);
  EXPECT_EQ(*writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 2)), RecordResult::kRecorded);
  EXPECT_THAT(*writer_->ReadPendingSamples(cell.cell_id), ElementsAre(0, 1));

  EXPECT_EQ(*writer_->RecordSample(FakeFailure(cell, job, execution_id_, 1)), RecordResult::kReplacedFailure);
  Outcome third_try = FakeOutcome(cell, job, execution_id_, 1);
  third_try.attempt_count = 3;
  EXPECT_EQ(*writer_->RecordSample(third_try), RecordResult::kReplacedFailure);
  EXPECT_EQ(*writer_->RecordSample(FakeFailure(cell, job, execution_id_, 1)), RecordResult::kAlreadyAnswered);
  Outcome other = FakeOutcome(cell, job, execution_id_, 1);
  other.generation.answer = "something else";
  EXPECT_EQ(*writer_->RecordSample(other), RecordResult::kAlreadyAnswered);

  std::vector<SampleDetail> rows = *Read()->Samples({.job_id = cell.job_id, .sample_index = 1});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].generation.answer, FakeOutcome(cell, job, execution_id_, 1).generation.answer);
  EXPECT_EQ(rows[0].attempt_count, 5) << "two failures, then three requests";
  EXPECT_EQ(rows[0].scores.size(), 2u);
  CellRow after = (*writer_->Cells(cell.job_id))[0];
  EXPECT_EQ(after.answered_count, 2);
  EXPECT_EQ(after.failed_count, 0);
}

TEST_F(WriterTest, ImportedScoresJoinAnswersAndDoNotStandInTheWayOfOthers) {
  const NewJob job = FakeJob({.planned_count = 3});
  const int64_t job_id = Add(job);
  const CellRow cell = (*writer_->Cells(job_id))[0];
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 0)).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeFailure(cell, job, execution_id_, 1)).ok());
  const std::vector<SampleDetail> rows = *Read()->Samples({.job_id = job_id});
  const int64_t answered = rows[0].generation_id, failed = rows[1].generation_id;
  const std::string digest(64, 'a');
  const ScoreImport good = {"baseline", "imported/judge", "judged.jsonl", digest, {{answered, 0.25}}};
  ASSERT_TRUE(writer_->ImportScores(job_id, {good}).ok());

  // A later answer of the same task needs no imported score; the same judge may import again.
  EXPECT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 2)).ok());
  ScoreImport again = good;
  again.values[0].value = 1;
  ASSERT_TRUE(writer_->ImportScores(job_id, {again}).ok());
  const std::vector<TaskMetricRecord> metrics = *Read()->Metrics(job_id);
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[2].metric, "imported/judge");
  EXPECT_EQ(metrics[2].best_value, 1.0);
  EXPECT_EQ(Read()->Samples({.job_id = job_id, .sample_index = 0})->at(0).scores[2].value, 1.0);
  const std::vector<ScoreImportRow> imports = *Read()->ScoreImports(job_id);
  ASSERT_EQ(imports.size(), 2u);
  EXPECT_EQ(imports[0].source, "judged.jsonl");
  EXPECT_EQ(imports[0].value_count, 1);

  struct Bad {
    ScoreImport import;
    const char* message;
  };
  const Bad bads[] = {
      {{"baseline", "exact_match", "f", digest, {{answered, 1}}}, "must begin with imported/"},
      {{"baseline", "imported/x", "f", digest, {{answered, 1.5}}}, "is 1.5; it must be from 0 to 1"},
      {{"baseline", "imported/x", "f", digest, {{answered, std::nan("")}}}, "it must be from 0 to 1"},
      {{"baseline", "imported/x", "f", digest, {{answered, 1}, {failed, 1}}}, "is no answer of baseline"},
      {{"focal", "imported/x", "f", digest, {{answered, 1}}}, "is no answer of focal"},
  };
  for (const Bad& bad : bads) {
    const absl::Status status = writer_->ImportScores(job_id, {bad.import});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.message;
    EXPECT_THAT(std::string(status.message()), HasSubstr(bad.message));
  }
  EXPECT_EQ(Read()->Metrics(job_id)->size(), 3u) << "a refused import leaves nothing";
}

TEST_F(WriterTest, AnImportReplacesWhatAnotherLeftInItsCells) {
  const NewJob job = FakeJob({.lengths = {1024, 2048}, .planned_count = 3});
  const int64_t job_id = Add(job);
  const std::vector<CellRow> cells = *writer_->Cells(job_id);
  const CellRow& first = cells[0];
  const CellRow& other = *std::find_if(cells.begin() + 1, cells.end(), [&](const CellRow& cell) {
    return cell.cell.variant == first.cell.variant && cell.cell.task == first.cell.task;
  });
  std::vector<int64_t> answers;
  for (int64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(writer_->RecordSample(FakeOutcome(i < 3 ? first : other, job, execution_id_, i % 3)).ok());
    answers.push_back(i + 1);
  }
  const auto import = [&](const std::string& id, const std::vector<size_t>& scored, double value) {
    ScoreImport one{first.cell.variant, "imported/judge", "f", std::string(64, 'a'), {}, id};
    for (const size_t i : scored) one.values.push_back({answers[i], value});
    ASSERT_TRUE(writer_->ImportScores(job_id, {one}).ok());
  };
  const auto stored = [&] {
    std::vector<double> found(answers.size(), -1);
    const std::vector<SampleDetail> rows = *Read()->Samples({.job_id = job_id});
    for (const SampleDetail& row : rows) {
      for (const ScoreRecord& score : row.scores) {
        if (score.metric == "imported/judge") found[row.generation_id - 1] = score.value;
      }
    }
    return found;
  };
  import("first", {0, 1, 2, 3}, 1);
  EXPECT_THAT(stored(), ElementsAre(1, 1, 1, 1));
  import("second", {1}, 0.5);
  EXPECT_THAT(stored(), ElementsAre(-1, 0.5, -1, 1)) << "another cell keeps its scores";
  import("second", {2}, 0.25);
  EXPECT_THAT(stored(), ElementsAre(-1, 0.5, 0.25, 1)) << "parts of an import do not replace each other";
  import("third", {3}, 0);
  import("second", {0}, 0.75);
  EXPECT_THAT(stored(), ElementsAre(0.75, 0.5, 0.25, 0)) << "the last import of that cell is still the second";
}

TEST_F(WriterTest, OutcomesThatDoNotFitAreRefusedWhole) {
  const NewJob job = FakeJob({.planned_count = 3});
  const CellRow cell = (*writer_->Cells(Add(job)))[0];
  const Outcome good = FakeOutcome(cell, job, execution_id_, 0);
  struct Case {
    std::string message;
    std::function<void(Outcome&)> spoil;
  };
  const std::vector<Case> cases = {
      {"does not belong to cell", [](Outcome& o) { o.sample.task = "icl"; }},
      {"does not belong to cell", [](Outcome& o) { o.sample.context_length = 2048; }},
      {"beyond the 3 planned", [](Outcome& o) { o.sample.sample_index = 3; }},
      {"was made with tokenizer", [](Outcome& o) { o.sample.tokenizer_sha256 = std::string(64, 'a'); }},
      {"needs [exact_match, token_f1]", [](Outcome& o) { o.scores.pop_back(); }},
      {"needs [exact_match, token_f1]", [](Outcome& o) { o.scores[1].metric = "exact_match"; }},
      {"not finite", [](Outcome& o) { o.scores[1].value = NAN; }},
      {"needs []", [](Outcome& o) { o.generation.error_code = "INTERNAL"; }},
      {"no cell 77", [](Outcome& o) { o.cell_id = 77; }},
      {"FOREIGN KEY", [](Outcome& o) { o.execution_id = 77; }},
      {"json_valid", [](Outcome& o) { o.sample.gold_json = "[amber]"; }},
      {"excerpt", [](Outcome& o) { o.sample.excerpt = std::string(4097, 'x'); }},
  };
  for (const Case& c : cases) {
    Outcome bad = good;
    c.spoil(bad);
    absl::Status status = writer_->RecordSample(bad).status();
    EXPECT_FALSE(status.ok()) << c.message;
    EXPECT_THAT(status.message(), HasSubstr(c.message));
  }
  EXPECT_EQ(Read()->Job(cell.job_id)->answered_count, 0);
  EXPECT_EQ(*writer_->RecordSample(good), RecordResult::kRecorded);

  // The other variant must have been asked the same prompt.
  const CellRow focal = (*writer_->Cells(cell.job_id))[1];
  Outcome moved = FakeOutcome(focal, job, execution_id_, 0);
  moved.sample.token_ids_sha256 = std::string(64, 'b');
  EXPECT_EQ(writer_->RecordSample(moved).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(WriterTest, SamplesAreRecordedTogetherOrNotAtAll) {
  const NewJob job = FakeJob({.planned_count = 4});
  const std::vector<CellRow> cells = *writer_->Cells(Add(job));
  std::vector<Outcome> batch;
  for (int64_t i = 0; i < 3; ++i) {
    for (const CellRow& cell : cells) batch.push_back(FakeOutcome(cell, job, execution_id_, i));
  }
  std::vector<Outcome> bad = batch;
  bad.back().scores.pop_back();
  EXPECT_EQ(writer_->RecordSamples(bad).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Read()->Job(cells[0].job_id)->answered_count, 0);
  EXPECT_THAT(*writer_->ReadPendingSamples(cells[0].cell_id), ElementsAre(0, 1, 2, 3));

  EXPECT_EQ(*writer_->RecordSample(batch[2]), RecordResult::kRecorded);
  EXPECT_EQ(*writer_->RecordSamples(batch),
            (std::vector<RecordResult>{RecordResult::kRecorded, RecordResult::kRecorded, RecordResult::kAlreadyAnswered,
                                       RecordResult::kRecorded, RecordResult::kRecorded, RecordResult::kRecorded}));
  EXPECT_EQ(Read()->Job(cells[0].job_id)->answered_count, 6);
  EXPECT_THAT(*writer_->ReadPendingSamples(cells[1].cell_id), ElementsAre(3));
  EXPECT_TRUE(writer_->RecordSamples({})->empty());
}

TEST_F(WriterTest, AnAnswerMayLackTheScoresOfItsGoldAnswer) {
  NewJob job = FakeJob({.planned_count = 2});
  job.metrics.push_back({"recall", "gold/log_likelihood", 2, false, {}, {}});
  const CellRow cell = (*writer_->Cells(Add(job)))[0];
  Outcome without = FakeOutcome(cell, job, execution_id_, 0);
  std::erase_if(without.scores, [](const ScoreRecord& score) { return score.metric == "gold/log_likelihood"; });
  EXPECT_EQ(*writer_->RecordSample(without), RecordResult::kRecorded);
  Outcome with = FakeOutcome(cell, job, execution_id_, 1);
  std::erase_if(with.scores, [](const ScoreRecord& score) { return score.metric == "gold/log_likelihood"; });
  with.scores.push_back({"gold/log_likelihood", -3.5});
  with.scores.push_back({"gold/other", -3.5});
  EXPECT_FALSE(writer_->RecordSample(with).ok()) << "a metric that the task lacks";
  with.scores.pop_back();
  EXPECT_EQ(*writer_->RecordSample(with), RecordResult::kRecorded);
  EXPECT_EQ(Read()->Job(cell.job_id)->answered_count, 2);
}

TEST_F(WriterTest, ASampleWithoutAPromptIsCompletedLater) {
  const NewJob job = FakeJob({.planned_count = 1});
  const CellRow cell = (*writer_->Cells(Add(job)))[0];
  Outcome failure = FakeFailure(cell, job, execution_id_, 0);
  failure.sample.token_ids_sha256.reset();
  failure.sample.prompt_token_count.reset();
  ASSERT_TRUE(writer_->RecordSample(failure).ok());
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 0)).ok());
  EXPECT_EQ((*Read()->Samples({.job_id = cell.job_id}))[0].sample.prompt_token_count, 1014);
}

TEST_F(WriterTest, ResumeNeedsTheSameModelsAndTheSameMachineCode) {
  const NewJob job = FakeJob({.planned_count = 2});
  const int64_t job_id = Add(job);
  const CellRow cell = (*writer_->Cells(job_id))[0];
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, execution_id_, 0)).ok());
  struct Case {
    const char* what;
    void (*change)(ExecutionRecord&);
    bool is_same;
  };
  const Case cases[] = {
      {"threads", [](ExecutionRecord& e) { e.thread_count = 64; }, true},
      {"device", [](ExecutionRecord& e) { e.device = "another of the kind"; }, true},
      {"code", [](ExecutionRecord& e) { e.code_version = "0.2.0"; }, false},
      {"backend", [](ExecutionRecord& e) { e.backend = "cuda"; }, false},
      {"instruction set", [](ExecutionRecord& e) { e.instruction_set = "sse2"; }, false},
  };
  for (const Case& c : cases) {
    ExecutionRecord execution = FakeExecution();
    c.change(execution);
    const int64_t id = *writer_->AddExecution(execution);
    absl::Status status = writer_->CheckResume(job_id, id, job.variants, false);
    EXPECT_EQ(status.ok(), c.is_same) << c.what << status;
    if (!c.is_same) {
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << c.what;
    }
    EXPECT_TRUE(writer_->CheckResume(job_id, id, job.variants, true).ok()) << c.what;
  }
  std::vector<VariantRecord> changed = job.variants;
  changed[1].model.weights_sha256 = std::string(64, 'c');
  absl::Status other = writer_->CheckResume(job_id, execution_id_, changed, true);
  EXPECT_THAT(other, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("weights")));

  // The same weights under another configuration are another model, with allow_mixed, too; the message has both values.
  changed = job.variants;
  changed[1].model.function_json = R"({"ropes":"linear theta=10000 factor=4"})";
  other = writer_->CheckResume(job_id, execution_id_, changed, true);
  EXPECT_THAT(other, IsError(absl::StatusCode::kFailedPrecondition,
                             Message("\"linear theta=10000 factor=4\"", "\"default theta=10000\"")));
  // A configuration that was not recorded is equal to none, unless it is accepted.
  for (const bool was_recorded : {false, true}) {
    NewJob old = job;
    for (VariantRecord& variant : old.variants) {
      if (!was_recorded) variant.model.function_json.reset();
    }
    const int64_t old_id = Add(old);
    std::vector<VariantRecord> now = job.variants;
    if (was_recorded) now[0].model.function_json.reset();
    other = writer_->CheckResume(old_id, execution_id_, now, false);
    EXPECT_THAT(other, IsError(absl::StatusCode::kFailedPrecondition, HasSubstr("not recorded")));
    EXPECT_TRUE(writer_->CheckResume(old_id, execution_id_, now, true).ok());
  }

  // Permitted with allow_mixed, and labelled.
  EXPECT_FALSE(Read()->Job(job_id)->is_mixed);
  ExecutionRecord cuda = FakeExecution();
  cuda.backend = "cuda";
  ASSERT_TRUE(writer_->RecordSample(FakeOutcome(cell, job, *writer_->AddExecution(cuda), 1)).ok());
  EXPECT_TRUE(Read()->Job(job_id)->is_mixed);
  EXPECT_EQ(Read()->Executions(job_id)->size(), 2u);
}

TEST_F(WriterTest, ASecondWriterIsRefusedWithTheHoldersPid) {
  EXPECT_THAT(Writer::Open(path_).status(),
              IsError(absl::StatusCode::kFailedPrecondition, HasSubstr(absl::StrCat("process ", getpid()))));
  // Also through a symbolic link.
  const std::string alias = directory_.File("alias.db");
  ASSERT_EQ(symlink(path_.c_str(), alias.c_str()), 0);
  EXPECT_FALSE(Writer::Open(alias).ok());
  writer_.reset();
  EXPECT_TRUE(Writer::Open(alias).ok());
  EXPECT_EQ(testing_support::ReadFile(path_ + ".lock"), "") << "a clean end removes the lock file";
}

}  // namespace
}  // namespace varifocal::db
