// Round trip of imported answers: rows as the importer writes them are printed (`samples`), answered by hand, imported,
// scored, and exported under HELMET's names, with values verified by hand.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/sha256.h"
#include "client/testing_run.h"
#include "eval_tasks/helmet/rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "tests/support/read_json.h"

namespace varifocal::client {
namespace {

using ::testing::HasSubstr;
using testing_support::ReadFile;
using testing_support::ReadJson;
using testing_support::WriteFile;
namespace fs = std::filesystem;

constexpr const char* kHelmetTokenizer = "models/baseline";

class HelmetVerbsTest : public testing::Test {
 protected:
  void SetUp() override { WriteSuite({"Rome", "Oslo"}); }

  void WriteSuite(const std::vector<std::string>& cities) {
    std::string rows;
    for (const std::string& city : cities) {
      helmet::ImportedRow row;
      row.id = row.question = row.cluster = city;
      row.context = absl::StrCat("The city is ", city, ".");
      row.values = {{"question", "Which city?"}};
      row.gold = {city};
      row.reference = row.gold;
      row.item = {{"question", "Which city?"}, {"answer", row.gold}, {"depth", 0.5}};
      rows += helmet::ToJson(row).dump() + "\n";
    }
    WriteFile(directory_.File("rows/kilt_nq.600.jsonl"), rows);
    helmet::TaskIndex index;
    index.kind = "default";
    index.user_template = "{context}\n\n{question}";
    index.system_template = "Answer:";
    index.separator = "\n";
    index.settings = {{"max_test_samples", 100}, {"shots", 2}, {"seed", 42}, {"profile", "published"}};
    index.lengths[600] = {"../rows/kilt_nq.600.jsonl",
                          Sha256Hex(rows),
                          static_cast<int>(cities.size()),
                          20,
                          "kilt_nq",
                          "data/kilt/nq_k3.jsonl",
                          "d",
                          ""};
    WriteFile(directory_.File("tasks/kilt_nq.json"), helmet::DumpTaskIndex(index));
    suite_ = directory_.File("suite.yaml");
    WriteFile(suite_,
              "name: helmet_rag\nlengths: [600]\ntasks:\n  - name: kilt_nq\n    kind: helmet\n    parameters: {path: "
              "tasks/kilt_nq.json}\n");
  }

  Json Samples() {
    const Ran ran =
        Done(Varifocal({"samples", suite_, absl::StrCat("--tokenizer=", kHelmetTokenizer), "--format=json"}));
    return ParseJson(ran.out).value();
  }
  Ran Import(const std::string& lines, const std::string& name = "other") {
    WriteFile(directory_.File("answers.jsonl"), lines);
    return Varifocal({"import", suite_, "--predictions=" + directory_.File("answers.jsonl"), "--name=" + name,
                      absl::StrCat("--tokenizer=", kHelmetTokenizer), "--db=" + directory_.File("r.db")});
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
  EXPECT_THAT(Import(Line(samples[0], " Rome\nWhich") + Line(samples[1], " Bergen")), Prints(Message("2", "0")));

  const Ran exported = Done(Varifocal({"export", "--format=helmet", "--db=" + directory_.File("r.db"),
                                       "--out=" + directory_.File("output"), "--tag=v1"}));
  const std::string file = directory_.File(
      "output/other/kilt_nq_v1_nq_k3_in600_size100_shots2_sampFalsemax20min0t0.0p1.0_chatFalse_42.json");
  const Json score = ReadJson(file + ".score");
  EXPECT_EQ(score["substring_exact_match"], 50.0) << "Rome of Rome and Oslo";
  EXPECT_EQ(score["exact_match"], 50.0) << "of the text after Answer: on its line";
  const Json result = ReadJson(file);
  EXPECT_EQ(result["averaged_metrics"], score);
  EXPECT_EQ(result["data"][0]["output"], "Answer: Rome\nWhich");
  EXPECT_EQ(result["data"][0]["parsed_output"], "Rome");
  EXPECT_EQ(result["data"][0]["depth"], 0.5);
  EXPECT_EQ(result["metrics"]["substring_exact_match"], (Json{1.0, 0.0}));
  EXPECT_EQ(result["metrics"]["input_len"][0], samples[0]["prompt_token_count"]);
  EXPECT_EQ(result["args"]["input_max_length"], 600);
  EXPECT_TRUE(result["args"]["system_message"].is_null());
}

TEST_F(HelmetVerbsTest, InputTextIsMadeAgainOrRefused) {
  const Json samples = Samples();
  ASSERT_EQ(Import(Line(samples[0], "Rome") + Line(samples[1], "Oslo")).code, ExitCode::kDone);
  const std::vector<std::string> flags = {"export", "--db=" + directory_.File("r.db"), "--out=" + directory_.File("o")};
  const std::string file =
      directory_.File("o/other/kilt_nq_eval_nq_k3_in600_size100_shots2_sampFalsemax20min0t0.0p1.0_chatFalse_42.json");
  const Ran without = Done(Varifocal(flags));
  EXPECT_THAT(without.err, Message("2", "input_text"));
  EXPECT_FALSE(ReadJson(file)["data"][0].contains("input_text"));

  std::vector<std::string> with = flags;
  with.push_back(absl::StrCat("--tokenizer=", kHelmetTokenizer));
  ASSERT_EQ(Varifocal(with).code, ExitCode::kDone);
  const std::string text = ReadJson(file)["data"][1]["input_text"];
  EXPECT_THAT(text, HasSubstr(" <skip> "));
  const std::string end = "The city is Oslo.\n\nWhich city?\nAnswer:";
  EXPECT_EQ(text.substr(text.size() - end.size()), end) << "a short prompt is contained twice";

  // Rows that differ from the job's.
  WriteFile(directory_.File("rows/kilt_nq.600.jsonl"), "{}\n");
  EXPECT_THAT(Varifocal(with).err, HasSubstr("SHA-256"));
}

TEST_F(HelmetVerbsTest, ASystemMessageIsToldAndExported) {
  const std::string index = directory_.File("tasks/kilt_nq.json"), model = directory_.File("model");
  Json changed = ReadJson(index);
  changed["system_message"] = "Be brief.";
  WriteFile(index, changed.dump());
  WriteFile(suite_, ReadFile(suite_) + "    chat: true\n");
  fs::create_directories(model);
  fs::copy(absl::StrCat(kHelmetTokenizer, "/tokenizer.json"), model + "/tokenizer.json");
  WriteFile(model + "/chat_format.json",
            Json{{"template_sha256", std::string(64, 'c')},
                 {"without_system", {{"prefix", "<|begin|>"}, {"suffix", "<|end|>"}, {"trim_user", "both"}}},
                 {"with_system", {{"prefix", "<|begin|>"}, {"between", " // "}, {"suffix", "<|end|>"}}}}
                .dump());
  const std::string tokenizer = "--tokenizer=" + model, db = "--db=" + directory_.File("r.db");
  const Ran made = Done(Varifocal({"samples", suite_, tokenizer, "--format=json"}));
  const Json samples = ParseJson(made.out).value();
  EXPECT_EQ(samples[0]["system_message"], "Be brief.");
  EXPECT_EQ(samples[0]["prompt"], "The city is Rome.\n\nWhich city?");
  WriteFile(directory_.File("answers.jsonl"), Line(samples[0], "Rome") + Line(samples[1], "Oslo"));
  const Ran imported = Done(Varifocal(
      {"import", suite_, "--predictions=" + directory_.File("answers.jsonl"), "--name=other", tokenizer, db}));
  const Ran exported = Done(Varifocal({"export", db, "--out=" + directory_.File("o"), tokenizer}));
  const Json result = ReadJson(
      directory_.File("o/other/kilt_nq_eval_nq_k3_in600_size100_shots2_sampFalsemax20min0t0.0p1.0_chatTrue_42.json"));
  EXPECT_EQ(result["args"]["system_message"], "Be brief.");
  const std::string prompt = "<|begin|>Be brief. // The city is Rome.\n\nWhich city?<|end|>";
  EXPECT_EQ(result["data"][0]["input_text"], absl::StrCat(prompt, " <skip> ", prompt));
  WriteFile(model + "/chat_format.json", Json{{"template_sha256", std::string(64, 'c')},
                                              {"without_system", {{"prefix", "<|begin|>"}, {"suffix", "<|end|>"}}}}
                                             .dump());
  EXPECT_THAT(Varifocal({"export", db, "--out=" + directory_.File("o"), tokenizer}).err, Message());
}

TEST_F(HelmetVerbsTest, JudgmentsBecomeAMetric) {
  const Json samples = Samples();
  ASSERT_EQ(Import(Line(samples[0], "Rome") + Line(samples[1], "Oslo")).code, ExitCode::kDone);
  const std::string db = "--db=" + directory_.File("r.db"), rome = samples[0]["token_ids_sha256"];
  const auto judge = [&](const std::string& name, const std::string& bytes, std::vector<std::string> more = {}) {
    WriteFile(directory_.File(name), bytes);
    more.insert(more.begin(), {"import", "--judgments=" + directory_.File(name), db});
    return Varifocal(more);
  };
  const auto line = [&](const Json& fields = Json::object()) {
    Json object = {{"token_ids_sha256", rome}, {"scores", {{"correct", 2}}}};
    object.update(fields);
    return object.dump() + "\n";
  };
  EXPECT_THAT(
      judge("j.jsonl", line() + "\n" + line({{"token_ids_sha256", samples[1]["token_ids_sha256"]}}), {"--score-max=3"}),
      Prints(Message("jobs/1", "2", "imported/correct")));
  const Ran report = Done(Varifocal({"report", db, "--out=" + directory_.File("r.html")}));
  EXPECT_THAT(ReadFile(directory_.File("r.html")), HasSubstr("imported/correct"));

  struct Bad {
    std::string name, bytes;
    std::vector<std::string> values;
  };
  const std::string unknown(64, '0');
  const Bad bads[] = {
      {"a.jsonl", "", {"a.jsonl"}},
      {"b.jsonl", line(), {"b.jsonl:1", "\"correct\"", "2", "0", "1"}},
      {"c.jsonl", "\n" + line({{"scores", {{"c", "x"}}}}), {"c.jsonl:2", "\"c\"", "\"x\""}},
      {"d.jsonl", line({{"scores", Json::object()}}), {"d.jsonl:1", "\"scores\""}},
      {"e.jsonl", line({{"scores", {{"a b", 1}}}}), {"e.jsonl:1", "\"a b\""}},
      {"f.jsonl", line({{"token_ids_sha256", "12"}}), {"f.jsonl:1", "\"token_ids_sha256\"", "\"12\""}},
      {"g.jsonl", line({{"token_ids_sha256", unknown}, {"scores", {{"c", 1}}}}), {"g.jsonl", "1"}},
      {"h.jsonl", line({{"scores", {{"c", 1}}}}) + line({{"scores", {{"c", 0}}}}), {"h.jsonl:2", "other"}},
      {"i.jsonl", line({{"scores", {{"c", 1}}}, {"variant", "none"}}), {"i.jsonl", "\"none\"", "other"}},
      {"k.json", "{\"data\": [", {"k.json"}},
      {"l.json", "[]", {"l.json"}},
      {"m.json", R"({"data": [{"gpt-4-scores": {"fluency": 1, "correctness": 1}}]})", {"m.json", "data[0]"}},
  };
  for (const Bad& bad : bads) {
    EXPECT_THAT(judge(bad.name, bad.bytes), FailsWith(MessageMatcher(bad.values)));
  }
  EXPECT_EQ(Varifocal({"import", db}).code, ExitCode::kWrongUsage);
  EXPECT_EQ(Varifocal({"import", suite_, "--judgments=x", db}).code, ExitCode::kWrongUsage);

  // A file written by `export` and completed by upstream's judge: names its job, variant, task and length.
  ASSERT_EQ(Varifocal({"export", db, "--out=" + directory_.File("o")}).code, ExitCode::kDone);
  Json result = ReadJson(
      directory_.File("o/other/kilt_nq_eval_nq_k3_in600_size100_shots2_sampFalsemax20min0t0.0p1.0_chatFalse_42.json"));
  result["data"][0]["gpt-4-scores"] = {{"fluency", 1}, {"correctness", 3}};
  result["data"][1]["gpt-4-scores"] = nullptr;
  const Ran judged = Done(judge("x-gpt4eval_o.json", result.dump()));
  EXPECT_THAT(judged.err, Message("1"));
  EXPECT_THAT(judged.out, Message("1", "imported/gpt-4-score"));
  result["data"][0]["gpt-4-scores"] = {{"fluency", 1}, {"recall", 1.5}, {"precision", 1}, {"f1", 1}};
  EXPECT_THAT(judge("y.json", result.dump()), FailsWith(Message("0", "gpt-4-recall", "1.5", "1")));
}

// Two imports are two jobs: compared where the prompts are the same, judge's scores included; differences are reported.
TEST_F(HelmetVerbsTest, ImportedAnswersAreComparedWithOthers) {
  const Json samples = Samples();
  const std::string db = "--db=" + directory_.File("r.db");
  ASSERT_EQ(Import(Line(samples[0], "Rome") + Line(samples[1], "Bergen")).code, ExitCode::kDone);
  ASSERT_EQ(Import(Line(samples[0], "Rome") + Line(samples[1], "Oslo"), "second").code, ExitCode::kDone);
  const auto compare = [&](const std::string& candidate, const std::string& metric, const std::string& format) {
    return Varifocal(
        {"compare", db, "--baseline=other", "--candidate=" + candidate, "--metric=" + metric, "--format=" + format});
  };
  const std::string metric = "helmet/default/substring_exact_match";
  const Ran ran = Done(compare("second", metric, "json"));
  const Json row = ParseJson(ran.out).value().at(0);
  EXPECT_EQ(row["sample_count"], 2);
  EXPECT_EQ(row["baseline_mean"], 0.5);
  EXPECT_EQ(row["candidate_mean"], 1.0);
  EXPECT_EQ(row["imported"], "baseline candidate");
  EXPECT_EQ(row["candidate"], "jobs/2/second");

  // Judged answers of both: the metric is compared like any other.
  for (const int job : {1, 2}) {
    WriteFile(directory_.File("j.jsonl"),
              Json{{"token_ids_sha256", samples[1]["token_ids_sha256"]}, {"scores", {{"correct", job - 1}}}}.dump());
    const Ran judged =
        Done(Varifocal({"import", db, "--judgments=" + directory_.File("j.jsonl"), absl::StrCat("--job=", job)}));
  }
  const Json judged = ParseJson(compare("second", "imported/correct", "json").out).value().at(0);
  EXPECT_EQ(judged["sample_count"], 1);
  EXPECT_EQ(judged["difference"], 1.0);

  const std::string page_path = directory_.File("r.html");
  ASSERT_EQ(Varifocal({"report", db, "--out=" + page_path, "--baseline=other", "--candidates=second"}).code,
            ExitCode::kDone);
  EXPECT_THAT(ReadFile(page_path), HasSubstr("<td>jobs/2/second</td><td>imported/correct</td>"));

  // Different rows under the same name: one prompt in common, then none.
  WriteSuite({"Rome", "Bonn"});
  const Json others = Samples();
  ASSERT_EQ(others[0]["token_ids_sha256"], samples[0]["token_ids_sha256"]);
  ASSERT_EQ(Import(Line(others[0], "Rome") + Line(others[1], "Bonn"), "third").code, ExitCode::kDone);
  const Ran part = compare("third", metric, "text");
  EXPECT_THAT(part.out, Message("1", "jobs/1", "jobs/3", "kilt_nq"));
  WriteSuite({"Lima"});
  ASSERT_EQ(Import(Line(Samples()[0], "Lima"), "fourth").code, ExitCode::kDone);
  EXPECT_THAT(compare("fourth", metric, "text").err, Message());
  EXPECT_THAT(compare("4/fourth", metric, "text"), FailsWith(Message()));
  EXPECT_THAT(Varifocal({"compare", db, "--baseline=1/other", "--candidate=4/fourth"}).err,
              Message("jobs/1/other", "jobs/4/fourth", "2", "1"));
}

TEST_F(HelmetVerbsTest, WhatDoesNotJoinIsTold) {
  const Json samples = Samples();
  const Ran partial = Import(Line(samples[0], "Rome") + Line({{"token_ids_sha256", std::string(64, '0')}}, "x"));
  EXPECT_THAT(partial, FailsWith(Message("1")));
  EXPECT_THAT(partial.out, Message("1"));
  EXPECT_THAT(Import(Line(samples[0], "Rome") + Line(samples[0], "Oslo")).err, HasSubstr("answers.jsonl:2"));
  EXPECT_THAT(Import("{\"prediction\": \"x\"}").err, HasSubstr("token_ids_sha256"));
  EXPECT_THAT(Import("\n").err, Message("answers.jsonl"));
  EXPECT_THAT(Import(R"({"token_ids_sha256": "AB", "prediction": "x"})").err,
              Message("answers.jsonl", "1", "\"token_ids_sha256\"", "\"AB\"", "64"));
  const Ran huge = Import(Line(samples[0], std::string((16 << 20) + 1, 'x')));
  EXPECT_THAT(huge.err, Message("16777217", "16777216"));

  // The incomplete job can be exported; invalid names are refused.
  const std::string db = "--db=" + directory_.File("r.db"), out = "--out=" + directory_.File("output");
  const Ran half = Done(Varifocal({"export", db, out}));
  EXPECT_THAT(half.err, Message("kilt_nq", "600", "1"));
  EXPECT_EQ(Varifocal({"export", db, out, "--tag=a/b"}).code, ExitCode::kWrongUsage);
  EXPECT_EQ(Varifocal({"export", db, out, "--tag="}).code, ExitCode::kWrongUsage);
  EXPECT_THAT(Varifocal({"export", db, "--out=" + suite_}).err, Message());
}

}  // namespace
}  // namespace varifocal::client
