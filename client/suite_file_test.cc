// Suite files: the proto of a valid one, and a table of invalid ones, each with the line and the text that its error
// must contain.
#include "client/suite_file.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/files.h"
#include "client/usage.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/task.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"
#include "wire/job_spec.h"

namespace varifocal::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kGood[] =
    "name: mine\n"
    "description: two tasks\n"
    "seed: 7\n"
    "lengths: [1024, 2048]\n"
    "samples: 8\n"
    "tasks:\n"
    "  - kind: recall_kv\n"
    "    parameters: {depth: 0.5}\n"
    "  - name: labels\n"
    "    kind: icl_labels\n"
    "    metrics: [exact_match]\n"
    "    samples: 4\n";

TEST(SuiteFileTest, EveryKeyArrives) {
  ASSIGN_OR_FAIL(const auto config, ParseSuite(kGood, "good.yaml"));
  EXPECT_EQ(config.name(), "mine");
  EXPECT_EQ(config.seed(), 7);
  EXPECT_THAT(config.lengths(), ElementsAre(1024, 2048));
  EXPECT_EQ(config.samples(), 8);
  ASSERT_EQ(config.tasks_size(), 2);
  EXPECT_EQ(config.tasks(0).parameters().at("depth"), "0.5");
  EXPECT_FALSE(config.tasks(0).has_samples());
  EXPECT_EQ(config.tasks(1).name(), "labels");
  EXPECT_EQ(config.tasks(1).samples(), 4);
  ASSIGN_OR_FAIL(const auto spec, ToSuiteSpec(config));
  EXPECT_EQ(spec.tasks[0].name, "recall_kv");
  // Round trip: the completed suite is a valid suite, and completing it changes nothing.
  ASSIGN_OR_FAIL(const auto again, ToSuiteSpec(ToProto(spec)));
  EXPECT_EQ(ToProto(again).SerializeAsString().size(), ToProto(spec).SerializeAsString().size());
}

// The rule of docs/formats.md, which the daemon applies too.
TEST(SuiteFileTest, NamesMayHaveCapitalsAndDots) {
  std::string text = kGood;
  text.replace(text.find("mine"), 4, "My.Suite-v2");
  ASSIGN_OR_FAIL(const auto config, ParseSuite(text, "good.yaml"));
  EXPECT_EQ(config.name(), "My.Suite-v2");
}

TEST(SuiteFileTest, BuiltInSuitesAreValid) {
  for (const std::string& name : BuiltInSuiteNames()) {
    const auto config = ReadSuite(name);
    ASSERT_TRUE(config.ok()) << name << ": " << config.status();
    EXPECT_TRUE(ToSuiteSpec(*config).ok()) << name;
    EXPECT_EQ(config->name(), name);
  }
}

TEST(SuiteFileTest, RowsAreNamedAsSeenFromTheSuite) {
  testing_support::TemporaryDirectory directory;
  testing_support::WriteFile(
      directory.File("mine.yaml"),
      "name: mine\nlengths: [64]\ntasks:\n  - kind: jsonl\n    parameters:\n      path: rows/a.jsonl\n"
      "      prompt: '{question}'\n      gold: answer\n      stop: [\"\\n\", '.']\n");
  ASSIGN_OR_FAIL(const auto config, ReadSuite(directory.File("mine.yaml")));
  EXPECT_EQ(config.tasks(0).parameters().at("path"), directory.File("rows/a.jsonl"));
  EXPECT_EQ(config.tasks(0).parameters().at("stop"), "[\"\\n\",\".\"]");
}

// Every parameter of the type "path", from the suite's folder or from another one beside it.
TEST(SuiteFileTest, PathsOfEveryKindAreSeenFromTheFolder) {
  testing_support::TemporaryDirectory directory;
  int path_count = 0;
  for (const TaskKind& kind : TaskKinds()) {
    std::string task = absl::StrCat("name: mine\nlengths: [64]\ntasks:\n  - kind: ", kind.name, "\n    parameters:\n");
    int own_count = 0;
    for (const ParameterInfo& info : kind.parameters) {
      if (info.type == ParameterType::kPath) ++own_count;
      if (info.type == ParameterType::kPath || (info.required && info.type == ParameterType::kText)) {
        absl::StrAppend(&task, "      ", info.name, ": data/../data/", info.name, "\n");
      } else if (info.required && info.type == ParameterType::kChoice) {
        absl::StrAppend(&task, "      ", info.name, ": ", info.choices.front(), "\n");
      }
    }
    if (kind.name == "jsonl")
      absl::StrAppend(&task, "      prompt: \"{q}\"\n      shots: 1\n");  // shots_path needs them
    path_count += own_count;
    if (own_count == 0) continue;
    for (const std::string folder : {"", "folder: elsewhere\n"}) {
      testing_support::WriteFile(directory.File("mine.yaml"), folder + task);
      const auto config = ReadSuite(directory.File("mine.yaml"));
      ASSERT_TRUE(config.ok()) << kind.name << ": " << config.status();
      EXPECT_EQ(config->folder(), "");
      for (const ParameterInfo& info : kind.parameters) {
        if (info.type != ParameterType::kPath) continue;
        EXPECT_EQ(config->tasks(0).parameters().at(info.name),
                  directory.File(absl::StrCat(folder.empty() ? "" : "elsewhere/", "data/", info.name)));
      }
    }
  }
  EXPECT_GE(path_count, 8);
}

TEST(SuiteFileTest, NamesAndPaths) {
  const auto misspelt = ReadSuite("quik");
  EXPECT_THAT(std::string(misspelt.status().message()), HasSubstr("quick"));
  EXPECT_EQ(ExitCodeOf(misspelt.status()), ExitCode::kWrongUsage);
  EXPECT_EQ(ReadSuite("./no-such-file.yaml").status().code(), absl::StatusCode::kNotFound);
}

struct Bad {
  const char* what;
  std::string yaml;
  int line;
  const char* words;
};

std::string Replaced(const std::string& from, const std::string& to) {
  std::string yaml = kGood;
  const size_t at = yaml.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return yaml.replace(at, from.size(), to);
}

TEST(SuiteFileTest, SamplesByLength) {
  ASSIGN_OR_FAIL(const auto config, ParseSuite(Replaced("samples: 8", "samples_at: {1024: 40}"), "good.yaml"));
  ASSIGN_OR_FAIL(const auto spec, ToSuiteSpec(config));
  EXPECT_THAT(spec.tasks[0].samples_at, ElementsAre(std::pair(1024, 40)));
  EXPECT_EQ(spec.tasks[0].samples, kDefaultSampleCount);
  EXPECT_TRUE(spec.tasks[1].samples_at.empty()) << "it has a number of its own";
  ASSIGN_OR_FAIL(const auto again, ToSuiteSpec(ToProto(spec)));
  EXPECT_EQ(again.tasks[0].samples_at, spec.tasks[0].samples_at);
}

std::vector<Bad> BadSuites() {
  return {
      {"not YAML", "name: [a\nlengths: }\n", 2, "is not YAML"},
      {"a tab for indentation", "name: a\ntasks:\n\t- kind: recall_kv\n", 3, "a tab before the text"},
      {"nothing", "", 1, "empty"},
      {"only a comment", "# nothing here\n", 1, "empty"},
      {"a list", "- name: a\n", 1, "must be a mapping, not a list"},
      {"two documents", std::string(kGood) + "---\nname: b\n", 14, "one suite a file"},
      {"unknown key", Replaced("samples: 8", "sampels: 8"), 5, "unknown key \"sampels\"; did you mean \"samples\"?"},
      {"key of another tool", Replaced("seed: 7", "shuffle: true"), 3, "unknown key \"shuffle\""},
      {"unknown key of a task", Replaced("kind: recall_kv", "knid: recall_kv"), 7, "did you mean \"kind\"?"},
      {"key twice", Replaced("seed: 7", "seed: 7\nseed: 8"), 4, "\"seed\" is given twice, first in line 3"},
      {"key twice in a task", Replaced("    samples: 4", "    samples: 4\n    samples: 5"), 13, "first in line 12"},
      {"parameter twice", Replaced("{depth: 0.5}", "{depth: 0.5, depth: 0.6}"), 8, "\"depth\" is given twice"},
      {"a list as a key", Replaced("seed: 7", "[a, b]: 7"), 3, "a key must be a word"},
      {"no name", Replaced("name: mine\n", ""), 1, "the suite name \"\" must be"},
      {"empty name", Replaced("name: mine", "name: ''"), 1, "the suite name \"\" must be"},
      {"name with a digit first", Replaced("name: mine", "name: 4k"), 1,
       "must be a letter and at most 62 more letters"},
      {"name with a space", Replaced("name: mine", "name: my suite"), 1,
       "must be a letter and at most 62 more letters"},
      {"number as name", Replaced("name: mine", "name: 12"), 1, "put quotes around it"},
      {"truth as description", Replaced("description: two tasks", "description: true"), 2, "must be text"},
      {"no lengths", Replaced("lengths: [1024, 2048]\n", ""), 1, "lengths has 0 values; it must have from 1 to 64"},
      {"empty lengths", Replaced("[1024, 2048]", "[]"), 4, "lengths has 0 values"},
      {"length that is no list", Replaced("[1024, 2048]", "1024"), 4, "must be a list"},
      {"length in words", Replaced("[1024, 2048]", "[1024, two]"), 4, "K for 1,024 tokens, not \"two\""},
      {"length zero", Replaced("[1024, 2048]", "[0]"), 4, "from 1 to 1048576"},
      {"negative length", Replaced("[1024, 2048]", "[-8]"), 4, "lengths is -8"},
      {"length above the limit", Replaced("[1024, 2048]", "[1048577]"), 4, "1048577"},
      {"length above 64 bits", Replaced("[1024, 2048]", "[99999999999999999999]"), 4, "whole number"},
      {"length twice", Replaced("[1024, 2048]", "\n  - 1024\n  - 1024"), 6, "lengths has 1024 twice"},
      {"half a sample", Replaced("samples: 8", "samples: 8.5"), 5, "whole number"},
      {"quoted number", Replaced("samples: 8", "samples: '8'"), 5, "whole number"},
      {"no samples", Replaced("samples: 8", "samples: 0"), 5, "from 1 to 100000"},
      {"too many samples", Replaced("samples: 8", "samples: 100001"), 5, "from 1 to 100000"},
      {"samples at no length of the suite", Replaced("samples: 8", "samples_at: {512: 8}"), 5,
       "samples_at names 512, which is not one of the lengths"},
      {"the same of a task", Replaced("    samples: 4", "    samples_at: {512: 8}"), 12,
       "samples_at names 512, which is not one of the lengths"},
      {"no samples at a length", Replaced("samples: 8", "samples_at: {1024: 0}"), 5,
       "samples_at 1024 is 0; it must be from 1 to 100000"},
      {"samples at a word", Replaced("samples: 8", "samples_at: {1X: 8}"), 5,
       "a key of \"samples_at\" must be a whole number, or one with K for 1,024 tokens, not \"1X\""},
      {"a length with another unit", Replaced("[1024, 2048]", "[1024, 2M]"), 4,
       "\"lengths\" must be a whole number, or one with K for 1,024 tokens, not \"2M\""},
      {"a length as text", Replaced("[1024, 2048]", "[1024, '2K']"), 4, "\"lengths\" must be a whole number"},
      {"a length in K twice", Replaced("[1024, 2048]", "[1024, 1K]"), 4, "lengths has 1024 twice"},
      {"samples with K", Replaced("samples: 8", "samples: 8K"), 5, "\"samples\" must be a whole number, not \"8K\""},
      {"samples at a length twice", Replaced("samples: 8", "samples_at: {1024: 8, 1024: 9}"), 5, "is given twice"},
      {"the same length otherwise written", Replaced("samples: 8", "samples_at: {1024: 8, 01024: 9}"), 5,
       "\"samples_at\" names 1024 twice"},
      {"a leading zero", Replaced("samples: 8", "samples_at: {08: 8}"), 5, "samples_at names 8, which is not one"},
      {"a length with a leading zero", Replaced("[1024, 2048]", "[1024, 01024]"), 4, "lengths has 1024 twice"},
      {"samples_at as a number", Replaced("samples: 8", "samples_at: 8"), 5, "must be a mapping"},
      {"nothing as a value", Replaced("seed: 7", "seed:"), 3, "\"seed\" has no value"},
      {"no tasks", "name: a\nlengths: [64]\n", 1, "tasks has 0 entries; it must have from 1 to 64"},
      {"a tab as indentation", "name: a\nlengths: [64]\ntasks:\n\t- kind: recall_kv\n", 4,
       "a tab before the text; YAML wants spaces"},
      {"a tab in a mapping", Replaced("    samples: 4", "\tsamples: 4"), 12,
       "a tab before the text; YAML wants spaces"},
      {"tasks as a mapping", "name: a\nlengths: [64]\ntasks:\n  kind: recall_kv\n", 4, "must be a list"},
      {"task as a word", "name: a\nlengths: [64]\ntasks:\n  - recall_kv\n", 4, "must be a mapping, not \"recall_kv\""},
      {"task without a kind", Replaced("kind: recall_kv", "name: recall_kv"), 7, "has no \"kind\""},
      {"unknown kind", Replaced("kind: recall_kv", "kind: recal_kv"), 7, "did you mean \"recall_kv\"?"},
      {"two tasks of one name", Replaced("name: labels", "name: recall_kv"), 9, "two tasks are named \"recall_kv\""},
      {"unknown metric", Replaced("[exact_match]", "[exact_mach]"), 11, "did you mean \"exact_match\"?"},
      {"metric twice", Replaced("[exact_match]", "[exact_match, exact_match]"), 11, "\"exact_match\" is given twice"},
      {"unknown parameter", Replaced("{depth: 0.5}", "{dept: 0.5}"), 8,
       "unknown parameter \"dept\"; did you mean \"depth\"?"},
      {"parameter of another kind", Replaced("{depth: 0.5}", "{classes: 4}"), 8,
       "task \"recall_kv\": unknown parameter \"classes\""},
      {"parameter out of range", Replaced("{depth: 0.5}", "{depth: 1.5}"), 8, "number from 0 to 1"},
      {"parameter not finite", Replaced("{depth: 0.5}", "{depth: .nan}"), 8, "number from 0 to 1"},
      {"parameter of another type", Replaced("{depth: 0.5}", "{depth: deep}"), 8, "number from 0 to 1"},
      {"a list where one value goes", Replaced("{depth: 0.5}", "{depth: [0.5]}"), 8, "not a list"},
      {"a mapping where a value goes", Replaced("{depth: 0.5}", "{depth: {at: 0.5}}"), 8, "not a mapping"},
      {"parameters as a list", Replaced("{depth: 0.5}", "[depth]"), 8, "must be a mapping"},
      {"missing parameter", "name: a\nlengths: [64]\ntasks:\n  - kind: jsonl\n", 4,
       "the parameter \"path\" is missing"},
      {"missing parameter beside others",
       "name: a\nlengths: [64]\ntasks:\n  - kind: jsonl\n    parameters:\n      path: x\n", 5,
       "the parameter \"gold\" is missing"},
      {"rows that nothing asks",
       "name: a\nlengths: [64]\ntasks:\n  - kind: jsonl\n    parameters:\n      path: x\n      gold: a\n", 5,
       "the parameter \"prompt\" is missing"},
      // What one of two validators of a parameter accepted, and the other refused without a line.
      {"hexadecimal parameter", Replaced("{depth: 0.5}", "{depth: 0x0.8}"), 8, "depth is \"0x0.8\""},
      {"parameter with a plus", Replaced("{depth: 0.5}", "\n      depth: +0.5"), 9, "depth is \"+0.5\""},
      {"empty path",
       Replaced("kind: recall_kv\n    parameters: {depth: 0.5}", "kind: longqa_novel\n    parameters: {novels: ''}"), 8,
       "novels is \"\"; it must not be empty"},
      {"whole number out of range",
       "name: a\nlengths: [64]\ntasks:\n  - kind: context_gain\n    parameters:\n      path: x\n      longest: 1048577\n",
       7, "longest is \"1048577\"; it must be a whole number from 64 to 1048576"},
      {"unknown choice",
       "name: a\nlengths: [64]\ntasks:\n  - kind: longqa_story\n    parameters:\n      format: free_from\n", 6,
       "it must be one of free_form, multiple_choice; did you mean \"free_form\"?"},
      {"a list where a text goes",
       "name: a\nlengths: [64]\ntasks:\n  - kind: jsonl\n    parameters:\n      prompt: [a, b]\n", 6, "not a list"},
      {"parameter with dots", Replaced("{depth: 0.5}", "\n      depth: 0.5\n      a.b[0]: 1"), 10,
       "unknown parameter \"a.b[0]\""},
      {"parameter with another one before its dot", Replaced("{depth: 0.5}", "\n      depth: 0.5\n      depth.x: 1"),
       10, "unknown parameter \"depth.x\""},
      {"no questions of a task", Replaced("    samples: 4", "    samples: 0"), 12, "\"samples\" is 0"},
      {"metric of the other sort", Replaced("[exact_match]", "[multiple_choice_accuracy]"), 11, "scores choices"},
      {"too many seeds", Replaced("seed: 7", "seed: 7\nseeds: 101"), 4, "seeds is 101; it must be from 0 to 100"},
  };
}

// As --lengths reads them; the specification has the number, so both are one job.
TEST(SuiteFileTest, LengthsMayHaveK) {
  ASSIGN_OR_FAIL(
      const auto with_k,
      ParseSuite("name: a\nlengths: [1K, 2k, 300]\nsamples_at: {2K: 4}\ntasks:\n  - kind: recall_kv\n", "k"));
  const auto plain =
      ParseSuite("name: a\nlengths: [1024, 2048, 300]\nsamples_at: {2048: 4}\ntasks:\n  - kind: recall_kv\n", "p");
  EXPECT_EQ(with_k.SerializeAsString(), plain->SerializeAsString());
}

// The table that the test of the Python client reads, too: what follows the name of a suite, and a plainer text of the same
// suite, or none where it is refused.
TEST(SuiteFileTest, TheTableOfSuites) {
  const Json table = *ParseJson(*ReadWholeFile("eval_tasks/testdata/suites.json"));
  const auto parse = [](const Json& text) {
    return ParseSuite(absl::StrCat("name: a\n", text.get<std::string>(), "\n"), "t");
  };
  int refused_count = 0;
  for (const Json& row : table) {
    const auto config = parse(row.at("text"));
    if (row.at("same_as").is_null()) {
      ++refused_count;
      EXPECT_FALSE(config.ok()) << row;
      continue;
    }
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_EQ(config->DebugString(), parse(row.at("same_as")).value().DebugString());
  }
  EXPECT_GE(refused_count, 30);
  EXPECT_GE(std::ssize(table) - refused_count, 5);
}

TEST(SuiteFileTest, BadSuitesNameTheLineAndTheReason) {
  for (const Bad& bad : BadSuites()) {
    const auto config = ParseSuite(bad.yaml, "bad.yaml");
    ASSERT_FALSE(config.ok()) << bad.what;
    const std::string message(config.status().message());
    EXPECT_THAT(message, StartsWith("bad.yaml:" + std::to_string(bad.line) + ": ")) << bad.what;
    EXPECT_THAT(message, HasSubstr(bad.words)) << bad.what;
    EXPECT_EQ(ExitCodeOf(config.status()), ExitCode::kWrongUsage) << bad.what;
    EXPECT_THAT(message, testing::Not(HasSubstr("\n"))) << bad.what;
  }
}

TEST(SuiteFileTest, BytesThatAreNoTextAreNamed) {
  EXPECT_THAT(ParseSuite("\x1F\x8B\x08", "s.yaml").status().message(), Message("s.yaml", "gzip"));
  EXPECT_THAT(ParseSuite("name: s\ndescription: caf\xE9\n", "s.yaml").status().message(),
              Message("s.yaml", "UTF-8", 24));
  EXPECT_THAT(ParseSuite("name: s\ndescription: \"a\\0\"\n", "s.yaml").status().message(),
              Message("s.yaml:2", "\"description\"", "byte 2"));
  const std::string task = "name: s\nlengths: [8]\ntasks:\n- kind: jsonl\n  parameters:\n";
  EXPECT_THAT(ParseSuite(task + "    prompt: '\x93what\x94'\n", "s.yaml").status().message(),
              Message("s.yaml", "UTF-8", 69));
  EXPECT_THAT(ParseSuite(task + "    prompt: \"\\0a\"\n", "s.yaml").status().message(),
              Message("s.yaml:6", "\"prompt\"", "byte 1"));
  EXPECT_THAT(ParseSuite(task + "    stop: [a, \"b\\0\"]\n", "s.yaml").status().message(),
              Message("s.yaml:6", "\"stop\"", "byte 2"));
  EXPECT_THAT(ParseSuite("\"na\\0me\": s\n", "s.yaml").status().message(), Message("s.yaml:1", "byte 3"));
  EXPECT_THAT(ParseSuite("\xFF\xFEn", "s.yaml").status().message(), Message("s.yaml", "UTF-16"));
}

TEST(SuiteFileTest, AnswersAndThinking) {
  ASSIGN_OR_FAIL(const auto config,
                 ParseSuite("name: s\nlengths: [1024]\nanswer: {max_new_tokens: 64}\n"
                            "thinking: {begin: \"<a>\", end: \"</a>\", force: true, answer_prefix: \"So:\"}\n"
                            "tasks:\n- kind: recall_kv\n  answer: {thinking_max_tokens: 512}\n- kind: rag_facts\n",
                            "s.yaml"));
  const SuiteSpec suite = *ToSuiteSpec(config);
  EXPECT_EQ(suite.thinking, (ThinkingSpec{.begin = "<a>", .end = "</a>", .force = true, .answer_prefix = "So:"}));
  EXPECT_EQ(suite.tasks[0].answer, (AnswerSpec{.max_new_tokens = 64, .thinking_max_tokens = 512}));
  EXPECT_EQ(suite.tasks[1].answer, (AnswerSpec{.max_new_tokens = 64}));
  const auto refusal = [](const std::string& lines) {
    return std::string(ParseSuite(absl::StrCat("name: s\nlengths: [8]\n", lines), "s.yaml").status().message());
  };
  EXPECT_THAT(refusal("tasks:\n- kind: recall_kv\n  answer: {max_new_tokens: 65537}\n"),
              Message("s.yaml:5", "max_new_tokens", 65'537, 65'536));
  EXPECT_THAT(refusal("thinking: {begin: \"<a>\"}\ntasks: [{kind: recall_kv}]\n"), Message("s.yaml:3", "begin"));
  EXPECT_THAT(refusal("answer: {thinking_tokens: 5}\ntasks: [{kind: recall_kv}]\n"),
              Message("s.yaml:3", "thinking_tokens", "thinking_max_tokens"));
  EXPECT_THAT(refusal("tasks:\n- kind: context_gain\n  parameters: {path: a}\n  answer: {max_new_tokens: 5}\n"),
              Message("answer"));
}

TEST(SuiteFileTest, FormsAndFilters) {
  ASSIGN_OR_FAIL(const auto config,
                 ParseSuite("name: s\nlengths: [1024]\nform: chat\n"
                            "tasks:\n- kind: recall_kv\n  filters:\n  - last_line\n"
                            "  - {filter: regex, pattern: '(\\d+)', match: all}\n  - {filter: strip, text: '.'}\n"
                            "- kind: rag_facts\n  form: completion\n",
                            "s.yaml"));
  const SuiteSpec read = *ToSuiteSpec(config);
  for (const SuiteSpec& suite : {read, *ToSuiteSpec(ToProto(read))}) {  // and over the wire
    EXPECT_EQ(suite.form, "chat");
    EXPECT_EQ(suite.tasks[0].form, "chat");
    EXPECT_EQ(suite.tasks[0].filters,
              (std::vector<FilterSpec>{{.filter = "last_line"},
                                       {.filter = "regex", .pattern = "(\\d+)", .group = 1, .match = "all"},
                                       {.filter = "strip", .text = "."}}));
    EXPECT_EQ(suite.tasks[1].form, "completion");
  }
  const auto refusal = [](const std::string& lines) {
    return std::string(ParseSuite(absl::StrCat("name: s\nlengths: [8]\ntasks:\n- kind: recall_kv\n", lines), "s.yaml")
                           .status()
                           .message());
  };
  EXPECT_THAT(refusal("  form: prompt\n"), Message("s.yaml:5", "prompt"));
  EXPECT_THAT(refusal("  filters: last_line\n"), Message("s.yaml:5", "filters"));
  EXPECT_THAT(refusal("  filters:\n  - lastline\n"), Message("s.yaml:6", "lastline", "last_line"));
  EXPECT_THAT(refusal("  filters:\n  - filter: regex\n    pattern: '['\n"), Message("s.yaml:7", "["));
  EXPECT_THAT(refusal("  filters:\n  - strip\n  - {filter: regex, patern: a}\n"), Message("s.yaml:7", "patern"));
  EXPECT_THAT(refusal("  filters:\n  - {filter: regex, pattern: a, group: one}\n"), Message("s.yaml:6", "group"));
  EXPECT_THAT(refusal("  filters:\n  - [regex]\n"), Message("s.yaml:6", "a list"));
}

TEST(SuiteFileTest, TooLargeAFile) {
  EXPECT_THAT(std::string(ParseSuite(std::string((1 << 20) + 1, '#'), "big.yaml").status().message()),
              HasSubstr("at most 1048576"));
}

}  // namespace
}  // namespace varifocal::client
