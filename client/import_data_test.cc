// `import-data`: a download of ours in upstream's formats becomes suites that the other verbs take; misuse is named.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/read_json.h"

namespace varifocal::client {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class ImportDataTest : public testing::Test {
 protected:
  void SetUp() override {
    release_ = testing_support::ReadJson("eval_tasks/benchmarks/testdata/release.json");
    for (const auto& [path, bytes] : release_["files"].items()) {
      testing_support::WriteFile(directory_.File("release/" + path), bytes.get<std::string>());
    }
  }
  std::string Release(const std::string& folder) { return directory_.File("release/" + folder); }

  testing_support::TemporaryDirectory directory_;
  Json release_;
};

TEST_F(ImportDataTest, SuitesOfADownloadAreAsked) {
  const std::string out = directory_.File("suites");
  const Ran imported =
      Done(Varifocal({"import-data", "longbench", Release("LongBench"), "--out=" + out, "--lengths=4K,8192",
                      "--prompt-tokens=61", "--no-chat", "--datasets=qasper,lcc"}));
  EXPECT_THAT(imported.err, MessageIn("qasper.jsonl", 3, 200));
  EXPECT_THAT(imported.out, HasSubstr(absl::StrCat("varifocal run ", out, "/longbench_4096.yaml\n")));
  for (const char* suite : {"/longbench_4096.yaml", "/longbench_8192.yaml"}) {
    EXPECT_EQ(Varifocal({"suites", out + suite}).code, ExitCode::kDone);
  }
  const Ran samples =
      Done(Varifocal({"samples", out + "/longbench_8192.yaml", "--tokenizer=models/baseline", "--format=json"}));
  const Json rows = ParseJson(samples.out).value();
  ASSERT_EQ(rows.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(rows[i]["prompt"], release_["prompts"]["longbench_qasper"]["cut"][i]);
    EXPECT_EQ(rows[3 + i]["prompt"], release_["prompts"]["longbench_lcc"]["cut"][i]);
  }
  const Ran wrong = Varifocal({"samples", out + "/longbench_8192.yaml", "--tokenizer=" + directory_.File("suites")});
  EXPECT_NE(wrong.code, ExitCode::kDone) << "a directory without a tokenizer";
  EXPECT_THAT(wrong.err, HasSubstr("tokenizer.json"));
}

TEST_F(ImportDataTest, WhatIsMissingIsSaidAndTheRestWritten) {
  fs::remove(Release("LongBench/data/trec.jsonl"));
  const Ran ran = Varifocal({"import-data", "longbench", Release("LongBench"), "--out=" + directory_.File("o"),
                             "--datasets=trec,lcc,vcsum", "--format=jsonl"});
  EXPECT_THAT(ran, FailsWith(MessageIn("trec.jsonl", "data.zip")));
  EXPECT_THAT(ran.err, MessageIn("vcsum", "jieba"));
  EXPECT_EQ(ran.out, "{\"context_length\":32768,\"row_count\":3,\"task\":\"longbench_lcc\"}\n");
}

TEST_F(ImportDataTest, TheListHasLicences) {
  const Ran ran = Done(Varifocal({"import-data", "--format=json"}));
  const Json rows = ParseJson(ran.out).value();
  ASSERT_EQ(rows.size(), 7u);
  for (const Json& row : rows) {
    for (const char* key : {"title", "needs", "upstream", "licence"}) EXPECT_NE(row[key], "") << row["name"];
  }
  const std::string page = testing_support::ReadFile("docs/benchmarks.md");
  for (const Json& row : rows) EXPECT_THAT(page, HasSubstr(absl::StrCat("| `", row["name"].get<std::string>(), "` |")));
}

TEST_F(ImportDataTest, MisuseIsNamed) {
  const auto usage = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "import-data");
    const Ran ran = Varifocal(words);
    EXPECT_EQ(ran.code, ExitCode::kWrongUsage) << ran.err;
    return ran.err;
  };
  const std::string out = "--out=" + directory_.File("o");
  EXPECT_THAT(usage({"longbench3", ".", out}), MessageIn("longbench3"));
  EXPECT_THAT(usage({"longbench", "."}), MessageIn("config/dataset2prompt.json", "THUDM/LongBench"));
  EXPECT_THAT(usage({"longbench", Release("LongBench"), out, "--lengths=4096,x"}), MessageIn("x"));
  EXPECT_THAT(usage({"longbench", Release("LongBench"), out, "--form=f"}), MessageIn("\"f\"", "standard", "e"));
  const Ran absent = Varifocal({"import-data", "longbench", directory_.File("absent"), out});
  EXPECT_THAT(absent.err, MessageIn("absent"));
  EXPECT_NE(absent.code, ExitCode::kDone);
}

}  // namespace
}  // namespace varifocal::client
