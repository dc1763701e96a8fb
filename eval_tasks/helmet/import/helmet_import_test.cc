// The importer, end to end: a small release of invented contents is imported and asked, and every prompt, its token ids
// and the measures of an invented output are compared with what upstream's own code made of the same files
// (recipes/goldens/make_helmet_fixture.py); the specification's check against a published prompt; and bad input.

#include "absl/strings/match.h"
#include "base/sha256.h"
#include "eval_tasks/helmet/import/icl.h"
#include "eval_tasks/helmet/rows.h"
#include "eval_tasks/helmet/score.h"
#include "eval_tasks/json_scan.h"
#include "eval_tasks/python/random.h"
#include "gmock/gmock.h"
#include "tests/fakes/helmet_release_fixture.h"
#include "tests/support/messages.h"
#include "tokenizer/chat_format.h"

namespace varifocal::helmet {
namespace {

using ::testing::HasSubstr;
using HelmetImportTest = ReleaseTest;

TEST_F(HelmetImportTest, PromptsAndScoresEqualUpstream) {
  const ImportResult result = ImportHelmet(Options({"recall", "rag", "icl", "ruler", "longqa", "summ", "cite", "rerank",
                                                    "seven", "seven_chat"}))
                                  .value();
  EXPECT_THAT(result.problems, testing::IsEmpty());
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load("models/baseline").value();
  auto chat_format = std::make_shared<ChatFormat>();
  chat_format->without_system = {"<|user|>\n", "", "\n<|assistant|>"};
  chat_format->with_system = {"<|system|>\n", "\n<|user|>\n", "\n<|assistant|>"};
  const auto plain = MakeTokenCounter(tokenizer), chat = MakeTokenCounter(tokenizer, chat_format);

  std::map<std::pair<std::string, int>, std::string> task_of;  // of upstream's dataset and length
  std::map<std::string, TaskIndex> indices;
  for (const ImportedTask& task : result.tasks) {
    indices[task.task] = ParseTaskIndex(ReadFile((root_ / "out/tasks" / (task.task + ".json")).string())).value();
    task_of[{indices[task.task].lengths.at(task.context_length).dataset, task.context_length}] = task.task;
  }
  const Json golden = ParseJson(ReadFile(absl::StrCat(kTestData, "/golden.json"))).value();
  int prompt_count = 0, cut_count = 0, value_count = 0;
  for (const auto& [cell, rows] : golden.items()) {
    const std::vector<std::string> parts = absl::StrSplit(cell, ' ');
    const int length = std::stoi(parts[2]);
    const std::string name = task_of.at({parts[1], length});
    const bool is_chat = indices[name].chat;
    const std::unique_ptr<Task> task = OpenTask(name, is_chat);
    ASSERT_EQ(task->QuestionCountAt(length).value(), std::ssize(rows)) << cell;
    for (int i = 0; i < std::ssize(rows); ++i) {
      const Json& row = rows[i];
      const absl::StatusOr<Sample> sample = task->MakeSample({1, length, i}, is_chat ? *chat : *plain);
      ASSERT_TRUE(sample.ok()) << cell << " " << i << ": " << sample.status();
      EXPECT_EQ(Sha256Hex(sample->prompt).substr(0, 16), row["prompt"]) << cell << " " << i << "\n" << sample->prompt;
      EXPECT_EQ(sample->TokenIdsSha256().substr(0, 16), row["ids"]) << cell << " " << i;
      EXPECT_TRUE(!row["cut"].get<bool>() || sample->truncation.cut_token_count > 0) << cell << " " << i;
      ++prompt_count;
      cut_count += row["cut"].get<bool>();
      // Upstream's loaders score citations with other measures than its ALCE scorer, which helmet/alce_* implement.
      const std::string kind = absl::StartsWith(name, "alce") ? "" : indices[name].kind;
      if (kind.empty()) continue;
      Json options = Json::object();
      if (kind == "rerank") options["k_values"] = length == 900 ? Json{1, 5} : Json{1, 5, 10};
      const Json reference = ParseJson(sample->reference_json).value();
      const Json values =
          Score(kind, sample->answer_prefix + row["output"].get<std::string>(), reference, options).value();
      for (const auto& [measure, value] : row["metrics"].items()) {
        EXPECT_EQ(values[measure].get<double>(), value.get<double>()) << cell << " " << i << " " << measure;
        ++value_count;
      }
    }
  }
  EXPECT_GE(prompt_count, 250);
  EXPECT_GE(cut_count, 70);
  EXPECT_GE(value_count, 1000);
}

TEST_F(HelmetImportTest, BadRowsAreNamedAndOthersImported) {
  ChangeRow("data/kilt/nq_k4.jsonl", 3, [](Json& row) { row.erase("question"); });
  ChangeRow("data/ruler/mk/validation_900.jsonl", 4, [](Json& row) { row["index"] = 0; });
  fs::remove(root_ / "data/kilt/hotpotqa_k10.jsonl");
  for (int row = 1; row <= 7; ++row) {
    ChangeRow("data/ruler/mv/validation_900.jsonl", row, [](Json& r) { r["answer"] = Json::array(); });
  }
  WriteFile(root_ / "data/json_kv/test_k6_dep6.jsonl", "[1, 2]\n");
  const ImportResult result = ImportHelmet(Options({"recall", "rag"})).value();
  const std::string problems = absl::StrJoin(result.problems, "\n");
  EXPECT_THAT(problems,
              Message("nq_k4.jsonl", "3", "\"question\"", "mk/validation_900.jsonl", "4", "\"index\"", "0", "1",
                      "hotpotqa_k10.jsonl", "mv/validation_900.jsonl", "\"answer\"", "test_k6_dep6.jsonl", "JSON"));
  EXPECT_EQ(result.problems.size(), 5u) << problems;
  EXPECT_EQ(result.tasks.size(), 7u) << "of twelve";
  // A length that could not be imported has no questions; one that was never requested is an error.
  const std::unique_ptr<Task> task = OpenTask("kilt_hotpotqa", false);
  EXPECT_EQ(task->QuestionCountAt(700).value(), 8);
  EXPECT_EQ(task->QuestionCountAt(1500).value(), 0);
  EXPECT_THAT(task->WhyNoQuestionsAt(1500), Message("hotpotqa_k10.jsonl"));
  EXPECT_EQ(task->WhyNoQuestionsAt(700), "");
  EXPECT_THAT(task->QuestionCountAt(4096).status().message(), Message("700", "1500", "4096"));
}

TEST_F(HelmetImportTest, LongDocumentsNeedTheirTokenizer) {
  ImportOptions options = Options({"summ", "ruler"});
  options.length_tokenizer.clear();
  const ImportResult result = ImportHelmet(options).value();
  EXPECT_EQ(result.problems.size(), 2u);
  EXPECT_THAT(result.problems[0], HasSubstr("--length-tokenizer"));
  EXPECT_EQ(result.tasks.size(), 2u);
}

TEST_F(HelmetImportTest, ChangedTextsAreReportedAndMissingSlotsRejected) {
  std::string source = ReadFile(root_ / "data.py");
  const size_t at = source.find("> {question}", source.find("def load_json_kv"));
  ASSERT_NE(at, std::string::npos);
  source.replace(at, 12, "> {kuestion}");
  WriteFile(root_ / "data.py", source);
  const ImportResult result = ImportHelmet(Options({"recall"})).value();
  EXPECT_THAT(absl::StrJoin(result.problems, "\n"), Message("json_kv.user"));
  EXPECT_THAT(absl::StrJoin(result.changes, "\n"), Message("ruler_mv.user", "SHA-256"));
  EXPECT_EQ(result.tasks.size(), 4u) << "RULER's are there";
}

TEST_F(HelmetImportTest, ChangedRowFilesAreRejected) {
  ASSERT_TRUE(ImportHelmet(Options({"ruler"})).ok());
  const fs::path rows = root_ / "out/rows/ruler_vt.900.jsonl";
  WriteFile(rows, ReadFile(rows) + "\n");
  EXPECT_THAT(OpenTask("ruler_vt", false)->QuestionCountAt(900).status().message(), Message());
}

TEST_F(HelmetImportTest, NewlineProfileFollowsTheConfigurations) {
  ImportOptions options = Options({"rag", "recall"});
  options.stop_at_newline = true;
  ASSERT_TRUE(ImportHelmet(options).ok());
  EXPECT_EQ(OpenTask("kilt_nq", false)->Identify({1, 700, 0}).stop_strings, std::vector<std::string>{"\n"});
  EXPECT_TRUE(OpenTask("json_kv", false)->Identify({1, 900, 0}).stop_strings.empty());
}

TEST_F(HelmetImportTest, FailuresDoNotAffectOtherDatasets) {
  const std::string kv = "\ntest_files: data/json_kv/test_k6_dep6.jsonl\ndemo_files: ''\ninput_max_length: 1700\n";
  for (const auto& [name, text] : std::map<std::string, std::string>{
           {"broken", "datasets: [json_kv\n"},
           {"drawn", "datasets: json_kv" + kv + "do_sample: true\n"},
           {"nothing", "datasets: json_kv" + kv + "generation_max_length: 0\n"},
           {"long", "datasets: json_kv" + kv + "generation_max_length: 5\ninput_max_length: 2000000\n"},
           {"merged", "shared: &shared {shots: 1}\n<<: *shared\ndatasets: json_kv" + kv},
           {"name", "datasets: ruler_" + std::string(80, 'x') + kv}}) {
    WriteFile(root_ / "configs" / (name + ".yaml"), text);
  }
  const ImportResult result =
      ImportHelmet(Options({"broken", "drawn", "nothing", "long", "merged", "name", "absent", "rerank.yaml"})).value();
  const std::string problems = absl::StrJoin(result.problems, "\n");
  EXPECT_THAT(problems,
              Message("broken.yaml", "2", "YAML", "drawn.yaml", "5", "do_sample", "\"true\"", "json_kv", "1700",
                      "generation_max_length", "0", "1", "long.yaml", "6", "\"input_max_length\"", "merged.yaml"));
  EXPECT_THAT(problems, HasSubstr("name: ruler_xxx"));
  EXPECT_THAT(problems, Message("absent.yaml"));
  EXPECT_EQ(result.problems.size(), 7u) << problems;
  EXPECT_EQ(result.tasks.size(), 2u) << "rerank's";
  EXPECT_THAT(ImportHelmet(Options({"broken", "absent"})).status().message(),
              testing::AllOf(HasSubstr("is not YAML"), HasSubstr("absent.yaml: No such file")));
}

TEST_F(HelmetImportTest, NewlineIsHonouredWhereUpstreamReadsItsKey) {
  WriteFile(root_ / "configs/rag.yaml", ReadFile(root_ / "configs/rag.yaml") + "stop_newline: yes\n");
  ASSERT_TRUE(ImportHelmet(Options({"rag"})).ok());
  EXPECT_EQ(OpenTask("kilt_nq", false)->Identify({1, 700, 0}).stop_strings, std::vector<std::string>{"\n"});
}

TEST_F(HelmetImportTest, DifferentSettingsOfOneDatasetAreTwoTasks) {
  const std::string json_kv =
      "datasets: json_kv,json_kv\ntest_files: data/json_kv/test_k6_dep6.jsonl,"
      "data/json_kv/test_k12_dep6.jsonl\ndemo_files: ','\ninput_max_length: 1700\n";
  WriteFile(root_ / "configs/two_files.yaml", json_kv + "max_test_samples: 3\n");
  WriteFile(root_ / "configs/again.yaml", json_kv + "max_test_samples: 3\n");
  WriteFile(root_ / "configs/fewer.yaml", json_kv + "max_test_samples: 2\nshots: 1\n");
  const ImportResult result = ImportHelmet(Options({"two_files", "again", "fewer"})).value();
  EXPECT_TRUE(result.problems.empty());
  EXPECT_EQ(result.suites.size(), 3u);
  std::vector<std::string> names;
  for (const ImportedTask& task : result.tasks) names.push_back(absl::StrCat(task.task, ":", task.row_count));
  EXPECT_EQ(names, (std::vector<std::string>{"json_kv:3", "json_kv_2:3", "json_kv_3:2", "json_kv_4:2"}));
  for (const auto& [suite, task] : {std::make_pair("two_files", "json_kv_2"), std::make_pair("again", "json_kv_2"),
                                    std::make_pair("fewer", "json_kv_4")}) {
    const std::string yaml = ReadFile((root_ / "out" / absl::StrCat("helmet_", suite, ".yaml")).string());
    EXPECT_THAT(yaml, HasSubstr(absl::StrCat("path: tasks/", task, ".json"))) << suite;
  }
}

// The example on HELMET's project site, with the labels and order of the specification.
TEST(HelmetIclTest, EqualsThePublishedPrompt) {
  const uint64_t seed = (Sha256Seed("How far is it from Denver to Aspen ?") + uint64_t{42}) % (uint64_t{1} << 31);
  EXPECT_EQ(seed, 596078644u);
  EXPECT_EQ(ShuffledLabels(6, seed), (std::vector<int>{5, 4, 2, 0, 1, 3}));
  EXPECT_EQ(ShuffledLabels(50, seed),
            (std::vector<int>{41, 2,  49, 27, 46, 42, 34, 26, 12, 43, 9,  3,  25, 21, 18, 8,  40,
                              14, 19, 1,  4,  44, 5,  13, 45, 0,  16, 33, 15, 36, 38, 30, 22, 23,
                              37, 24, 17, 20, 29, 35, 10, 48, 7,  47, 39, 31, 32, 6,  11, 28}));
  // ABBR ENTY DESC HUM LOC NUM are 0..5; the counts of TREC's training rows, in order of first occurrence.
  const std::pair<int, int> counts[] = {{2, 1162}, {1, 1250}, {0, 86}, {3, 1223}, {5, 896}, {4, 835}};
  std::vector<int> labels;
  std::map<int, int> first_of;
  for (const auto& [label, count] : counts) {
    first_of[label] = labels.size();
    labels.insert(labels.end(), count, label);
  }
  const std::vector<size_t> rows = BalancedRows(labels, 400, seed);
  std::string demos;
  for (size_t i : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{4}, size_t{5}, rows.size() - 1}) {
    const int label = labels[rows[i]];
    absl::StrAppend(&demos, label, ":", static_cast<int>(rows[i]) - first_of[label], " ");
  }
  EXPECT_EQ(demos, "5:758 2:911 0:15 4:256 1:1215 3:9 4:315 ");
  const std::vector<int> few = {2, 0, 1, 1, 0, 2, 2, 1, 0, 0, 3, 1, 2, 0, 1};
  EXPECT_EQ(BalancedRows(few, 8, 42), (std::vector<size_t>{8, 3, 0, 10, 4, 14, 10, 12}));
  EXPECT_EQ(BalancedRows(few, 14, 42), (std::vector<size_t>{10, 0, 14, 4, 12, 10, 2, 13, 5, 7, 10, 8, 3, 1}));
  EXPECT_EQ(BalancedRows(few, 20, 7),
            (std::vector<size_t>{10, 6, 2, 13, 1, 14, 5, 10, 4, 10, 3, 12, 10, 0, 9, 7, 10, 8, 11, 6}));
}

TEST(PythonLiteralsTest, AreParsedNotExecuted) {
  const std::vector<PythonLiteral> literals = PythonLiterals(
                                                  "# 'no'\nx = \"a\\n\\x41\\u00e9\\q\"\ndef f(p='\\'q'):\n    "
                                                  "'''two\nlines''' + rb'\\n' + f\"{p} \\\"x\\\"\"\n")
                                                  .value();
  ASSERT_EQ(literals.size(), 5u);
  EXPECT_EQ(literals[0].text, "a\nAé\\q");
  EXPECT_EQ(literals[0].function, "");
  EXPECT_EQ(literals[1].text, "'q");
  EXPECT_EQ(literals[2].text, "two\nlines");
  EXPECT_EQ(literals[3].text, "\\n");
  EXPECT_EQ(literals[4].text, "{p} \"x\"");
  EXPECT_EQ(literals[4].function, "f");
  EXPECT_EQ(literals[4].line, 5);
  EXPECT_FALSE(PythonLiterals("x = 'never ends\n").ok());
}

TEST(PythonLiteralsTest, EscapesOfTooFewDigitsAreText) {
  EXPECT_EQ(PythonLiterals(R"('\x4')").value()[0].text, R"(\x4)");
  EXPECT_EQ(PythonLiterals(R"('\u0x41\U00110000')").value()[0].text, R"(\u0x41\U00110000)");
  for (const char* end : {R"('\x)", R"('\x4)", R"('\u00e)", R"('\U0010fff)"}) EXPECT_FALSE(PythonLiterals(end).ok());
}

TEST(ConfigTest, ListsMustHaveEqualSizes) {
  EXPECT_THAT(ParseConfig("datasets: a,b\ntest_files: x\ndemo_files: ','\n", "c.yaml").status().message(),
              Message("2", "1"));
  EXPECT_THAT(ParseConfig("datasets: ../nq\ntest_files: x\ndemo_files: ''\n", "c.yaml").status().message(),
              Message("\"../nq\""));
  EXPECT_THAT(ParseConfig("a: 1\na: 2\n", "c.yaml").status().message(), Message("c.yaml", "2", "\"a\""));
  EXPECT_THAT(ParseConfig("datasets: [a]\n", "c.yaml").status().message(), Message("c.yaml", "1"));
  EXPECT_THAT(ParseConfig("", "c.yaml").status().message(), Message("c.yaml", "1", "\"key: value\""));
}

TEST(ConfigTest, ValuesOutOfRangeAreNamed) {
  const std::string start = "datasets: a\ntest_files: x\ndemo_files: ''\n";
  for (const auto& [line, words] : std::map<std::string, std::string>{
           {"input_max_length: 8k", "c:4: input_max_length is \"8k\": each entry must be a whole number from 0 to "},
           {"input_max_length: 1,2", "c:4: input_max_length is \"1,2\": it must have 1 entry or 1"},
           {"shots: -1", "c:4: shots is \"-1\": "},
           {"seed: 4294967296", "c:4: seed is \"4294967296\": each entry must be a whole number from 0 to 4294967295"},
           {"seed: 99999999999999999999", "c:4: seed is "},
           {"use_chat_template: maybe", "c:4: use_chat_template is \"maybe\": it must be true or false"},
           {"generation_min_length: 3",
            "c:4: generation_min_length is \"3\": a minimum answer length is not supported"},
           {"thinking: true", "c:4: thinking is \"true\": "},
           {"rope_theta: 10000", "c:4: rope_theta is \"10000\": "}}) {
    EXPECT_THAT(ParseConfig(start + line + "\n", "c").status().message(), HasSubstr(words)) << line;
  }
}

TEST(ConfigTest, YamlIsReadAsPyYamlReadsIt) {
  const ConfigEntry entry = ParseConfig(
                                "--- # a document\ndatasets: a\ntest_files: \"x\"\ndemo_files: >-\n  y\n"
                                "use_chat_template: On\ninput_max_length: 1_500\nmax_test_samples: 0x10\nshots: 010\n"
                                "generation_max_length: '0_20'\nthinking: off\nseed: 0b11\ntag: v1\n",
                                "c")
                                .value()[0];
  EXPECT_EQ(entry.demo_file, "y");
  EXPECT_TRUE(entry.chat);
  EXPECT_EQ(entry.input_max_length, 1500);
  EXPECT_EQ(entry.max_test_samples, 16);
  EXPECT_EQ(entry.shots, 8);
  EXPECT_EQ(entry.generation_max_length, 20);
  EXPECT_EQ(entry.seed, 3u);
  const ConfigEntry flow = ParseConfig("{datasets: a, test_files: x, demo_files: '', seed: 7}", "c").value()[0];
  EXPECT_EQ(flow.seed, 7u);
}

TEST(ConfigTest, ScalarsOfEveryForm) {
  const std::string start = "datasets: a\ntest_files: x\ndemo_files: y\n";
  const auto seed = [&](const std::string& value) { return ParseConfig(start + "seed: " + value, "c"); };
  for (const char* value : {"0b11", "3", "+3", "03", "'3'", "0x3"}) EXPECT_EQ(seed(value).value()[0].seed, 3u) << value;
  for (const char* value : {"", "~", "null", "Null", "NULL", "!!str"})
    EXPECT_EQ(seed(value).value()[0].seed, 42u) << value;
  for (const char* value : {"x", "-3", "3.5", "4294967296", "'~'", "1,2", "0o7"}) {
    EXPECT_THAT(seed(value).status().message(), Message("4")) << value;
  }
  EXPECT_THAT(seed("[1]").status().message(), Message("4"));
  EXPECT_THAT(seed("{a: 1}").status().message(), Message("4"));
  const auto chat = [&](const std::string& value) { return ParseConfig(start + "use_chat_template: " + value, "c"); };
  for (const char* value : {"true", "yes", "ON", "1"}) EXPECT_TRUE(chat(value).value()[0].chat) << value;
  for (const char* value : {"false", "no", "Off", "0", "null"}) EXPECT_FALSE(chat(value).value()[0].chat) << value;
  EXPECT_THAT(chat("maybe").status().message(), Message("use_chat_template", "\"maybe\""));
  const std::pair<const char*, const char*> bad[] = {
      {"- a\n", "c:1: is not a mapping"},
      {"\xFF: a\n", "c: byte 1 is not UTF-8"},
      {"[a]: b\n", "datasets, test_files and demo_files have 0, 0 and 0 entries"},
      {"datasets: a,b\ntest_files: x\ndemo_files: y\n", "have 2, 1 and 1 entries"},
      {"datasets: a\ntest_files: x\ndemo_files: y,z\n", "have 1, 1 and 2 entries"},
      {"datasets: .a\ntest_files: x\ndemo_files: y\n", "datasets has \".a\", which is no name"},
      {"datasets: 'a b'\ntest_files: x\ndemo_files: y\n", "datasets has \"a b\", which is no name"},
      {"datasets: ','\ntest_files: x,y\ndemo_files: y,z\n", "datasets has \"\", which is no name"},
      {"datasets: [a]\ntest_files: x\ndemo_files: y\n", "datasets is a list"},
      {"datasets: a\ntest_files: [x]\ndemo_files: y\n", "test_files is a list"},
      {"datasets: a\ntest_files: x\ndemo_files: [y]\n", "demo_files is a list"},
  };
  for (const auto& row : bad) {
    EXPECT_THAT(std::string(ParseConfig(row.first, "c").status().message()), HasSubstr(row.second)) << row.first;
  }
  for (const char* key : {"stop_newline", "stop_new_line", "system_message", "shots", "max_test_samples",
                          "input_max_length", "generation_max_length"}) {
    EXPECT_THAT(std::string(ParseConfig(start + key + ": [1]\n", "c").status().message()),
                HasSubstr(absl::StrCat(key, " is a list")))
        << key;
  }
  EXPECT_EQ(ParseConfig("datasets: a-1.b_c\ntest_files: x\ndemo_files: y\n", "c").value()[0].dataset, "a-1.b_c");
}

TEST(ConfigTest, DefaultsEqualUpstream) {
  const ConfigEntry entry = ParseConfig(
                                "# a comment\ndatasets: a # another\ntest_files: 'b #c'  # one more\n"
                                "demo_files: ''\nmax_test_samples: null\nshots:\n",
                                "c")
                                .value()[0];
  EXPECT_EQ(entry.dataset, "a");
  EXPECT_EQ(entry.test_file, "b #c");
  EXPECT_EQ(entry.input_max_length, 8192);
  EXPECT_EQ(entry.generation_max_length, 10);
  EXPECT_EQ(entry.shots, 2);
  EXPECT_FALSE(entry.max_test_samples.has_value());
  EXPECT_EQ(entry.seed, 42u);
  EXPECT_FALSE(entry.chat || entry.stop_newline || entry.stop_new_line || entry.system_message.has_value());
}

TEST(JsonScanTest, RowsOfLinesAndOfArraysAreEqual) {
  const testing_support::TemporaryDirectory directory;
  const fs::path folder = directory.path();
  const std::vector<std::string> rows = {R"({"a": "]}\"", "b": [1, {"c": 2}]})", R"({"a": 2})", R"({ "b" : null })"};
  WriteFile(folder / "lines", "\n" + absl::StrJoin(rows, "\n\n") + "\n");
  WriteFile(folder / "array", " [\n " + absl::StrJoin(rows, " ,\n") + "\n]\n");
  for (const char* name : {"lines", "array"}) {
    const auto file = JsonRowFile::Open((folder / name).string()).value();
    std::vector<std::string> seen;
    ASSERT_TRUE(file->Scan([&](int64_t, absl::string_view text) {
                      seen.emplace_back(text);
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_EQ(seen, rows) << name;
    EXPECT_EQ(file->sha256(), Sha256Hex(ReadFile(folder / name)));
    EXPECT_EQ(file->Read(1).value()["a"], 2);
  }
  for (const auto& [bytes, words] :
       std::map<std::string, std::string>{{"[{\"a\": 1}, 7]", "row 2: is not a JSON object"},
                                          {"[{\"a\": 1}, {", "row 2: the file ends inside it"},
                                          {"{\"a\": 1}\nnonsense", "row 2: is not"},
                                          {"{\"a\": 1}{\"a\": 2}\n", "row 1: has trailing data after its object"},
                                          {"{\"a\": 1\n", "row 1: is not a JSON object"}}) {
    WriteFile(folder / "bad", bytes);
    const auto file = JsonRowFile::Open((folder / "bad").string()).value();
    EXPECT_THAT(file->Scan([](int64_t, absl::string_view) { return absl::OkStatus(); }).message(), HasSubstr(words));
  }
  std::vector<std::string> names;
  EXPECT_EQ(FieldsOf(rows[0], {"a"}, &names).value(), (Json{{"a", "]}\""}}));
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_FALSE(FieldsOf("{\"a\" 1}", {"a"}).ok());
  EXPECT_FALSE(FieldsOf("{\"a\": 1, \"a\": 2}", {"a"}).ok());
}

TEST(TemplateTest, FillsSlotsOnce) {
  const Template form = Template::Parse("{a} {{b}} {x[0]} {} {}").value();
  EXPECT_EQ(form.slots(), (std::vector<std::string>{"a", "x[0]", "0", "1"}));
  EXPECT_EQ(form.Render({{"a", "{a}"}, {"x[0]", "X"}, {"0", "p"}, {"1", "q"}}).value(), "{a} {b} X p q");
  EXPECT_THAT(form.Render({{"a", ""}}).status().message(), Message("0"));
  EXPECT_FALSE(Template::Parse("{a").ok());
  EXPECT_FALSE(Template::Parse("a}").ok());
}

}  // namespace
}  // namespace varifocal::helmet
