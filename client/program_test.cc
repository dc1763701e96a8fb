// The program end to end: verbs run in this process on string streams, and golden pages of --help
// (VARIFOCAL_UPDATE_GOLDENS=1 rewrites them).
#include "client/program.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/code_version.h"
#include "base/json.h"
#include "base/sha256.h"
#include "client/testing_run.h"
#include "client/verb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing_support::ReadFile;
using testing_support::WriteFile;

constexpr char kTokenizer[] = "models/baseline";

TEST(ProgramTest, HelpPagesAreAsCommitted) {
  for (const std::string verb : {"", "submit", "watch", "compare", "samples", "tokenize", "score", "run"}) {
    const Ran ran =
        Done(Varifocal(verb.empty() ? std::vector<std::string>{"--help"} : std::vector<std::string>{verb, "--help"}));
    EXPECT_EQ(ran.err, "");
    const std::string path = "client/testdata/help" + (verb.empty() ? "" : "_" + verb) + ".txt";
    if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) WriteFile(path, ran.out);
    EXPECT_EQ(ran.out, ReadFile(path)) << path;
  }
}

// The manual page is made from it.
TEST(ProgramTest, HelpForAllVerbs) {
  const Ran all = Done(Varifocal({"help", "--all"}));
  size_t at = 0;
  for (const Verb* verb : Verbs()) {
    at = all.out.find(absl::StrCat("\n", Varifocal({"help", verb->name}).out), at);
    ASSERT_NE(at, std::string::npos) << verb->name;
  }
  EXPECT_EQ(all.out.find(Varifocal({"help"}).out), 0u);
}

TEST(ProgramTest, EveryVerbExplainsItself) {
  std::set<std::string> names;
  for (const Verb* verb : Verbs()) {
    EXPECT_TRUE(names.insert(verb->name).second) << verb->name;
    const Ran ran = Varifocal({verb->name, "--help"});
    EXPECT_EQ(ran.code, ExitCode::kDone) << verb->name;
    EXPECT_THAT(ran.out, AllOf(HasSubstr(verb->about), HasSubstr("Examples"), HasSubstr("--format"))) << verb->name;
    EXPECT_EQ(ran.out.find('\x1b'), std::string::npos) << "colour in a pipe";
    EXPECT_EQ(Varifocal({"help", verb->name}).out, ran.out);
    for (size_t at = 0; at < ran.out.size();) {  // a page fits a terminal
      const size_t end = ran.out.find('\n', at);
      EXPECT_LE(end - at, 125u) << verb->name << ": " << ran.out.substr(at, end - at);
      at = end + 1;
    }
  }
}

// A directory whose files the versions of transformers read differently: each verb that reads a tokenizer or a model
// refuses it and names the flag, and takes the flag.
TEST(ProgramTest, TokenizerRules) {
  const testing_support::TemporaryDirectory temporary;
  const std::string directory = temporary.File("two_readings");
  std::filesystem::copy("models/baseline", directory);
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    std::filesystem::permissions(entry.path(), std::filesystem::perms::owner_write, std::filesystem::perm_options::add);
  }
  WriteFile(
      directory + "/tokenizer_config.json",
      R"({"tokenizer_class": "GPTNeoXTokenizer", "bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": null,
                "unk_token": null, "add_bos_token": true})");
  const std::string ids = temporary.File("two_readings_ids.json");
  WriteFile(ids, "[1, 2, 3]");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"tokenize", "--model=" + directory, "--text=a"},
           {"detokenize", "--model=" + directory, "--token-ids-file=" + ids},
           {"generate", "--model=" + directory, "--prompt=a", "--max-new-tokens=1"},
           {"score", "--model=" + directory, "--prompt=a"},
           {"samples", "quick", "--tokenizer=" + directory, "--lengths=512", "--limit=1"}}) {
    const Ran refused = Varifocal(args);
    EXPECT_EQ(refused.code, ExitCode::kFailed) << args[0];
    EXPECT_THAT(refused.err, AllOf(HasSubstr("\"add_bos_token\" is true"), HasSubstr("--tokenizer-rules=4 or")))
        << args[0];
    for (const char* rules : {"4", "5"}) {
      std::vector<std::string> chosen = args;
      chosen.push_back(absl::StrCat("--tokenizer-rules=", rules));
      EXPECT_EQ(Varifocal(chosen).code, ExitCode::kDone) << args[0] << " " << rules << ": " << Varifocal(chosen).err;
    }
  }
  const auto tokens = [&](const char* rules) {
    return Varifocal({"tokenize", "--model=" + directory, "--text=a", absl::StrCat("--tokenizer-rules=", rules)}).out;
  };
  EXPECT_NE(tokens("4"), tokens("5"));
  EXPECT_THAT(Varifocal({"tokenize", "--model=" + directory, "--text=a", "--tokenizer-rules=6"}).err,
              Message("4", "5"));
  EXPECT_THAT(Varifocal({"tokenize", "--daemon=127.0.0.1:1", "--model=a", "--text=a", "--tokenizer-rules=5"}).err,
              Message());
  EXPECT_THAT(Varifocal({"score", "--model=models/baseline", "--prompt=a", "--ignore-config-key=novel"}).err,
              Message("\"novel\""));
}

TEST(ProgramTest, WrongUsageIsTwoAndSuggests) {
  struct Case {
    std::vector<std::string> args;
    const char* value;
  };
  const std::vector<Case> table = {
      {{}, "varifocal VERB"},
      {{"sumbit"}, "\"submit\""},
      {{"tokenise"}, "\"tokenize\""},
      {{"submit", "quick", "--modles=a"}, "--models?"},
      {{"submit", "quick"}, "--models="},
      {{"submit", "--models=a"}, "SUITE"},
      {{"submit", "quikc", "--models=a"}, "\"quick\""},
      {{"list", "--daemon=127.0.0.1:99999"}, "65535"},
      {{"submit", "quick", "--models=a", "--focal-temperatures=0"}, "0"},
      {{"submit", "quick", "--models=a", "--focal-temperatures=-0.5"}, "0"},
      {{"submit", "quick", "--models=a", "--focal-temperatures=nan"}, "0"},
      {{"submit", "quick", "--models=a", "--focal-temperatures=1", "--focal-layers=early,last"}, "\"last\""},
      {{"submit", "quick", "--models=a", "--focal-layers=early"}, "--focal-temperatures"},
      {{"submit", "quick", "--models=a", "--focal-temperatures=0.5,inf"}, "0"},
      {{"submit", "quick", "--models=a@t=0"}, "0"},
      {{"submit", "quick", "--models=a@t=nan"}, "nan"},
      {{"submit", "quick", "--models=a", "--lengths=8M"}, "\"8M\""},
      {{"submit", "quick", "--models=a", "--lengths=1025K"}, "\"1025K\""},
      {{"compare", "--db=x", "--baseline=a", "--candidate=b", "--daemon=x:1"}, "--daemon"},
      {{"submit", "quick", "--models=a", "--lengths=0"}, "1048576"},
      {{"submit", "quick", "--models=a", "--tasks=recal_kv"}, "recall_kv"},
      {{"submit", "quick", "--models=a", "--limit=0"}, "1"},
      {{"submit", "quick", "--models=a", "--top-p=0"}, "0"},
      {{"submit", "quick", "--models=a", "--sampling-temperature=1", "--top-k=-1"}, "0"},
      {{"submit", "quick", "--models=a", "--sampling-temperature=1", "--min-p=1.5"}, "1"},
      {{"submit", "quick", "--models=a", "--top-k=20"}, "--sampling-temperature"},
      {{"watch"}, "JOB"},
      {{"watch", "first"}, "\"first\""},
      {{"show", "jobs/0"}, "jobs/0"},
      {{"list", "--format=yaml"}, "text, json, jsonl, csv"},
      {{"compare", "--db=x", "--baseline=a", "--candidate=a"}, "a"},
      {{"tokenize", "--model=models/baseline"}, "--text"},
      {{"tokenize", "--model=models/baseline", "--text=a", "--file=b"}, "--text"},
      {{"tasks", "recal_kv"}, "recall_kv"},
      {{"suites", "quik"}, "quick"},
  };
  for (const Case& c : table) {
    const Ran ran = Varifocal(c.args);
    EXPECT_THAT(ran, IsWrongUsage(MessageIn(c.value)));
    EXPECT_EQ(ran.out, "") << "an error writes nothing to standard output";
  }
}

TEST(ProgramTest, FailuresAreOneAndOneSentence) {
  struct Case {
    std::vector<std::string> args;
    const char* value;
  };
  const std::vector<Case> table = {
      {{"tokenize", "--model=no/such/directory", "--text=a"}, "no/such/directory"},
      {{"tokenize", "--model=models/baseline", "--file=no/such/file"}, "no/such/file"},
      {{"tokenize", "--model=models/baseline", "--file=models"}, "models"},
      {{"metric", "--jsonl=no/such/file"}, "no/such/file"},
      {{"compare", "--db=no/such.db", "--baseline=a", "--candidate=b"}, "no/such.db"},
      {{"diff", "no/a.db", "no/b.db"}, "no/a.db"},
      {{"submit", "./no-such.yaml", "--models=a"}, "./no-such.yaml"},
  };
  for (const Case& c : table) {
    const Ran ran = Varifocal(c.args);
    EXPECT_THAT(ran, FailsWith(MessageIn(c.value)));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST(ProgramTest, NoDaemonIsOneSentenceThatSaysHowToStartOne) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"list"},
                                             {"models"},
                                             {"watch", "1"},
                                             {"show", "1"},
                                             {"cancel", "1"},
                                             {"resume", "1"},
                                             {"submit", "quick", "--models=a"},
                                             {"tokenize", "--model=a", "--text=b"}}) {
    std::vector<std::string> with_daemon = args;
    with_daemon.push_back("--daemon=127.0.0.1:1");  // a privileged port
    with_daemon.push_back("--connect-timeout=0");
    const Ran ran = Varifocal(with_daemon);
    EXPECT_EQ(ran.code, ExitCode::kFailed) << args[0];
    EXPECT_THAT(ran.err, MessageIn("127.0.0.1:1;", "varifocald --db="));
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
}

TEST(ProgramTest, TokenizeAndDetokenizeAreInverse) {
  testing_support::TemporaryDirectory directory;
  const std::string text = "Find the key in the JSON object and copy its value.\n\n{\"a\":\"b\"}";
  WriteFile(directory.File("text"), text);
  const Ran tokenized = Done(Varifocal({"tokenize", std::string("--model=") + kTokenizer,
                                        "--file=" + directory.File("text"), "--format=json", "--no-special-tokens"}));
  ASSIGN_OR_FAIL(const auto object, ParseJson(tokenized.out));
  EXPECT_EQ(object.size(), 1u) << "exactly the documented key";
  WriteFile(directory.File("ids"), object.at("token_ids").dump());
  const Ran detokenized =
      Varifocal({"detokenize", std::string("--model=") + kTokenizer, "--token-ids-file=" + directory.File("ids")});
  EXPECT_EQ(detokenized.out, text) << "byte for byte, without an added newline";
  const Ran as_json = Varifocal({"detokenize", std::string("--model=") + kTokenizer,
                                 "--token-ids-file=" + directory.File("ids"), "--format=json"});
  EXPECT_EQ(ParseJson(as_json.out)->at("text"), text);
}

TEST(ProgramTest, ManyTextsAreOneLineEach) {
  testing_support::TemporaryDirectory directory;
  WriteFile(directory.File("texts"), "{\"text\": \"a\"}\n\n{\"text\": \"b c\", \"id\": 3}\n");
  const Ran ran = Done(Varifocal(
      {"tokenize", std::string("--model=") + kTokenizer, "--jsonl=" + directory.File("texts"), "--format=jsonl"}));
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 2);
  WriteFile(directory.File("bad"), "{\"text\": \"a\"}\n{\"txt\": \"b\"}\n");
  EXPECT_THAT(Varifocal({"tokenize", std::string("--model=") + kTokenizer, "--jsonl=" + directory.File("bad"),
                         "--format=jsonl"}),
              FailsWith(Message("2", "\"text\"")));
}

TEST(ProgramTest, BadTokenIds) {
  testing_support::TemporaryDirectory directory;
  struct Case {
    const char* bytes;
    const char* value;
  };
  for (const Case& c : std::vector<Case>{{"[1, -2]", "-2"},
                                         {"[1.5]", "1.5"},
                                         {"[2147483648]", "2147483648"},
                                         {"{}", "ids"},
                                         {"[1,", "ids"},
                                         {"[999999999]", "999999999"}}) {
    WriteFile(directory.File("ids"), c.bytes);
    const Ran ran =
        Varifocal({"detokenize", std::string("--model=") + kTokenizer, "--token-ids-file=" + directory.File("ids")});
    EXPECT_EQ(ran.code, ExitCode::kFailed) << c.bytes;
    EXPECT_THAT(ran.err, Message(c.value)) << c.bytes;
  }
}

TEST(ProgramTest, MetricsJudgeRows) {
  testing_support::TemporaryDirectory directory;
  WriteFile(directory.File("rows"),
            "{\"metric\": \"exact_match\", \"prediction\": \"The Door.\", \"gold\": [\"door\"], \"id\": 1}\n"
            "{\"metric\": [\"exact_match\", \"token_f1\"], \"prediction\": \"red door\", \"gold\": \"blue door\"}\n");
  const Ran ran = Done(Varifocal({"metric", "--jsonl=" + directory.File("rows"), "--format=jsonl"}));
  std::istringstream lines(ran.out);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(*ParseJson(line), Json({{"exact_match", 1.0}}));  // case, article and full stop are normalised away
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(ParseJson(line)->at("exact_match"), 0.0);
  EXPECT_EQ(ParseJson(line)->at("token_f1"), 0.5);  // one of two words on either side

  WriteFile(directory.File("rows"),
            "{\"metric\": \"exact_match\", \"prediction\": \"a\", \"gold\": \"a\"}\n[1\n"
            "{\"metric\": \"no_such\", \"prediction\": \"a\", \"gold\": \"a\"}\n"
            "{\"metric\": \"exact_match\", \"prediction\": \"a\", \"gold\": \"b\"}\n");
  const Ran refused = Varifocal({"metric", "--jsonl=" + directory.File("rows"), "--format=jsonl"});
  EXPECT_THAT(refused,
              FailsWith(AllOf(HasSubstr("rows:2"), HasSubstr("rows:3"), HasSubstr("unknown metric \"no_such\""))));
  const std::vector<std::string> scored = absl::StrSplit(refused.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(scored.size(), 4u) << refused.out;
  EXPECT_EQ(*ParseJson(scored[0]), Json({{"exact_match", 1.0}}));
  EXPECT_TRUE(ParseJson(scored[1])->contains("error"));
  EXPECT_TRUE(ParseJson(scored[2])->contains("error"));
  EXPECT_EQ(*ParseJson(scored[3]), Json({{"exact_match", 0.0}}));

  WriteFile(directory.File("rows"),
            "{\"metric\": \"helmet/default\", \"prediction\": \"x\\nAnswer: Rome\", \"gold\": [\"rome\"]}\n"
            "{\"metric\": [\"helmet/rerank\", \"helmet/rerank/NDCG@10\"], \"prediction\": \"4 > 99 > 1\", "
            "\"gold\": {\"1\": 3, \"2\": 2, \"3\": 0, \"4\": 1}, \"k_values\": [10]}\n");
  const Ran helmet = Done(Varifocal({"metric", "--jsonl=" + directory.File("rows"), "--format=jsonl"}));
  std::istringstream helmet_lines(helmet.out);
  ASSERT_TRUE(std::getline(helmet_lines, line));
  EXPECT_EQ(ParseJson(line)->at("helmet/default").at("exact_match"), 1.0) << "of the parsed part";
  EXPECT_EQ(ParseJson(line)->at("helmet/default").at("parsed_output"), "Rome");
  ASSERT_TRUE(std::getline(helmet_lines, line));
  EXPECT_EQ(ParseJson(line)->at("helmet/rerank").at("NDCG@10"), 0.525);
  EXPECT_EQ(ParseJson(line)->at("helmet/rerank/NDCG@10"), 0.525);

  for (const auto& [bytes, value] : std::vector<std::pair<std::string, std::string>>{
           {"{\"metric\": \"helmet/defualt\", \"prediction\": \"a\", \"gold\": [\"a\"]}", "\"default\""},
           {"{\"metric\": \"helmet/default\", \"prediction\": \"a\"}", "\"gold\""},
           {"{\"metric\": \"exact_mach\", \"prediction\": \"a\", \"gold\": [\"a\"]}", "exact_match"},
           {"{\"prediction\": \"a\", \"gold\": [\"a\"]}", "\"metric\""},
           {"{\"metric\": \"exact_match\", \"gold\": [\"a\"]}", "\"prediction\""},
           {"{\"metric\": \"exact_match\", \"prediction\": null, \"gold\": [\"a\"]}", "\"prediction\""},
           {"{\"metric\": \"exact_match\", \"prediction\": \"a\"}", "\"gold\""},
           {"{\"metric\": \"exact_match\", \"prediction\": \"a\", \"gold\": {}}", "\"gold\""},
           {"{\"metric\": 5, \"prediction\": \"a\", \"gold\": [\"a\"]}", "\"5\""},
           {"{\"metric\": [], \"prediction\": \"a\", \"gold\": [\"a\"]}", "\"metric\""},
           {"[1]", "rows:1"},
           {"\x1F\x8B", "gzip"},
           {"\xFF\xFE{", "UTF-16"},
           {"not json", "rows:1"}}) {
    WriteFile(directory.File("rows"), bytes);
    const Ran bad = Varifocal({"metric", "--jsonl=" + directory.File("rows")});
    EXPECT_EQ(bad.code, ExitCode::kFailed) << bytes;
    EXPECT_THAT(bad.err, Message(value)) << bytes;
  }
}

// The gold answers that `metric` takes are those that rows of a task may have, and are the same texts.
TEST(ProgramTest, MetricTakesTheGoldAnswersOfRows) {
  testing_support::TemporaryDirectory directory;
  WriteFile(
      directory.File("suite.yaml"),
      "{name: s, lengths: [256], tasks: [{kind: jsonl, parameters: {path: rows.jsonl, prompt: \"{q}\", gold: gold}}]}");
  const std::vector<std::pair<const char*, const char*>> cases = {
      // gold, the text that is right; "" where it is refused
      {"\"red\"", "red"},
      {"5", "5"},
      {"true", "true"},
      {"-1.50", "-1.5"},
      {"[\"red\", 7]", "7"},
      {"12345678901234567890123", "12345678901234567890123"},
      {"[18446744073709551617]", "18446744073709551617"},
      {"3.14159265358979323846", "3.14159265358979323846"},
      {"\"A\"", "A"},
      {"\"\"", ""},
      {"\" \\n\"", ""},
      {"\"\\u00a0\"", ""},
      {"[]", ""},
      {"[\"\", \"Rome\"]", ""},
      {"[\"Rome\", null]", ""},
      {"null", ""},
      {"{}", ""},
      {"[[\"red\"]]", ""},
      {"1e999", ""},
  };
  for (const auto& [gold, right] : cases) {
    WriteFile(directory.File("rows.jsonl"), absl::StrCat("{\"q\": \"What?\", \"gold\": ", gold, "}\n"));
    WriteFile(directory.File("answers"),
              absl::StrCat("{\"metric\": [\"written_match\", \"exact_match\"], \"prediction\": ", Json(right).dump(),
                           ", \"gold\": ", gold, "}\n"));
    const Ran samples = Varifocal({"samples", directory.File("suite.yaml"), std::string("--tokenizer=") + kTokenizer});
    const Ran metric = Varifocal({"metric", "--jsonl=" + directory.File("answers"), "--format=jsonl"});
    const bool is_taken = *right != '\0';
    EXPECT_EQ(samples.code, is_taken ? ExitCode::kDone : ExitCode::kFailed) << gold << samples.err;
    EXPECT_EQ(metric.code, is_taken ? ExitCode::kDone : ExitCode::kFailed) << gold << metric.err;
    if (!is_taken) continue;
    EXPECT_THAT(samples.out, HasSubstr(right));
    EXPECT_EQ(*ParseJson(metric.out), Json({{"written_match", 1.0}, {"exact_match", 1.0}})) << gold;
  }
}

TEST(ProgramTest, MetricTakesSeveralRightContinuations) {
  testing_support::TemporaryDirectory directory;
  const auto score = [&](const char* right) {
    WriteFile(directory.File("rows"),
              absl::StrCat("{\"metric\": \"multiple_choice_accuracy\", \"gold_continuation_index\": ", right,
                           ", \"continuation_scores\": [{\"log_likelihood\": -2}, {\"log_likelihood\": -1}]}"));
    return Varifocal({"metric", "--jsonl=" + directory.File("rows"), "--format=jsonl"});
  };
  EXPECT_EQ(ParseJson(score("1").out)->at("multiple_choice_accuracy"), 1.0);
  EXPECT_EQ(ParseJson(score("[0, 1]").out)->at("multiple_choice_accuracy"), 1.0);
  EXPECT_EQ(ParseJson(score("[0]").out)->at("multiple_choice_accuracy"), 0.0);
  EXPECT_THAT(score("-1").err, Message("0"));
  EXPECT_THAT(score("[2]").err, Message("2"));
  EXPECT_THAT(score("[]").err, Message());
  EXPECT_THAT(score("\"1\"").err, Message());
  for (const char* metric : {"multiple_choice_accuracy", "continuation_log_likelihood"}) {
    WriteFile(directory.File("rows"), absl::StrCat("{\"metric\": \"", metric, "\", \"gold_continuation_index\": 0}"));
    EXPECT_THAT(Varifocal({"metric", "--jsonl=" + directory.File("rows")}).err,
                HasSubstr(absl::StrCat(metric, " needs \"continuation_scores\"")));
  }
}

TEST(ProgramTest, SamplesAreTheDocumentedRows) {
  const std::vector<std::string> args = {
      "samples",   "quick",         std::string("--tokenizer=") + kTokenizer, "--lengths=1024", "--tasks=recall_kv",
      "--limit=3", "--format=jsonl"};
  const Ran ran = Done(Varifocal(args));
  std::istringstream lines(ran.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSIGN_OR_FAIL(const auto row, ParseJson(line));
    std::set<std::string> keys;
    for (const auto& [key, value] : row.items()) keys.insert(key);
    EXPECT_EQ(keys, (std::set<std::string>{"task", "context_length", "index", "row_id", "question_id", "cluster",
                                           "prompt", "prompt_token_count", "token_ids_sha256", "gold", "max_new_tokens",
                                           "stop", "sampling_seed"}));
    EXPECT_EQ(row.at("task"), "recall_kv");
    EXPECT_EQ(row.at("index"), count);
    EXPECT_LE(row.at("prompt_token_count").get<int>(), 1024);
    // The hash is that of the ids that `tokenize` gives for the prompt.
    testing_support::TemporaryDirectory directory;
    WriteFile(directory.File("prompt"), row.at("prompt").get<std::string>());
    const Ran tokenized = Varifocal(
        {"tokenize", std::string("--model=") + kTokenizer, "--file=" + directory.File("prompt"), "--format=json"});
    const Json ids = ParseJson(tokenized.out)->at("token_ids");
    EXPECT_EQ(ids.size(), row.at("prompt_token_count").get<size_t>());
    EXPECT_EQ(Sha256Hex(ids.dump()), row.at("token_ids_sha256").get<std::string>());
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(Varifocal(args).out, ran.out) << "the same prompts every time";
  std::vector<std::string> one = args;
  one.push_back("--index=1");
  const std::string first_line = ran.out.substr(0, ran.out.find('\n') + 1);
  const std::string second_line =
      ran.out.substr(first_line.size(), ran.out.find('\n', first_line.size()) + 1 - first_line.size());
  EXPECT_EQ(Varifocal(one).out, second_line);
  one.back() = "--index=3";
  EXPECT_THAT(Varifocal(one), FailsWith(Message("3")));
}

TEST(ProgramTest, TasksAndSuitesNeedNoDaemon) {
  const Ran tasks = Done(Varifocal({"tasks", "--format=json"}));
  EXPECT_GE(ParseJson(tasks.out)->size(), 5u);
  EXPECT_THAT(Varifocal({"tasks", "icl_labels"}).out, HasSubstr("classes"));
  const Ran suites = Varifocal({"suites"});
  EXPECT_THAT(suites.out, AllOf(HasSubstr("quick"), HasSubstr("standard")));
  testing_support::TemporaryDirectory directory;
  WriteFile(directory.File("mine.yaml"), Varifocal({"suites", "quick"}).out);
  EXPECT_THAT(Varifocal({"suites", directory.File("mine.yaml")}).out, Message());
  for (const char* format : {"--format=json", "--format=jsonl", "--format=csv"}) {
    EXPECT_EQ(Varifocal({"suites", directory.File("mine.yaml"), format}).out,
              Varifocal({"suites", "quick", format}).out);
    EXPECT_THAT(Varifocal({"suites", "quik", format}).err, Message("\"quik\""));
  }
  WriteFile(directory.File("mine.yaml"), "name: mine\n");
  EXPECT_THAT(Varifocal({"suites", directory.File("mine.yaml"), "--format=json"}).err,
              HasSubstr("mine.yaml:1: lengths has 0 values"));
}

// A suite file is checked with the data that it names, as a job would.
TEST(ProgramTest, SupportedCheckpointsNeedNoDaemon) {
  const Ran listed = Done(Varifocal({"models", "--supported", "--format=json"}));
  const Json rows = *ParseJson(listed.out);
  const auto row = std::find_if(rows.begin(), rows.end(), [](const Json& r) { return r["model_type"] == "mistral3"; });
  ASSERT_NE(row, rows.end());
  EXPECT_EQ((*row)["architecture"], "Mistral3ForConditionalGeneration");
  EXPECT_EQ((*row)["text_types"], "mistral ministral3");
  EXPECT_THAT(Varifocal({"models", "--supported"}).out, AllOf(HasSubstr("olmo3"), HasSubstr("Olmo3ForCausalLM")));
  EXPECT_THAT(Varifocal({"models", "baseline", "--supported"}).err, Message("--supported", "baseline"));
}

TEST(ProgramTest, ASuiteFileIsCheckedWithItsRows) {
  testing_support::TemporaryDirectory directory;
  WriteFile(directory.File("rows.jsonl"), R"({"book": "b", "question": "q", "answer": "a"})");
  const auto check = [&](const std::string& path, const std::string& prompt, const std::string& gold) {
    WriteFile(directory.File("own.yaml"),
              absl::StrCat(
                  "name: own\nlengths: [1024]\ntasks:\n  - kind: jsonl\n    name: mine\n    parameters: {path: ", path,
                  ", context: book, prompt: \"", prompt, "\", gold: ", gold, "}\n"));
    return Varifocal({"suites", directory.File("own.yaml")});
  };
  const Ran good = Done(check("rows.jsonl", "{book} {question}", "answer"));
  for (const Ran& bad :
       {check("absent.jsonl", "{book} {question}", "answer"), check("rows.jsonl", "{bok} {question}", "answer"),
        check("rows.jsonl", "{book {question}", "answer"), check("rows.jsonl", "{book} {question}", "anwser")}) {
    EXPECT_NE(bad.code, ExitCode::kDone) << bad.out;
    EXPECT_THAT(bad.err, HasSubstr("mine"));
    EXPECT_EQ(bad.out, "");
  }
}

TEST(ProgramTest, VersionWithCommit) {
  EXPECT_EQ(Varifocal({"--version"}).out, absl::StrCat("varifocal ", CodeVersion(), "\n"));
}

TEST(ProgramTest, CompletionKnowsEveryVerbAndItsFlags) {
  const std::string script = Varifocal({"completion"}).out;
  for (const Verb* verb : Verbs()) {
    EXPECT_THAT(script, HasSubstr(absl::StrCat("\n    ", verb->name, ") flags=\""))) << verb->name;
  }
  EXPECT_THAT(script, HasSubstr("--focal-temperatures --focal-layers --sweep --keep-prompts"));
  EXPECT_THAT(script, testing::EndsWith("complete -F _varifocal varifocal\n"));
}

}  // namespace
}  // namespace varifocal::client
