// The program and chat endpoints over real HTTP: a key that must be nowhere in what it leaves behind, a spent budget, a suite
// in chat form, and scores of a server that thinks before it answers.
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "gmock/gmock.h"
#include "server/endpoint/faulty_server.h"
#include "tests/support/process.h"
#include "tests/support/recall_value.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The program, with a chat suite, a key, a spent budget and a resumed job. The server repeats a wrong key.
class ChatProgramTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(model_);
    std::filesystem::copy_file("models/baseline/tokenizer.json", model_ + "/tokenizer.json");
    const ChatFormat format = FaultyServer::Format();
    const auto texts = [](const ChatFormat::Texts& t) { return Json{{"prefix", t.prefix}, {"suffix", t.suffix}}; };
    Json with = texts(*format.with_system);
    with["between"] = format.with_system->between;
    WriteFile(model_ + "/chat_format.json", Json{{"template_sha256", format.template_sha256},
                                                 {"without_system", texts(format.without_system)},
                                                 {"with_system", with}}
                                                .dump());
    WriteFile(suite_, Suite(true));
  }
  static std::string Suite(bool chat) {
    return absl::StrCat("name: c\nseed: 1\nlengths: [256]\nsamples: 4\ntasks:\n  - {kind: recall_kv, chat: ",
                        chat ? "true" : "false", "}\n");
  }
  ProcessResult Run(const FaultyServer& server, std::vector<std::string> more, const std::string& key_setting) const {
    more.insert(more.begin(), {"run", suite_, "--db=" + directory_.File("c.db"), "--in-flight=1",
                               absl::StrCat("--endpoint=e=", server.url(), ",api=chat,attempts=1,tokenizer=", model_,
                                            ",", key_setting)});
    return RunProcess("varifocal", more, {.environment = {"VARIFOCAL_TEST_KEY=sk-of-the-environment"}});
  }
  // In every file of the directory but the key's own.
  void ExpectNowhere(const std::string& key) const {
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory_.path())) {
      if (!entry.is_regular_file() || entry.path().filename() == "key") continue;
      EXPECT_THAT(ReadFile(entry.path().string()), Not(HasSubstr(key))) << entry.path();
      ++files;
    }
    EXPECT_GE(files, 4);
  }

  TemporaryDirectory directory_;
  const std::string model_ = directory_.File("model"), suite_ = directory_.File("suite.yaml");
};

TEST_F(ChatProgramTest, LeavesTheKeyNowhereAndStopsAtTheBudget) {
  WriteFile(directory_.File("key"), "sk-of-the-file\n");
  const FaultyServer server({.key = "sk-of-the-environment"});
  // A wrong key, from a file: the server's error has it.
  const auto refused = Run(server, {}, "key-file=" + directory_.File("key"));
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.err, HasSubstr("[API key]"));
  // 4 questions of about 250 tokens: the budget ends after two.
  const auto spent = Run(server, {"--endpoint-budget-tokens=1300"}, "key-env=VARIFOCAL_TEST_KEY");
  EXPECT_NE(spent.exit_code, 0);
  EXPECT_THAT(spent.err, HasSubstr("--endpoint-budget-tokens"));
  EXPECT_THAT(spent.err, HasSubstr("resume"));
  const size_t asked = server.bodies().size();
  const auto resumed = Run(server, {}, "key-env=VARIFOCAL_TEST_KEY");
  EXPECT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_LT(server.bodies().size(), asked + 6) << "three at the start; answers of the first run are kept";
  EXPECT_EQ(server.bodies().back()["messages"].size(), 1u);
  for (const auto& ran : {refused, spent, resumed}) EXPECT_THAT(ran.out + ran.err, Not(HasSubstr("sk-of-the")));
  ExpectNowhere("sk-of-the");
}

// The built-in suite as a chat model is asked: whole prompts as messages, no stop strings, and the last line is the answer.
TEST_F(ChatProgramTest, ASuiteInChatForm) {
  const auto tokenizer = *Tokenizer::Load("models/baseline");
  const FaultyServer server(
      {.continuation = *tokenizer->Encode("The mill? No.\nAnswer: kitchen", {.add_special_tokens = false})});
  const std::string database = directory_.File("c.db");
  const auto ran =
      RunProcess("varifocal", {"run", "quick", "--form=chat", "--lengths=1K", "--limit=4", "--db=" + database,
                               absl::StrCat("--endpoint=e=", server.url(), ",api=chat,tokenizer=", model_)});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const Json body = server.bodies().back();
  EXPECT_FALSE(body.contains("stop"));
  EXPECT_EQ(body["max_completion_tokens"], 256);
  ASSERT_EQ(body["messages"].size(), 1u);
  EXPECT_TRUE(body["messages"][0]["content"].get<std::string>().ends_with(" and nothing else."));
  const auto rows = RunProcess(
      "varifocal", {"query", "--db=" + database, "--format=jsonl",
                    "SELECT task, answer, count(*) AS count, max(value) AS best FROM v_samples WHERE is_primary "
                    "GROUP BY task, answer"});
  ASSERT_EQ(rows.exit_code, 0) << rows.err;
  int task_count = 0;
  for (const absl::string_view line : absl::StrSplit(rows.out, '\n', absl::SkipEmpty())) {
    const Json row = *ParseJson(line);
    EXPECT_EQ(row["answer"], "kitchen") << row;
    EXPECT_EQ(row["count"], 4) << row;
    ++task_count;
  }
  EXPECT_EQ(task_count, 5);
}

// A server that answers every question right, thinking first: 0 where the block is scored, else 1; as a completion, as one
// in a block that the prompt has opened, and as both forms of a chat reply.
TEST_F(ChatProgramTest, AServerThatThinksScoresAsItAnswers) {
  struct Case {
    const char* what;
    const char* api;
    const char* before;  // the value
    const char* reasoning;
    bool is_chat, is_opened, has_budget;
    double mean;
  };
  const char* const block = "<think>\nIs it \"x\"? No.\n</think>\n\n";
  const Case cases[] = {
      {"a block without a budget", "completions", block, "", false, false, false, 0},
      {"a block", "completions", block, "", false, false, true, 1},
      {"no block", "completions", "", "", false, false, true, 1},
      {"an opened block", "completions", "Is it \"x\"?\nNo.\n</think>\n\n", "", true, true, true, 1},
      {"a block in a message", "chat", block, "", true, false, true, 1},
      {"reasoning beside a message", "chat", "", "Is it \"x\"?\nNo.", true, false, true, 1},
      {"an opened block taken apart", "chat", "", "Is it \"x\"?\nNo.", true, true, true, 1},
  };
  const std::string path = model_ + "/chat_format.json";
  const Json format = *ParseJson(ReadFile(path));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const FaultyServer server({.write = [&](const std::string& prompt) -> std::string {
                                 const std::string value = RecallValue(prompt);
                                 return value.empty() ? "" : absl::StrCat(c.before, value, "\"");
                               },
                               .reasoning = c.reasoning});
    Json here = format;
    here["thinking"] = {{"begin", "<think>"}, {"end", "</think>"}};
    if (c.is_opened) here["without_system"]["suffix"] = "<|end|>\nmodel\n<think>\n";
    WriteFile(path, here.dump());
    WriteFile(suite_, Suite(c.is_chat));
    const std::string database = directory_.File(absl::StrCat("thinks", &c - cases, ".db"));
    std::vector<std::string> arguments = {
        "run", suite_, "--db=" + database, "--answer-tokens=12",
        absl::StrCat("--endpoint=e=", server.url(), ",attempts=1,tokenizer=", model_, ",api=", c.api,
                     c.is_opened && c.is_chat && c.api == std::string("chat") ? ",counts=unchecked" : "")};
    if (c.has_budget) arguments.push_back("--thinking-tokens=60");
    const auto ran = RunProcess("varifocal", arguments);
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    const auto mean =
        RunProcess("varifocal", {"query", "--db=" + database, "--format=jsonl",
                                 "SELECT count(*) AS count, avg(value) AS mean FROM v_samples WHERE is_primary"});
    const Json row = *ParseJson(absl::StripAsciiWhitespace(mean.out));
    EXPECT_EQ(row["count"], 4);
    EXPECT_EQ(row["mean"], c.mean);
  }
}

TEST_F(ChatProgramTest, RefusesPlainTasksAndAMissingFormat) {
  WriteFile(suite_, Suite(false));
  const FaultyServer server({});
  const auto plain = Run(server, {}, "in-flight=1");
  EXPECT_NE(plain.exit_code, 0);
  EXPECT_THAT(plain.err, HasSubstr("chat: true"));
  std::filesystem::remove(model_ + "/chat_format.json");
  const auto missing = Run(server, {}, "in-flight=1");
  EXPECT_NE(missing.exit_code, 0);
  EXPECT_THAT(missing.err, HasSubstr("counts=unchecked"));
}

}  // namespace
}  // namespace varifocal
