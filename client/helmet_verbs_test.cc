// Answers from elsewhere and back: rows as the importer writes them are asked (`samples`), answered by hand, imported,
// scored, and exported under HELMET's names, with values that a person can check.
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "client/testing_run.h"
#include "eval_tasks/helmet/rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

constexpr const char* kTokenizer = "models/baseline";

void Write(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

Json ReadJson(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return ParseJson(text.str()).value();
}

class HelmetVerbsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string rows;
    for (const char* city : {"Rome", "Oslo"}) {
      helmet::ImportedRow row;
      row.id = row.question = row.cluster = city;
      row.context = absl::StrCat("The city is ", city, ".");
      row.values = {{"question", "Which city?"}};
      row.gold = {city};
      row.reference = row.gold;
      row.item = {{"question", "Which city?"}, {"answer", row.gold}, {"depth", 0.5}};
      rows += helmet::ToJson(row).dump() + "\n";
    }
    Write(directory_.File("rows/kilt_nq.600.jsonl"), rows);
    helmet::TaskIndex index;
    index.kind = "default";
    index.user_template = "{context}\n\n{question}";
    index.system_template = "Answer:";
    index.separator = "\n";
    index.settings = {{"max_test_samples", 100}, {"shots", 2}, {"seed", 42}, {"profile", "published"}};
    index.lengths[600] = {
        "../rows/kilt_nq.600.jsonl", Sha256Hex(rows), 2, 20, "kilt_nq", "data/kilt/nq_k3.jsonl", "d", ""};
    Write(directory_.File("tasks/kilt_nq.json"), helmet::DumpTaskIndex(index));
    suite_ = directory_.File("suite.yaml");
    Write(suite_,
          "name: helmet_rag\nlengths: [600]\ntasks:\n  - name: kilt_nq\n    kind: helmet\n    parameters: {path: "
          "tasks/kilt_nq.json}\n");
  }

  Json Samples() {
    const Ran ran = Varifocal({"samples", suite_, absl::StrCat("--tokenizer=", kTokenizer), "--format=json"});
    EXPECT_EQ(ran.code, ExitCode::kDone) << ran.err;
    return ParseJson(ran.out).value();
  }
  Ran Import(const std::string& lines) {
    Write(directory_.File("answers.jsonl"), lines);
    return Varifocal({"import", suite_, "--predictions=" + directory_.File("answers.jsonl"), "--name=other",
                      absl::StrCat("--tokenizer=", kTokenizer), "--db=" + directory_.File("r.db")});
  }
  static std::string Line(const Json& sample, const std::string& prediction) {
    return Json{{"token_ids_sha256", sample["token_ids_sha256"]}, {"prediction", prediction}}.dump() + "\n";
  }

  testing_support::TemporaryDirectory directory_;
  std::string suite_;
};

TEST_F(HelmetVerbsTest, ImportedAnswersAreScoredAndExported) {
  const Json samples = Samples();
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0]["prompt"], "The city is Rome.\n\nWhich city?\nAnswer:");
  const Ran imported = Import(Line(samples[0], " Rome\nWhich") + Line(samples[1], " Bergen"));
  ASSERT_EQ(imported.code, ExitCode::kDone) << imported.err;
  EXPECT_THAT(imported.out, HasSubstr("2 answers judged, 0 prompts without one"));

  const Ran exported = Varifocal({"export", "--format=helmet", "--db=" + directory_.File("r.db"),
                                  "--out=" + directory_.File("output"), "--tag=v1"});
  ASSERT_EQ(exported.code, ExitCode::kDone) << exported.err;
  const std::string file = directory_.File(
      "output/other/kilt_nq_v1_nq_k3_in600_size100_shots2_sampFalsemax20min0t0.0p1.0_chatFalse_42.json");
  const Json score = ReadJson(file + ".score");
  EXPECT_EQ(score["substring_exact_match"], 50.0) << "Rome of Rome and Oslo";
  EXPECT_EQ(score["exact_match"], 50.0) << "of what stands after Answer: on its line";
  const Json result = ReadJson(file);
  EXPECT_EQ(result["averaged_metrics"], score);
  EXPECT_EQ(result["data"][0]["output"], "Answer: Rome\nWhich");
  EXPECT_EQ(result["data"][0]["parsed_output"], "Rome");
  EXPECT_EQ(result["data"][0]["depth"], 0.5);
  EXPECT_EQ(result["metrics"]["substring_exact_match"], (Json{1.0, 0.0}));
  EXPECT_EQ(result["metrics"]["input_len"][0], samples[0]["prompt_token_count"]);
  EXPECT_EQ(result["args"]["input_max_length"], 600);
}

TEST_F(HelmetVerbsTest, WhatDoesNotJoinIsTold) {
  const Json samples = Samples();
  const Ran partial = Import(Line(samples[0], "Rome") + Line({{"token_ids_sha256", std::string(64, '0')}}, "x"));
  EXPECT_EQ(partial.code, ExitCode::kFailed);
  EXPECT_THAT(partial.err, HasSubstr("1 answers belong to no prompt"));
  EXPECT_THAT(partial.out, HasSubstr("1 answers judged, 1 prompts without one"));
  EXPECT_THAT(Import(Line(samples[0], "Rome") + Line(samples[0], "Oslo")).err, HasSubstr("answers.jsonl:2"));
  EXPECT_THAT(Import("{\"prediction\": \"x\"}").err, HasSubstr("token_ids_sha256"));
}

}  // namespace
}  // namespace varifocal::client
