// docs/your_metric.md and docs/your_task.md: their commands, in order, by one shell on a daemon of its own, and what they leave
// in the database.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "db/reader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::HasSubstr;

std::string ShellBlocks(const std::string& path) {
  std::string text;
  bool is_inside = false;
  for (absl::string_view line : absl::StrSplit(testing_support::ReadFile(path), '\n')) {
    if (absl::StartsWith(line, "```")) {
      is_inside = line == "```sh";
    } else if (is_inside) {
      absl::StrAppend(&text, line, "\n");
    }
  }
  return text;
}

class YourMetricTest : public testing::Test {
 protected:
  // The page's daemon has the default address, which another may have: here it is a socket, which `varifocal` gets as a flag.
  testing_support::ProcessResult RunPage(const std::string& page, const std::string& more) {
    const std::string program = testing_support::ProgramPath("varifocal");
    std::filesystem::create_directory_symlink(std::filesystem::absolute("models"), directory_.File("models"));
    return testing_support::RunProcess(
        "/bin/bash", {"-c", absl::StrCat("set -euo pipefail; PATH=", program.substr(0, program.rfind('/')),
                                         ":$PATH; cd ", directory_.path(), R"(
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
varifocald() { command varifocald --listen=unix:s --threads=1 --log-level=warning "$@"; }
varifocal() {
  case "$1" in
    submit) command varifocal "$@" --daemon=unix:s --connect-timeout=60 ;;
    import) command varifocal "$@" --daemon=unix:s ;;
    rescore) command varifocal "${@/#--daemon=*/--daemon=unix:s}" ;;
    *) command varifocal "$@" ;;
  esac
}
)",
                                         ShellBlocks(page), "\n", more)});
  }

  testing_support::TemporaryDirectory directory_;
};

TEST_F(YourMetricTest, TheCommandsOfThePageRun) {
  const auto ran = RunPage("docs/your_metric.md",
                           "echo busy; command varifocal import --judgments=scores.jsonl --db=results.db || true\n");
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  const std::string path = directory_.File("results.db");
  const auto reader = *db::Reader::Open(path);
  const std::vector<db::ScoreImportRow> imports = *reader->ScoreImports(1);
  ASSERT_EQ(imports.size(), 4u) << "of each variant";
  EXPECT_EQ(imports[0].metric, "imported/starts");
  EXPECT_THAT(imports[0].source, HasSubstr("starts.py sha256 "));
  EXPECT_EQ(imports[2].metric, "imported/prefix");
  EXPECT_EQ(imports[2].value_count, 16) << "two tasks of eight questions";
  // The page's comparison: the imported metric is the primary one, and its mean over tasks is there.
  EXPECT_THAT(ran.out, HasSubstr("all tasks"));
  const Ran compared = Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal",
                                  "--metric=imported/prefix", "--format=json"});
  const auto rows = ParseJson(compared.out);
  ASSERT_TRUE(rows.ok()) << compared.err;
  int cells = 0, means = 0;
  for (const Json& row : *rows) {
    if (row["kind"] == "cell") {
      ++cells;
      EXPECT_EQ(row["metric"], "imported/prefix");
      EXPECT_EQ(row["is_primary_metric"], true);
    }
    means += row["kind"] == "suite_mean";
  }
  EXPECT_EQ(cells, 2);
  EXPECT_EQ(means, 1);
  // Into a database that a daemon has open: what to do.
  EXPECT_THAT(ran.err, testing::AllOf(HasSubstr("by process "), HasSubstr("--daemon=ADDRESS")));
  EXPECT_THAT(
      Varifocal({"compare", "--db=" + path, "--baseline=baseline", "--candidate=focal", "--metric=imported/prefx"}),
      FailsWith(Message("imported/prefx", "imported/prefix")));
  const std::string report = testing_support::ReadFile(directory_.File("report.html"));
  EXPECT_THAT(report, HasSubstr("imported/prefix"));
}

// The page's suite: demonstrations, the filters' answer beside what was written, and both models' rows compared.
TEST_F(YourMetricTest, TheTaskOfThePageIsAskedAndScored) {
  const auto ran =
      RunPage("docs/your_task.md", "varifocal samples suite.yaml --tokenizer=models/baseline --format=jsonl > p\n");
  ASSERT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("France?\nAnswer:\n"));
  EXPECT_THAT(ran.out, HasSubstr("scored: first_line; regex (\\w+), group 1, last match"));
  int row_count = 0;
  for (absl::string_view line :
       absl::StrSplit(testing_support::ReadFile(directory_.File("p")), '\n', absl::SkipEmpty())) {
    const Json row = *ParseJson(line);
    const std::string prompt = row["prompt"];
    EXPECT_THAT(prompt,
                testing::ContainsRegex("^(Question: What is the capital of [A-Z][a-z]+.\nAnswer: [A-Z][a-z]+\n\n){2}"));
    EXPECT_EQ(row["filters"].size(), 2u);
    ++row_count;
  }
  EXPECT_EQ(row_count, 5);
  const auto reader = *db::Reader::Open(directory_.File("results.db"));
  int answer_count = 0;
  for (const char* variant : {"baseline", "focal"}) {
    const std::vector<db::SampleDetail> details = *reader->Samples({.job_id = 1, .variant = variant});
    for (const db::SampleDetail& detail : details) {
      const std::string written = detail.generation.answer_raw.value_or("");
      const std::string scored = detail.generation.answer.value_or("");
      EXPECT_EQ(scored.find_first_of(" \n"), std::string::npos) << scored;
      EXPECT_THAT(written, HasSubstr(scored));
      ++answer_count;
    }
  }
  EXPECT_EQ(answer_count, 10);
}

}  // namespace
}  // namespace varifocal::client
