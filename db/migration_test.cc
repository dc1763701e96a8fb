// Migration: a version 1 database with rows in every table, as the first release wrote it, can be read unmigrated, is
// copied before it is changed, and is migrated without losing a row.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "db/reader.h"
#include "db/resume.h"
#include "db/schema.h"
#include "db/sqlite/database.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

constexpr char kRows[] = R"(
INSERT INTO executions (
  execution_id, code_version, backend, instruction_set, device, host, thread_count, command_line, start_us) VALUES
  (1, '0.0.1', 'cpu', 'avx2', 'a cpu', 'a host', 2, 'varifocald --db=x', 1000);
INSERT INTO models (
  model_id, name, architecture, weights_sha256, tokenizer_sha256, dtype, attention_json, context_length_max,
  trained_context_length) VALUES
  (1, 'base', 'llama', printf('%064d', 1), printf('%064d', 2), 'f32',
  '{"focal_attention":{"temperature":0.5}}', 4096, 1024);
INSERT INTO jobs (
  job_id, suite, spec_json, spec_sha256, data_seed, request_id, body_sha256, state, error, create_us,
  start_us, end_us) VALUES
  (1, 'quick', '{}', printf('%064d', 3), 7, 'an id', printf('%064d', 3), 'succeeded', NULL, 1, 2, 3);
INSERT INTO jobs (
  job_id, suite, spec_json, spec_sha256, data_seed, request_id, body_sha256, state, error, create_us,
  start_us, end_us) VALUES
  (2, 'quick', '{}', printf('%064d', 3), 7, NULL, NULL, 'running', NULL, 4, 5, NULL);
INSERT INTO variants (
  variant_id, job_id, variant_index, name, model_id, focal_temperature_json) VALUES
  (1, 1, 0, 'base', 1, NULL), (2, 2, 0, 'base', 1, '0.7');
INSERT INTO task_metrics (
  job_id, task, metric, metric_index, is_binary, worst_value, best_value) VALUES
  (1, 'recall', 'exact_match', 0, 1, 0.0, 1.0), (2, 'recall', 'exact_match', 0, 1, 0.0, 1.0);
INSERT INTO cells (
  cell_id, variant_id, task, context_length, planned_count) VALUES
  (1, 1, 'recall', 1024, 2), (2, 2, 'recall', 1024, 2);
INSERT INTO samples (
  sample_id, job_id, task, context_length, sample_index, tokenizer_sha256, question_id, cluster, row_id,
  token_ids_sha256, prompt_token_count, new_token_count_max, gold_json, continuations_json, evidence_json,
  truncation_json, excerpt, prompt) VALUES
  (1, 1, 'recall', 1024, 0, printf('%064d', 2), 'q0', 'c0', '0', printf('%064d', 4), 1000, 8, '["x"]', NULL,
   '[{"token_begin":250,"token_end":260}]', NULL, 'an excerpt', NULL),
  (2, 1, 'recall', 1024, 1, printf('%064d', 2), 'q1', 'c0', '1', NULL, NULL, 8, '["y"]', NULL, NULL, NULL, NULL, NULL);
INSERT INTO generations (
  generation_id, cell_id, sample_id, execution_id, attempt_count, record_us, finish_reason, answer_raw,
  answer, log_likelihoods_json, new_token_count, cached_token_count, queue_us, prefill_us, decode_us,
  tau_low_share, tau_high_share, is_extrapolated, error_code, error_message) VALUES
  (1, 1, 1, 1, 1, 10, 'stop', ' x', 'x', NULL, 3, 0, 1, 2, 3, NULL, NULL, 0, NULL, NULL),
  (2, 1, 2, 1, 2, 11, NULL, NULL, NULL, NULL, 0, 0, 0, 0, 0, NULL, NULL, 0, 'OUT_OF_RANGE', 'too long');
INSERT INTO scores (
  generation_id, metric, value) VALUES
  (1, 'exact_match', 1.0);
)";

// Views of version 1, with fewer columns than now, and one that a user added.
constexpr char kOldViews[] = R"(
CREATE VIEW v_samples (job_id, answer) AS
  SELECT cells.task, generations.answer FROM generations JOIN cells ON cells.cell_id = generations.cell_id;
CREATE VIEW v_pairs (job_id) AS SELECT job_id FROM jobs;
CREATE VIEW mine AS SELECT answer FROM v_samples;
)";

class MigrationTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto database = *sqlite::Database::Open(path_, {});
    ASSERT_TRUE(database->SetApplicationId(kApplicationId).ok());
    ASSERT_TRUE(database->Execute(testing_support::ReadFile("db/migrations/0001_first_schema.sql")).ok());
    const absl::Status filled = database->Execute(kRows);
    ASSERT_TRUE(filled.ok()) << filled;
  }
  static int64_t Version(const std::string& path) {
    auto database = sqlite::Database::Open(path, {.read_only = true});
    return database.ok() ? (*database)->QueryInt("SELECT version FROM schema_version")->value_or(-1) : -1;
  }
  // Every row of the tables of version 1, as text.
  static std::string Rows(const std::string& path) {
    auto database = *sqlite::Database::Open(path, {.read_only = true});
    std::string all;
    for (const char* columns :
         {"* FROM executions", "name, weights_sha256, attention_json, trained_context_length FROM models",
          "job_id, suite, request_id, body_sha256, create_us, start_us FROM jobs", "* FROM variants",
          "* FROM task_metrics", "* FROM cells",
          "sample_id, job_id, question_id, token_ids_sha256, evidence_json, excerpt FROM samples",
          "generation_id, cell_id, sample_id, execution_id, attempt_count, record_us, finish_reason, answer_raw, "
          "answer, new_token_count, prefill_us, is_extrapolated, error_code, error_message FROM generations",
          "* FROM scores"}) {
      auto statement = *database->Prepare(absl::StrCat("SELECT ", columns));
      while (*statement.Step()) {
        for (int i = 0; i < statement.ColumnCount(); ++i) absl::StrAppend(&all, statement.Text(i), "|");
        all += "\n";
      }
    }
    return all;
  }
  static std::string Views(const std::string& path) {
    auto database = *sqlite::Database::Open(path, {.read_only = true});
    auto statement =
        *database->Prepare("SELECT sql FROM sqlite_schema WHERE type = 'view' AND name GLOB 'v_*' ORDER BY 1");
    std::string all;
    while (*statement.Step()) absl::StrAppend(&all, statement.Text(0), "\n");
    return all;
  }
  std::vector<std::string> Backups() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path())) {
      const std::string name = entry.path().filename().string();
      if (name.find("backup") != name.npos) names.push_back(name);
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("r.db");
};

TEST_F(MigrationTest, AFileOfVersionOneKeepsItsRowsAndACopy) {
  const std::string before = Rows(path_);
  ASSERT_THAT(before, testing::HasSubstr("too long"));
  {
    const auto reader = *Reader::Open(path_);
    EXPECT_EQ(reader->Job(1)->answered_count, 1) << "readers accept the old file unmigrated";
    ASSIGN_OR_FAIL(const auto variants, reader->Variants(1));
    EXPECT_FALSE(variants.empty());
    EXPECT_EQ(Version(path_), 1);
  }
  {
    ASSIGN_OR_FAIL(auto writer, Writer::Open(path_));
    EXPECT_EQ(Version(path_), kSchemaVersion);
    EXPECT_EQ(Rows(path_), before);
    const auto reader = *Reader::Open(path_);
    EXPECT_EQ(reader->Job(1)->answered_count, 1);
    EXPECT_EQ(reader->Job(1)->failed_count, 1);
    EXPECT_EQ(reader->Cells(1)->at(0).answered_count, 1);
    EXPECT_EQ(reader->Cells(1)->at(0).failed_count, 1);
    auto database = *sqlite::Database::Open(path_, {.read_only = true});
    EXPECT_EQ(database->QueryInt("SELECT depth * 1000 FROM samples WHERE sample_id = 1")->value_or(0), 250);
    ASSERT_TRUE(writer->RecoverInterruptedJobs().ok());
    EXPECT_EQ(**writer->NextQueuedJob(), 2) << "a running job is queued again";
    EXPECT_TRUE(writer->AddExecution({}).ok());
  }
  ASSERT_EQ(Backups(), std::vector<std::string>{"r.db.version-1.backup"});
  const std::string backup = directory_.File("r.db.version-1.backup");
  EXPECT_EQ(Version(backup), 1);
  EXPECT_EQ(Rows(backup), before);
  struct stat info;
  ASSERT_EQ(stat(backup.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  ASSERT_TRUE(Writer::Open(path_).ok());
  EXPECT_EQ(Backups().size(), 1u) << "a file of this version is not copied";
}

TEST_F(MigrationTest, AnEarlierCopyIsKept) {
  testing_support::WriteFile(directory_.File("r.db.version-1.backup"), "of last year");
  ASSERT_TRUE(Writer::Open(path_).ok());
  EXPECT_EQ(Backups(), (std::vector<std::string>{"r.db.version-1.2.backup", "r.db.version-1.backup"}));
  EXPECT_EQ(testing_support::ReadFile(directory_.File("r.db.version-1.backup")), "of last year");
  EXPECT_EQ(Version(directory_.File("r.db.version-1.2.backup")), 1);
}

// The file of version one brought to each later version by the files of the migrations up to it.
TEST_F(MigrationTest, AFileOfEachVersionKeepsItsRowsAndACopy) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator("db/migrations")) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  ASSERT_EQ(std::ssize(files), kSchemaVersion);
  const std::string before = Rows(path_);
  const std::string new_path = directory_.File("new.db");
  ASSERT_TRUE(Writer::Open(new_path).ok());
  ASSERT_THAT(Views(new_path), testing::HasSubstr("CREATE VIEW v_samples AS"));
  for (int version = 1; version < kSchemaVersion; ++version) {
    SCOPED_TRACE(version);
    const std::string path = directory_.File(absl::StrCat("v", version, ".db"));
    std::filesystem::copy_file(path_, path);
    {
      auto database = *sqlite::Database::Open(path, {});
      for (int i = 1; i < version; ++i) {
        const absl::Status applied = database->Execute(testing_support::ReadFile(files[i]));
        ASSERT_TRUE(applied.ok()) << files[i] << ": " << applied;
      }
      const absl::Status views = database->Execute(kOldViews);
      ASSERT_TRUE(views.ok()) << views;
    }
    ASSERT_EQ(Version(path), version);
    auto writer = Writer::Open(path);
    ASSERT_TRUE(writer.ok()) << writer.status();
    EXPECT_EQ(Version(path), kSchemaVersion);
    EXPECT_EQ(Rows(path), before);
    const auto reader = *Reader::Open(path);
    EXPECT_EQ(reader->Job(1)->answered_count, 1);
    EXPECT_EQ(reader->Job(1)->failed_count, 1);
    EXPECT_EQ(reader->Cells(1)->at(0).answered_count, 1);
    EXPECT_EQ(Version(absl::StrCat(path, ".version-", version, ".backup")), version);
    // No file of an earlier version has the function of its models: they are equal to none, themselves included.
    const VariantRecord old = reader->Variants(1)->at(0);
    EXPECT_EQ(old.model.function_json, std::nullopt);
    EXPECT_TRUE(FindModelDifference(old, old, /*allow_unrecorded=*/false).has_value());
    EXPECT_FALSE(FindModelDifference(old, old, /*allow_unrecorded=*/true).has_value());
    EXPECT_EQ(Views(path), Views(new_path)) << "the newest text, whatever the file had";
    auto database = *sqlite::Database::Open(path, {.read_only = true});
    EXPECT_EQ(database->QueryInt("SELECT count(answer) FROM mine")->value_or(-1), 1) << "a view of the user";
    EXPECT_EQ(database->QueryInt("SELECT count(*) FROM v_samples WHERE is_truncated = 0")->value_or(-1), 2);
    EXPECT_EQ(database->QueryInt("SELECT count(token_ids_sha256) FROM v_samples")->value_or(-1), 1)
        << "the failed sample has no prompt";
    EXPECT_TRUE(database->QuickCheck().ok());
    EXPECT_EQ(database->QueryInt("SELECT count(*) FROM pragma_foreign_key_check")->value_or(-1), 0);
  }
}

TEST_F(MigrationTest, WithoutACopyNothingIsChanged) {
  std::filesystem::create_directory(directory_.File("r.db.version-1.backup.part"));  // the directory of the copy
  testing_support::WriteFile(directory_.File("r.db.version-1.backup.part/x"), "x");
  const auto writer = Writer::Open(path_);
  ASSERT_FALSE(writer.ok());
  EXPECT_THAT(writer.status().message(), Message("r.db"));
  EXPECT_EQ(Version(path_), 1);
}

TEST_F(MigrationTest, ANewFileNeedsNoCopy) {
  path_ = directory_.File("new.db");
  ASSERT_TRUE(Writer::Open(path_).ok());
  EXPECT_TRUE(Backups().empty());
}

}  // namespace
}  // namespace varifocal::db
