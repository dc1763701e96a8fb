// `varifocal query`, and every block of docs/queries.md run on a database with two variants, two tasks and two lengths:
// shell lines by a shell, SQL and Datasette's queries by `query`, Python by an interpreter that has pandas.

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "db/fakes/fake_results.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

struct Block {
  std::string language, text;
};

std::vector<Block> BlocksOf(const std::string& path) {
  std::vector<Block> blocks;
  bool is_inside = false;
  for (absl::string_view line : absl::StrSplit(testing_support::ReadFile(path), '\n')) {
    if (absl::StartsWith(line, "```")) {
      is_inside = !is_inside;
      if (is_inside) blocks.push_back({std::string(line.substr(3)), ""});
    } else if (is_inside) {
      absl::StrAppend(&blocks.back().text, line, "\n");
    }
  }
  return blocks;
}

class QueryVerbTest : public testing::Test {
 protected:
  void SetUp() override {
    const db::NewJob job = db::FakeJob({.tasks = {"recall", "label"}, .lengths = {1024, 4096}, .planned_count = 16});
    db::AddFakeJob(**db::Writer::Open(path_), job, [&](const db::CellRow& cell, int64_t i, db::Outcome& outcome) {
      if (i == 15 && cell.cell.variant == "focal") db::Fail(outcome);
      outcome.sample.evidence_json = absl::StrCat("[{\"token_begin\":", 60 * i, "}]");
      if (i == 3) outcome.generation.answer = "";
      return true;
    });
  }
  Ran Query(const std::string& sql, const std::string& format = "json") {
    return Varifocal({"query", "--db=" + path_, "--format=" + format, sql});
  }
  // Runs in the database's directory, with the programs of the build on the path.
  testing_support::ProcessResult Shell(const std::string& command) {
    const std::string program = testing_support::ProgramPath("varifocal");
    return testing_support::RunProcess(
        "/bin/bash", {"-c", absl::StrCat("set -euo pipefail; PATH=", program.substr(0, program.rfind('/')),
                                         ":$PATH; cd ", directory_.path(), "\n", command)});
  }

  testing_support::TemporaryDirectory directory_;
  std::string path_ = directory_.File("results.db");
};

TEST_F(QueryVerbTest, PrintsTablesCsvAndJson) {
  const std::string sql = "SELECT 1 AS n, 'a,b' AS text, 0.1 AS x";
  EXPECT_EQ(Query(sql, "text").out, "n  text  x\n1  a,b   0.1\n");
  EXPECT_EQ(Query(sql, "csv").out, "n,text,x\n1,\"a,b\",0.1\n");
  EXPECT_EQ(*ParseJson(Query(sql).out), *ParseJson(R"([{"n":1,"text":"a,b","x":0.1}])"));
  EXPECT_EQ(Query("SELECT 1 AS n WHERE 0", "csv").out, "n\n");
  EXPECT_EQ(Query("SELECT 1 AS n WHERE 0", "text").out, "No rows.\n");
}

TEST_F(QueryVerbTest, RefusesWhatWrites) { EXPECT_THAT(Query("DELETE FROM scores"), FailsWith(Message("SELECT"))); }

TEST_F(QueryVerbTest, EveryBlockOfThePageRuns) {
  int sql_count = 0, shell_count = 0, json_count = 0, python_count = 0;
  const bool has_pandas = Shell("python3 -c 'import pandas'").exit_code == 0;
  for (const Block& block : BlocksOf("docs/queries.md")) {
    std::vector<std::string> queries;
    if (block.language == "sql") {
      ++sql_count;
      queries.push_back(block.text);
    } else if (block.language == "json") {
      ++json_count;
      ASSIGN_OR_FAIL(const auto metadata, ParseJson(block.text));
      for (const auto& [name, query] : metadata["databases"]["results"]["queries"].items())
        queries.push_back(query["sql"].get<std::string>());
      ASSERT_FALSE(queries.empty());
    } else if (block.language == "sh") {
      ++shell_count;
      const auto ran = Shell(block.text);
      EXPECT_EQ(ran.exit_code, 0) << block.text << ran.err;
    } else if (block.language == "python") {
      ++python_count;
      testing_support::WriteFile(directory_.File("page.py"), block.text);
      const auto ran = Shell(has_pandas ? "python3 page.py" : "python3 -m py_compile page.py");
      EXPECT_EQ(ran.exit_code, 0) << block.text << ran.err;
    } else {
      ADD_FAILURE() << "a block in " << block.language;
    }
    for (const std::string& sql : queries) {
      const Ran ran = Query(sql);
      EXPECT_EQ(ran.code, ExitCode::kDone) << sql << ran.err;
      ASSIGN_OR_FAIL(const auto rows, ParseJson(ran.out));
      EXPECT_FALSE(rows.empty()) << sql;
    }
  }
  EXPECT_EQ(sql_count, 11);
  EXPECT_EQ(json_count, 1);
  EXPECT_EQ(shell_count, 2);
  EXPECT_EQ(python_count, 1);
}

// A database has many jobs: a query without one would mix them.
TEST_F(QueryVerbTest, EveryDocumentedQueryOfAViewNamesAJob) {
  int count = 0;
  for (const char* path :
       {"README.md", "client/python/README.md", "docs/queries.md", "docs/formats.md", "docs/your_metric.md"}) {
    for (const Block& block : BlocksOf(path)) {
      for (absl::string_view part : absl::StrSplit(block.text, absl::ByAnyChar(";\"'"))) {
        if (!absl::StrContains(part, "FROM v_")) continue;
        ++count;
        EXPECT_TRUE(absl::StrContains(part, "job_id = ")) << path << ": " << part;
      }
    }
  }
  EXPECT_GE(count, 17);
  const std::string readme = testing_support::ReadFile("README.md");
  const size_t begin = readme.find("'SELECT ") + 1;
  const Ran ran = Done(Query(readme.substr(begin, readme.find('\'', begin) - begin)));
  EXPECT_EQ(ParseJson(ran.out)->size(), 2u * 2 * 2 * 2) << "variants, tasks, metrics, lengths";
}

}  // namespace
}  // namespace varifocal::client
