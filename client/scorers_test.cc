// The verbs that score stored answers: `rescore` with small shell commands, `judge` with a shipped model, and how their
// prompts, outputs and failures are read.
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "client/judge_prompt.h"
#include "client/testing_run.h"
#include "db/fakes/fake_results.h"
#include "db/reader.h"
#include "db/writer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::HasSubstr;

constexpr int kAnswerCount = 8;

class ScorersTest : public testing::Test {
 protected:
  void SetUp() override {
    const db::NewJob job = db::FakeJob({.planned_count = kAnswerCount + 1});
    std::string twin;
    db::AddFakeJob(**db::Writer::Open(database_), job, [&](const db::CellRow&, int64_t i, db::Outcome& outcome) {
      outcome.generation.answer = i % 2 == 0 ? "yes" : "no";
      outcome.sample.gold_json = R"(["yes"])";
      outcome.scores = {{"exact_match", i % 2 == 0 ? 1.0 : 0.0}, {"token_f1", 0.5}};
      if (i == 1) twin = *outcome.sample.token_ids_sha256;
      if (i == 3) outcome.sample.token_ids_sha256 = twin;                     // two questions with one prompt
      if (i == kAnswerCount) outcome.generation.log_likelihoods_json = "[]";  // a choice is left out
      return true;
    });
  }

  Ran Rescore(const std::string& command, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"rescore", "--db=" + database_, "--metric=mine", "--command=" + command};
    args.insert(args.end(), more.begin(), more.end());
    return Varifocal(args);
  }

  // Of the metric imported/NAME, by variant and index.
  std::map<std::pair<std::string, int64_t>, double> Scores(const std::string& metric) {
    std::map<std::pair<std::string, int64_t>, double> scores;
    const auto reader = *db::Reader::Open(database_);
    for (const char* variant : {"baseline", "focal"}) {
      EXPECT_TRUE(reader
                      ->EachSampleRow(1, variant,
                                      [&](const db::SampleRow& row) {
                                        if (row.metric == metric && row.value.has_value()) {
                                          scores[{variant, row.sample_index}] = *row.value;
                                        }
                                        return absl::OkStatus();
                                      })
                      .ok());
    }
    return scores;
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    testing_support::WriteFile(directory_.File(name), bytes);
    return directory_.File(name);
  }

  testing_support::TemporaryDirectory directory_;
  const std::string database_ = directory_.File("results.db");
};

TEST_F(ScorersTest, ACommandScoresEveryAnswer) {
  const std::string program = Write("metric.sh", R"(sed -E 's/.*"answer":"yes".*/2/; t; s/.*/0/')");
  const Ran ran = Rescore("sh " + program, {"--score-max=4"});
  EXPECT_THAT(ran, Prints(MessageIn("jobs/1: 16", "imported/mine")));
  EXPECT_THAT(ran.out, HasSubstr("metric.sh sha256 ")) << "the program is recorded by its hash";
  const auto scores = Scores("imported/mine");
  ASSERT_EQ(scores.size(), 2u * kAnswerCount);
  for (const auto& [key, value] : scores) EXPECT_EQ(value, key.second % 2 == 0 ? 0.5 : 0) << key.first << key.second;
  const auto reader = *db::Reader::Open(database_);
  const std::vector<db::ScoreImportRow> imports = *reader->ScoreImports(1);
  EXPECT_EQ(imports.size(), 2u);
  for (const db::ScoreImportRow& row : imports) EXPECT_THAT(row.source, HasSubstr("metric.sh sha256 "));
}

TEST_F(ScorersTest, TheCommandSeesGoldAnswersAndIdentity) {
  const std::string seen = directory_.File("seen");
  ASSERT_EQ(Rescore("tee '" + seen + "' | sed 's/.*/1/'", {"--variants=focal"}).code, ExitCode::kDone);
  const std::vector<std::string> lines = absl::StrSplit(testing_support::ReadFile(seen), '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), kAnswerCount);
  const Json first = *ParseJson(lines[0]);
  EXPECT_EQ(first["gold"], Json({"yes"}));
  EXPECT_EQ(first["answer"], "yes");
  EXPECT_EQ(first["variant"], "focal");
  EXPECT_EQ(first["task"], "recall");
  EXPECT_EQ(first["context_length"], 1024);
  EXPECT_EQ(Scores("imported/mine").size(), static_cast<size_t>(kAnswerCount)) << "of one variant";
}

TEST_F(ScorersTest, QuestionsOfOnePromptHaveScoresOfTheirOwn) {
  const Ran ran = Done(Rescore(R"(sed -E 's/.*"sample_index":([0-9]).*/\1/')", {"--score-max=8"}));
  const auto scores = Scores("imported/mine");
  ASSERT_EQ(scores.size(), 2u * kAnswerCount);
  for (const auto& [key, value] : scores) EXPECT_EQ(value, key.second / 8.0) << key.first << key.second;
}

TEST_F(ScorersTest, TheReportSaysHowFarScoresAgree) {
  ASSERT_EQ(Rescore(R"(sed -E 's/.*"answer":"yes".*/1/; t; s/.*/0/')").code, ExitCode::kDone);
  const std::string agreeing = directory_.File("agreeing.md"), halves = directory_.File("halves.md");
  ASSERT_EQ(Varifocal({"report", "--db=" + database_, "--out=" + agreeing}).code, ExitCode::kDone);
  EXPECT_THAT(testing_support::ReadFile(agreeing), HasSubstr("| imported/mine and exact_match | 16 | 2 | 1.000 |"));
  ASSERT_EQ(Rescore("sed 's/.*/0.5/'").code, ExitCode::kDone);  // of answers of which half are right
  ASSERT_EQ(Varifocal({"report", "--db=" + database_, "--out=" + halves}).code, ExitCode::kDone);
  EXPECT_THAT(testing_support::ReadFile(halves), HasSubstr("| imported/mine and exact_match | 16 | 2 | 0.000 |"));
}

TEST_F(ScorersTest, ALongCommandIsRefusedBeforeItRuns) {
  const std::string seen = directory_.File("seen");
  EXPECT_EQ(Rescore("tee '" + seen + "' " + std::string(1024, ' ')).code, ExitCode::kWrongUsage);
  EXPECT_FALSE(std::filesystem::exists(seen));
}

TEST_F(ScorersTest, WhatIsNoScoreIsRefusedAndNothingIsStored) {
  const std::pair<const char*, const char*> cases[] = {
      {"cat >/dev/null; exit 3", "status 3"},
      {"kill -9 $$", "signal 9"},
      {"sed 's/.*/7/'", "\"7\""},
      {"sed 's/.*/nan/'", "\"nan\""},
      {"echo 1", "1 line for 16"},
      {"sed 's/.*/null/'", "no answer"},
      {"true", "0 lines for 16"},
  };
  for (const auto& [command, part] : cases) {
    const Ran ran = Rescore(command);
    EXPECT_EQ(ran.code, ExitCode::kFailed) << command;
    EXPECT_THAT(ran.err, HasSubstr(part)) << command;
  }
  EXPECT_TRUE(Scores("imported/mine").empty());
  EXPECT_THAT(Rescore("cat", {"--variants=focl"}).err, Message("focl", "baseline, focal"));
  EXPECT_EQ(Rescore("cat", {"--score-max=0"}).code, ExitCode::kWrongUsage);
}

TEST_F(ScorersTest, AnAnswerWithoutAScoreIsSaidAndTheOthersAreStored) {
  EXPECT_THAT(Rescore(R"(sed -E '1s/.*/null/; 2,$s/.*/1/')"), FailsWith(Message("1 answer")));
  EXPECT_EQ(Scores("imported/mine").size(), 15u);
}

constexpr char kChoices[] =
    "name: correct\nprompt: |\n  Reference {gold}, answer {answer}. {{Right}}?\nchoices: {\" yes\": 1, \" no\": 0}\n";

TEST_F(ScorersTest, AModelJudgesOnceAndAgreesWithItself) {
  const std::string prompt = Write("judge.yaml", kChoices), out = directory_.File("verdicts.jsonl");
  const auto judge = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"judge", "--db=" + database_, "--judge=models/baseline", "--prompt=" + prompt,
                                     "--out=" + out};
    args.insert(args.end(), more.begin(), more.end());
    return Varifocal(args);
  };
  const Ran first = judge({"--variants=baseline"});
  EXPECT_THAT(first, Prints(MessageIn("jobs/1: 8", "imported/correct")));
  const std::string verdicts = testing_support::ReadFile(out);
  const std::vector<std::string> lines = absl::StrSplit(verdicts, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), kAnswerCount);
  std::map<std::string, double> by_key;
  for (const std::string& line : lines) {
    const Json verdict = *ParseJson(line);
    const double score = verdict["scores"]["correct"];
    EXPECT_EQ(by_key.emplace(verdict["key"], score).first->second, score);
    EXPECT_EQ(verdict["reply"], score == 1 ? " yes" : " no");
  }
  EXPECT_EQ(by_key.size(), 2u) << "equal answers are asked once";

  const Ran again = Done(judge({"--variants=baseline", "--against=imported/correct", "--format=json"}));
  EXPECT_EQ(testing_support::ReadFile(out), verdicts) << "nothing is asked again";
  EXPECT_THAT(again.out, HasSubstr("\"equal_share\":1"));

  // A line that a killed call left unfinished is asked again.
  testing_support::WriteFile(out, verdicts.substr(0, verdicts.size() - 20));
  ASSERT_EQ(judge({"--variants=baseline"}).code, ExitCode::kDone);
  EXPECT_EQ(testing_support::ReadFile(out), verdicts);

  // More answers of the same texts need no further question, but each a line and a score.
  EXPECT_THAT(judge({}), Prints(MessageIn("jobs/1: 16", "imported/correct")));
  EXPECT_EQ(Scores("imported/correct").size(), 16u);

  Write("judge.yaml", absl::StrCat(kChoices, "# another comment is the same prompt\n"));
  EXPECT_EQ(judge({}).code, ExitCode::kDone);
  Write("judge.yaml", "name: correct\nprompt: '{answer}'\nchoices: {' yes': 1, ' no': 0}\n");
  EXPECT_THAT(judge({"--variants=baseline"}).err, Message("verdicts.jsonl:1", "--out"));
}

TEST_F(ScorersTest, AReplyWithoutAGradeIsNoScore) {
  const std::string prompt =
      Write("grade.yaml", "name: g\nprompt: '{answer}'\ngrade: 'Rating: [0-9]+'\nrange: [1, 5]\nmax_new_tokens: 4\n");
  EXPECT_THAT(Varifocal({"judge", "--db=" + database_, "--judge=models/baseline", "--prompt=" + prompt,
                         "--out=" + directory_.File("grades.jsonl")}),
              FailsWith(HasSubstr("no grade")));
  EXPECT_TRUE(Scores("imported/g").empty());
}

TEST_F(ScorersTest, GradesAreReadFromReplies) {
  const std::string path =
      Write("grade.yaml", "name: g\nprompt: x\ngrade: 'Rating: \\[\\[-?[0-9.]+\\]\\]'\nrange: [1, 5]\n");
  const JudgePrompt prompt = *ReadJudgePrompt(path);
  EXPECT_EQ(*prompt.ScoreOf("Rating: [[1]], no: Rating: [[5]]"), 1) << "the last match";
  EXPECT_EQ(*prompt.ScoreOf("so Rating: [[2]]."), 0.25);
  EXPECT_EQ(*prompt.ScoreOf("Rating: [[1.5]]"), 0.125);
  EXPECT_THAT(prompt.ScoreOf("Rating: [[7]]").status().message(), Message("7", "1 to 5"));
  EXPECT_THAT(prompt.ScoreOf("Rating: [[-2]]").status().message(), Message("-2", "1 to 5"));
  EXPECT_THAT(prompt.ScoreOf("I cannot say").status().message(), Message("I cannot say"));
}

TEST_F(ScorersTest, PromptFilesAreRefusedWithTheirKey) {
  const std::pair<const char*, const char*> cases[] = {
      {"[1]", "mapping"},
      {"name: a\nprompt: b\n", "choices"},
      {"name: a\nprompt: b\nchoices: {x: 1, y: 0}\ngrade: c\n", "choices"},
      {"name: a\nprompt: b\nchioces: {x: 1, y: 0}\n", "chioces"},
      {"name: a\nprompt: '{anser}'\nchoices: {x: 1, y: 0}\n", "{anser}"},
      {"name: a\nprompt: 'open {'\nchoices: {x: 1, y: 0}\n", "{{"},
      {"name: a\nprompt: b\nchoices: {x: 1}\n", "two"},
      {"name: a\nprompt: b\nchoices: {x: 1, y: 2}\n", "\"y\""},
      {"name: a\nprompt: b\nchoices: {x: 1, y: z}\n", "number"},
      {"name: a\nprompt: b\nchoices: {x: 1, y: 0}\nrange: [0, 1]\n", "range"},
      {"name: a\nprompt: b\ngrade: '[0-9'\nrange: [0, 1]\n", "grade.yaml"},
      {"name: a\nprompt: b\ngrade: '[0-9]'\n", "range"},
      {"name: a\nprompt: b\ngrade: '[0-9]'\nrange: [3, 3]\n", "3"},
      {"name: a\nprompt: b\ngrade: '[0-9]'\nrange: [1, 3]\nmax_new_tokens: 0\n", "max_new_tokens"},
      {"name: a b\nprompt: c\nchoices: {x: 1, y: 0}\n", "a b"},
      {"a: [", "is not YAML"},
  };
  for (const auto& [text, part] : cases) {
    const absl::Status status = ReadJudgePrompt(Write("grade.yaml", text)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(status.message(), HasSubstr(part)) << text;
  }
}

}  // namespace
}  // namespace varifocal::client
