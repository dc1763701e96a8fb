// One SELECT on a file: values of every type, repeated column names, and anything but a SELECT refused with the file
// unchanged.
#include "db/query.h"

#include "absl/strings/str_cat.h"
#include "db/fakes/fake_results.h"
#include "db/sqlite/database.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::db {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class QueryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto writer = *Writer::Open(path_);
    NewJob job = FakeJob();
    ModelRecord& baseline = job.variants[0].model;
    baseline.parameter_count = 512;
    baseline.training_arm = "plain";
    baseline.training_seed = 3;
    baseline.training_tokens = 4096;
    const int64_t execution = *writer->AddExecution(FakeExecution());
    const std::vector<CellRow> cells = *writer->Cells(writer->AddJob(job)->job_id);
    Outcome outcome = FakeOutcome(cells[0], job, execution, 0);
    outcome.sample.evidence_json = R"([{"token_begin":507},{"token_begin":900}])";
    outcome.generation.pairs_visible_share = 0.5;
    outcome.generation.largest_group_share = 0.375;
    ASSERT_TRUE(writer->RecordSample(outcome).ok());
    ASSERT_TRUE(writer->RecordSample(FakeFailure(cells[1], job, execution, 1)).ok());
    ASSERT_TRUE(writer->Checkpoint().ok());
  }
  absl::Status Run(const std::string& sql) {
    columns_.clear();
    rows_.clear();
    return RunQuery(path_, sql,
                    {[&](const std::vector<std::string>& columns) {
                       columns_ = columns;
                       return absl::OkStatus();
                     },
                     [&](std::vector<Json> values) {
                       rows_.push_back(Json(std::move(values)).dump());
                       return absl::OkStatus();
                     }});
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
  std::vector<std::string> columns_, rows_;
};

TEST_F(QueryTest, ValuesKeepTheirTypes) {
  ASSERT_TRUE(Run("SELECT 1 AS a, 0.1 AS a, 'x' AS b, NULL, X'00ff' AS c; -- a comment").ok());
  EXPECT_THAT(columns_, ElementsAre("a", "a:1", "b", "NULL", "c"));
  EXPECT_THAT(rows_, ElementsAre("[1,0.1,\"x\",null,\"X'00FF'\"]"));
  ASSERT_TRUE(Run("SELECT task, difference FROM v_pairs WHERE job_id = 77").ok());
  EXPECT_THAT(columns_, ElementsAre("task", "difference"));
  EXPECT_TRUE(rows_.empty());
}

TEST_F(QueryTest, AnUnknownNameIsAnsweredWithTheNearest) {
  EXPECT_THAT(Run("SELECT 1 FROM v_sample").message(), HasSubstr("\"v_samples\""));
  EXPECT_THAT(Run("SELECT s.finish_raeson FROM v_samples AS s").message(), HasSubstr("\"finish_reason\""));
  EXPECT_THAT(Run("SELECT colour FROM v_pairs").message(), HasSubstr("candidate_value, "));
  EXPECT_THAT(Run("SELECT colour").message(), HasSubstr("column: colour"));
  EXPECT_THAT(Run("SELECT answer FROM v_samples WHERE task = recall_kv").message(), HasSubstr("'recall_kv'"));
}

TEST_F(QueryTest, SamplesHaveDepthReasonAndTimes) {
  ASSERT_TRUE(Run("SELECT variant, depth, finish_reason, prefill_us, trained_temperature, run_temperature, "
                  "is_extrapolated FROM v_samples WHERE is_primary ORDER BY variant")
                  .ok());
  EXPECT_THAT(rows_,
              ElementsAre("[\"baseline\",0.5,\"stop\",1000,null,null,0]", "[\"focal\",null,null,0,null,null,0]"));
}

TEST_F(QueryTest, SamplesHaveSharesOfLearnedGroups) {
  ASSERT_TRUE(Run("SELECT variant, pairs_visible_share, largest_group_share FROM v_samples WHERE is_primary "
                  "ORDER BY variant")
                  .ok());
  EXPECT_THAT(rows_, ElementsAre("[\"baseline\",0.5,0.375]", "[\"focal\",null,null]"));
}

TEST_F(QueryTest, VariantsHaveTheirTraining) {
  ASSERT_TRUE(Run("SELECT variant, training_arm, training_seed, training_tokens, trained_context_length, "
                  "parameter_count FROM v_variants ORDER BY variant")
                  .ok());
  EXPECT_THAT(rows_, ElementsAre("[\"baseline\",\"plain\",3,4096,2048,512]", "[\"focal\",null,null,null,2048,null]"));
}

TEST_F(QueryTest, AMigratedFileHasThemToo) {
  const auto database = *sqlite::Database::Open(path_, {});
  ASSERT_TRUE(
      database
          ->Execute("DROP TRIGGER generations_count_insert; DROP TRIGGER generations_count_delete;"
                    "DROP TRIGGER generations_count_update; DROP TABLE cell_counts;"
                    "DROP TABLE job_charges;"
                    "DROP VIEW v_variants; ALTER TABLE models DROP COLUMN function_sha256;"
                    "ALTER TABLE models DROP COLUMN function_json; ALTER TABLE models DROP COLUMN parameter_count;"
                    "ALTER TABLE models DROP COLUMN training_arm; ALTER TABLE models DROP COLUMN training_seed;"
                    "ALTER TABLE models DROP COLUMN training_tokens;"
                    "DROP VIEW v_attention; DROP TABLE attention_heads; DROP TABLE deleted_jobs;"
                    "DROP TABLE called_models; DROP TABLE mixed_jobs; DROP VIEW v_samples;"
                    "CREATE VIEW v_samples AS SELECT 1; DROP VIEW v_pairs; ALTER TABLE samples DROP COLUMN epoch;"
                    "ALTER TABLE samples DROP COLUMN depth; ALTER TABLE models DROP COLUMN focal_temperature_json;"
                    "ALTER TABLE generations DROP COLUMN pairs_visible_share;"
                    "ALTER TABLE generations DROP COLUMN largest_group_share;"
                    "ALTER TABLE generations DROP COLUMN thinking_state;"
                    "ALTER TABLE generations DROP COLUMN thinking_token_count;"
                    "ALTER TABLE generations DROP COLUMN is_thinking_forced;"
                    "ALTER TABLE score_imports DROP COLUMN import_id;"
                    "ALTER TABLE score_imports DROP COLUMN cells_json;"
                    "UPDATE models SET attention_json = '{\"focal_attention\":{\"temperature\":0.4}}';"
                    "UPDATE schema_version SET version = 3")
          .ok());
  ASSERT_TRUE(Writer::Open(path_).ok());
  ASSERT_TRUE(Run("SELECT depth, trained_temperature, pairs_visible_share FROM v_samples WHERE is_primary AND "
                  "error_code IS NULL")
                  .ok());
  EXPECT_THAT(rows_, ElementsAre("[0.5,0.4,null]"));
  ASSERT_TRUE(Run("SELECT variant, training_arm, parameter_count FROM v_variants ORDER BY variant").ok());
  EXPECT_THAT(rows_, ElementsAre("[\"baseline\",null,null]", "[\"focal\",null,null]"));
}

TEST_F(QueryTest, OnlyReadingIsAllowed) {
  const std::string before = testing_support::ReadFile(path_);
  for (const std::string sql :
       {"DELETE FROM scores", "UPDATE jobs SET suite = 'x'", "DROP VIEW v_pairs", "CREATE TABLE t (a)",
        "PRAGMA query_only = OFF", "PRAGMA journal_mode = DELETE", "VACUUM", "BEGIN", "REINDEX",
        "INSERT INTO scores (generation_id, metric, value) VALUES (1, 'x', 1) RETURNING metric"}) {
    const absl::Status status = Run(sql);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << sql << ": " << status;
    EXPECT_THAT(status.message(), Message("SELECT")) << sql;
  }
  EXPECT_FALSE(Run(absl::StrCat("ATTACH '", directory_.File("other.db"), "' AS other")).ok());
  EXPECT_FALSE(Run(absl::StrCat("VACUUM INTO '", directory_.File("other.db"), "'")).ok());
  EXPECT_EQ(testing_support::ReadFile(directory_.File("other.db")), "");
  EXPECT_EQ(testing_support::ReadFile(path_), before);
}

TEST_F(QueryTest, MistakesAreOneSentence) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the query is empty"},
      {" -- nothing", "the query is empty"},
      {"SELECT 1; SELECT 2", "more than one statement"},
      {"SELECT 1; nonsense", "more than one statement"},
      {"SELECT missing", "no such column: missing"},
      {"SELECT task FROM v_sample", "no such table: v_sample"},
      {"SELEC 1", "syntax error"},
      {"SELECT abs(-9223372036854775807 - 1)", "integer overflow"},
      {"SELECT suite FROM jobs WHERE job_id = ?", "1 parameters"},
  };
  for (const auto& [sql, message] : cases) {
    const absl::Status status = Run(sql);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << sql << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message)) << sql;
  }
  path_ = directory_.File("missing.db");
  EXPECT_TRUE(absl::IsNotFound(Run("SELECT 1")));
}

}  // namespace
}  // namespace varifocal::db
