// Import of benchmarks: prompts equal byte for byte to those that upstream's own code makes of a small release of ours, whole
// and cut (recipes/goldens/make_benchmark_prompts.py); bad data in one sentence each.
#include <unistd.h>
#include <filesystem>
#include <functional>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "eval_tasks/benchmarks/import.h"
#include "eval_tasks/task.h"
#include "eval_tasks/tasks/jsonl.h"
#include "eval_tasks/token_counter.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"
#include "tests/support/read_json.h"
#include "tokenizer/chat_format.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::benchmarks {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing_support::ReadFile;
using testing_support::WriteFile;

const Json& Release() {
  static const Json release = testing_support::ReadJson("eval_tasks/benchmarks/testdata/release.json");
  return release;
}

class BenchmarksTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [path, text] : Release().at("files").items()) WriteFile(root_ / path, text.get<std::string>());
  }

  // `folder` below the release.
  ImportOptions Options(const std::string& folder, const std::string& form = "") const {
    ImportOptions options;
    options.folder = (root_ / folder).string();
    options.out = (root_ / "out").string();
    options.form = form;
    return options;
  }
  static ImportResult Imported(const std::string& name, const ImportOptions& options) {
    const absl::StatusOr<ImportResult> result = ImportBenchmark(*FindBenchmark(name), options);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.value_or(ImportResult());
  }
  // The problem of one dataset, all others left out.
  std::string Problem(const std::string& name, const std::string& folder, const std::string& dataset,
                      const std::string& form = "") const {
    ImportOptions options = Options(folder, form);
    if (!dataset.empty()) options.datasets = {dataset};
    const ImportResult result = Imported(name, options);
    EXPECT_THAT(result.tasks, IsEmpty());
    EXPECT_THAT(result.problems, SizeIs(1));
    return result.problems.empty() ? "" : result.problems[0];
  }
  std::vector<Json> Rows(const std::string& name) const {
    std::vector<Json> rows;
    for (absl::string_view line :
         absl::StrSplit(ReadFile(root_ / "out/rows" / (name + ".jsonl")), '\n', absl::SkipEmpty())) {
      rows.push_back(ParseJson(line).value());
    }
    return rows;
  }
  void Change(const std::string& path, const std::string& from, const std::string& to) const {
    std::string text = ReadFile(root_ / path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << path;
    WriteFile(root_ / path, text.replace(at, from.size(), to));
  }

  testing_support::TemporaryDirectory directory_;
  fs::path root_ = directory_.path();
};

struct GoldenCase {
  const char* benchmark;
  const char* folder;
  const char* prefix;  // of the golden prompts' names
  size_t task_count;
};
constexpr GoldenCase kGoldenCases[] = {
    {"longbench", "LongBench", "longbench_", 18}, {"longbench2", "v2", "longbench2_", 6},
    {"babilong", ".", "babilong_", 40},           {"infinitebench", "infinite", "infinitebench_", 12},
    {"longproc", "longproc", "longproc_", 9},     {"nolima", "nolima", "nolima", 1}};

TEST_F(BenchmarksTest, PromptsAreUpstreams) {
  size_t prompt_count = 0;
  for (const GoldenCase& golden : kGoldenCases) {
    const ImportResult result = Imported(golden.benchmark, Options(golden.folder));
    EXPECT_THAT(result.problems, IsEmpty()) << golden.benchmark;
    EXPECT_THAT(result.tasks, SizeIs(golden.task_count)) << golden.benchmark;
    for (const auto& [name, prompts] : Release().at("prompts").items()) {
      if (name.rfind(golden.prefix, 0) != 0) continue;
      const std::vector<Json> rows = Rows(name);
      ASSERT_EQ(rows.size(), prompts.at("whole").size()) << name;
      for (size_t i = 0; i < rows.size(); ++i) {
        EXPECT_EQ(rows[i].at("prompt"), prompts.at("whole")[i]) << name;
        if (prompts.contains("labels")) {
          EXPECT_EQ(rows[i].at("reference").at("label"), prompts.at("labels")[i]) << name;
        }
        ++prompt_count;
      }
    }
  }
  EXPECT_EQ(prompt_count, 181u);
}

TEST_F(BenchmarksTest, CutPromptsAreUpstreams) {
  const std::shared_ptr<const TokenCounter> tokenizer = MakeTokenCounter(Tokenizer::Load("models/baseline").value());
  size_t cut_count = 0;
  for (const GoldenCase& golden : kGoldenCases) {
    if (!Release().at("cut_tokens").contains(golden.benchmark)) continue;
    Imported(golden.benchmark, Options(golden.folder));
    for (const auto& [name, prompts] : Release().at("prompts").items()) {
      if (name.rfind(golden.prefix, 0) != 0) continue;
      TaskSpec spec;
      spec.name = name;
      spec.kind = "jsonl";
      spec.metrics = {"exact_match"};
      spec.parameters = {{"path", (root_ / "out/rows" / (name + ".jsonl")).string()},
                         {"prompt", "{prompt}"},
                         {"gold", "gold"},
                         {"reference", "reference"},
                         {"max_new_tokens", "32"},
                         {"prompt_tokens", Release().at("cut_tokens").at(golden.benchmark).dump()},
                         {"truncate", std::string(golden.benchmark) == "longbench" ? "prompt_halves" : "prompt_ends"}};
      ASSIGN_OR_FAIL(const std::unique_ptr<Task> task, MakeJsonlTask(spec));
      for (int i = 0; i < task->question_count(); ++i) {
        ASSIGN_OR_FAIL(const Sample sample, task->MakeSample({1, 4096, i}, *tokenizer));
        EXPECT_EQ(Json(sample.prompt), prompts.at("cut")[i]) << name;
        EXPECT_EQ(sample.truncation.cut_token_count > 0, prompts.at("cut")[i] != prompts.at("whole")[i]);
        EXPECT_FALSE(sample.reference_json.empty());
        cut_count += sample.truncation.cut_token_count > 0;
      }
    }
  }
  EXPECT_GT(cut_count, 30u);
}

// Without prompt_tokens the cut leaves space for the answer, and for a chat format, which is put around the cut text.
TEST_F(BenchmarksTest, PromptsAreCutToWhatFits) {
  Imported("longbench", Options("LongBench"));
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load("models/baseline").value();
  const auto format = std::make_shared<ChatFormat>();
  format->without_system = {"<user>\n", "", "\n<assistant>\n"};
  for (const auto& counter : {MakeTokenCounter(tokenizer), MakeTokenCounter(tokenizer, format)}) {
    for (const char* policy : {"prompt_halves", "prompt_ends"}) {
      TaskSpec spec;
      spec.name = "qasper";
      spec.kind = "jsonl";
      spec.parameters = {{"path", (root_ / "out/rows/longbench_qasper.jsonl").string()},
                         {"prompt", "{prompt}"},
                         {"gold", "gold"},
                         {"max_new_tokens", "16"},
                         {"truncate", policy}};
      const std::unique_ptr<Task> task = MakeJsonlTask(spec).value();
      const Sample whole = task->MakeSample({1, 4096, 0}, *counter).value();
      EXPECT_EQ(whole.truncation.cut_token_count, 0);
      const Sample cut = task->MakeSample({1, 100, 0}, *counter).value();
      EXPECT_GT(cut.truncation.cut_token_count, 0);
      EXPECT_GE(cut.shortfall_tokens, 0);
      EXPECT_LE(cut.shortfall_tokens, 4);
      EXPECT_EQ(cut.prompt.substr(0, 20), whole.prompt.substr(0, 20));
      EXPECT_EQ(cut.prompt.substr(cut.prompt.size() - 9), whole.prompt.substr(whole.prompt.size() - 9));
      EXPECT_EQ(cut.token_ids, counter->EncodePrompt(cut.prompt).value());
    }
  }
}

TEST_F(BenchmarksTest, ChatFollowsUpstreamsExceptions) {
  const auto chat_count = [&](const ImportOptions& options) {
    Imported("longbench", options);
    size_t count = 0;
    for (absl::string_view line : absl::StrSplit(ReadFile(root_ / "out/longbench_32768.yaml"), '\n')) {
      count += line == "    chat: true";
    }
    return count;
  };
  size_t expected = 0;
  for (const auto& [name, prompts] : Release().at("prompts").items()) {
    expected += name.rfind("longbench_", 0) == 0 && prompts.at("chat").get<bool>();
  }
  ImportOptions options = Options("LongBench");
  EXPECT_EQ(chat_count(options), expected);
  EXPECT_EQ(expected, 12u) << "18 sets but trec, triviaqa, samsum, lsht, lcc, repobench-p";
  options.no_chat = true;
  EXPECT_EQ(chat_count(options), 0u);
}

TEST_F(BenchmarksTest, LengthsHaveUpstreamsCuts) {
  ImportOptions options = Options("LongBench");
  options.datasets = {"samsum"};
  options.lengths = {4096, 8192, 16384, 32768, 1024};
  const ImportResult result = Imported("longbench", options);
  EXPECT_THAT(result.suites, SizeIs(5));
  for (const auto& [length, tokens] :
       {std::pair(4096, 3500), {8192, 7500}, {16384, 15500}, {32768, 31500}, {1024, 768}}) {
    const std::string yaml = ReadFile(root_ / absl::StrCat("out/longbench_", length, ".yaml"));
    EXPECT_THAT(yaml, testing::HasSubstr(absl::StrCat("prompt_tokens: ", tokens, "\n"))) << length;
  }
}

TEST_F(BenchmarksTest, LengthsOfLongBenchEAreTasks) {
  ImportOptions options = Options("LongBench", "e");
  const ImportResult result = Imported("longbench", options);
  EXPECT_THAT(result.problems, IsEmpty());
  EXPECT_THAT(result.tasks, SizeIs(13 * 3));
  // Rows of 3,999, 4,000 and 8,000 words.
  for (const auto& [bucket, id] : {std::pair("0-4k", "1"), {"4-8k", "2"}, {"8k-up", "3"}}) {
    const std::vector<Json> rows = Rows(absl::StrCat("longbench_qasper_e_", bucket));
    ASSERT_THAT(rows, SizeIs(1)) << bucket;
    EXPECT_EQ(rows[0].at("id"), id);
  }
}

TEST_F(BenchmarksTest, FormsWithoutADocument) {
  Imported("longbench2", Options("v2", "no_context"));
  for (const auto& [name, prompts] : Release().at("no_context").items()) {
    EXPECT_EQ(Rows(name)[0].at("prompt"), prompts[0]) << name;
  }
}

TEST_F(BenchmarksTest, TheChainOfThoughtAsksTwice) {
  const Json& chain = Release().at("chain");
  ImportOptions first = Options("v2", "cot"), second = Options("v2", "cot_answer");
  second.answers = (root_ / "v2/answers.jsonl").string();
  second.out = first.out = (root_ / "out").string();
  EXPECT_THAT(Imported("longbench2", first).tasks, SizeIs(6));
  EXPECT_THAT(Imported("longbench2", second).tasks, SizeIs(6));
  ASSERT_EQ(chain.size(), 12u);
  for (const auto& [task, prompts] : chain.items()) {
    ASSERT_THAT(Rows(task), SizeIs(1)) << task;
    EXPECT_EQ(Rows(task)[0].at("prompt"), prompts.at("whole")[0]) << task;
  }
  EXPECT_THAT(ReadFile(root_ / "out/longbench2_131072.yaml"), testing::HasSubstr("max_new_tokens: 128\n"));
}

TEST_F(BenchmarksTest, FirstAnswersAreOfOneModel) {
  const auto problem = [&](const std::string& answers) {
    WriteFile(root_ / "answers.jsonl", answers);
    ImportOptions options = Options("v2", "cot_answer");
    options.answers = (root_ / "answers.jsonl").string();
    const ImportResult result = Imported("longbench2", options);
    return result.problems.empty() ? result.notes.back() : result.problems[0];
  };
  EXPECT_THAT(problem(R"({"row_id": "r1", "answer": "a"})"), Message("answers.jsonl", 5, 6));
  EXPECT_THAT(problem(R"({"_id": "r1", "response_cot": "a"})"), Message("answers.jsonl", 5, 6));
  EXPECT_THAT(problem("{\"row_id\": \"r1\", \"answer\": \"a\"}\n{\"row_id\": \"r1\", \"answer\": \"b\"}\n"),
              Message("row 2", "r1"));
  EXPECT_THAT(problem(R"({"row_id": "another", "answer": "a"})"), Message("answers.jsonl", 6));
  EXPECT_THAT(problem(R"({"id": "r1"})"), Message("row 1", "row_id"));
  EXPECT_THAT(problem(R"({"row_id": "r1", "ans)"), Message("row 1"));
  EXPECT_THAT(Problem("longbench2", "v2", "", "cot_answer"), Message("--answers"));
  ImportOptions options = Options("v2", "cot");
  options.answers = (root_ / "answers.jsonl").string();
  EXPECT_THAT(Imported("longbench2", options).problems, ElementsAre(Message("cot_answer")));
}

TEST_F(BenchmarksTest, FlagsThatChangeNothingAreRefused) {
  const auto refused = [&](const std::string& name, const std::function<void(ImportOptions&)>& give) {
    ImportOptions options = Options(".");
    give(options);
    return std::string(ImportBenchmark(*FindBenchmark(name), options).status().message());
  };
  EXPECT_THAT(refused("mrcr", [](ImportOptions& o) { o.no_chat = true; }), Message("--no-chat", "mrcr"));
  EXPECT_THAT(refused("mrcr", [](ImportOptions& o) { o.lengths = {4096}; }), Message("--lengths", "mrcr"));
  EXPECT_THAT(refused("nolima", [](ImportOptions& o) { o.lengths = {4096}; }), Message("--lengths", "nolima"));
  EXPECT_THAT(refused("babilong", [](ImportOptions& o) { o.prompt_tokens = 9; }), Message("--prompt-tokens"));
  EXPECT_THAT(refused("longproc", [](ImportOptions& o) { o.prompt_tokens = 9; }), Message("--prompt-tokens"));
  EXPECT_THAT(refused("longbench2", [](ImportOptions& o) { o.jieba = "d"; }), Message("--jieba", "longbench2"));
  EXPECT_THAT(refused("longbench", [](ImportOptions& o) { o.answers = "f"; }), Message("--answers", "longbench"));
  ImportOptions english = Options("LongBench", "e");
  english.datasets = {"qasper"};
  english.jieba = "d";
  EXPECT_THAT(Imported("longbench", english).problems, ElementsAre(Message("qasper", "--jieba")));
  ImportOptions other = Options(".");
  other.datasets = {"qa1"};
  other.lengths = {4096};
  EXPECT_THAT(Imported("babilong", other).problems, ElementsAre(Message("qa1", 6144)));
}

TEST_F(BenchmarksTest, NotesTellUnusualCounts) {
  ImportOptions options = Options("LongBench");
  options.datasets = {"lcc"};
  EXPECT_THAT(Imported("longbench", options).notes, ElementsAre(Message("lcc.jsonl", 3, 500)));
}

TEST_F(BenchmarksTest, MissingFilesAreNamedWithTheirPlace) {
  const std::map<std::string, std::vector<std::string>> missing = {
      {"longbench", {"qasper", "config/dataset2prompt.json", "THUDM/LongBench"}},
      {"longbench2", {"longbench2", "prompts/0shot.txt", "THUDM/LongBench"}},
      {"babilong", {"qa1", "prompts.py", "booydar/babilong"}},
      {"nolima", {"nolima", "--log_placements_dir", "adobe-research/NoLiMa"}},
      {"mrcr", {"2needle", "2needle.jsonl", "openai/mrcr"}},
      {"infinitebench", {"passkey", "src/prompt.py", "OpenBMB/InfiniteBench"}},
      {"longproc", {"html_to_tsv_2k", "html_to_tsv/prompts.yaml", "princeton-pli/LongProc"}}};
  fs::create_directories(root_ / "empty");
  for (const Benchmark& benchmark : Benchmarks()) {
    const std::vector<std::string>& values = missing.at(benchmark.name);
    EXPECT_THAT(Problem(benchmark.name, "empty", values[0]), Message(values[0], values[1], values[2]));
  }
  fs::remove(root_ / "LongBench/data/qasper.jsonl");
  EXPECT_THAT(Problem("longbench", "LongBench", "qasper"), Message("data/qasper.jsonl", "data.zip"));
  fs::remove_all(root_ / "rows/qa7");
  EXPECT_THAT(Problem("babilong", ".", "qa7"), Message("qa7/4k.json", "RMT-team"));
  fs::remove(root_ / "nolima/log/m_book_t0_1_33.333.txt");
  EXPECT_THAT(Problem("nolima", "nolima", ""), Message("m_book_t0_1_33.333.txt"));
  EXPECT_EQ(ImportBenchmark(*FindBenchmark("longbench"), Options("absent")).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(BenchmarksTest, RowsOfAnotherReleaseAreNamed) {
  Change("LongBench/data/qasper.jsonl", "\"input\"", "\"question\"");
  EXPECT_THAT(Problem("longbench", "LongBench", "qasper"), Message("qasper.jsonl", "row 1", "\"input\""));
  Change("LongBench/data/trec.jsonl", "\"all_classes\": [\"Oslo\", \"left\"], \"_id\": \"2\"", "\"_id\": \"2\"");
  EXPECT_THAT(Problem("longbench", "LongBench", "trec"), Message("trec.jsonl", "all_classes"));
  Change("LongBench/data/passage_retrieval_en.jsonl", "Paragraph 3", "Page 3");
  EXPECT_THAT(Problem("longbench", "LongBench", "passage_retrieval_en"), Message("answers", "Page 3"));
  Change("LongBench/data/qmsum_e.jsonl", "\"length\": 3999", "\"length\": \"long\"");
  Change("LongBench/data/lcc_e.jsonl", "\"length\": 3999", "\"length\": \"long\"");
  EXPECT_THAT(Problem("longbench", "LongBench", "lcc", "e"), Message("lcc_e.jsonl", "length"));
  Change("v2/data.json", "\"answer\": \"A\"", "\"answer\": \"E\"");
  EXPECT_THAT(Problem("longbench2", "v2", ""), Message("data.json", "\"E\""));
  Change("rows/qa1/0k.json", "\"target\"", "\"answer\"");
  EXPECT_THAT(Problem("babilong", ".", "qa1"), Message("0k.json", "row 1", "target"));
  Change("infinite/rows/code_run.jsonl", "func_12(-7)", "func_x");
  EXPECT_THAT(Problem("infinitebench", "infinite", "code_run"), Message("code_run.jsonl", "func_1(2)"));
  Change("infinite/rows/math_find.jsonl", "The", "A");
  Change("infinite/rows/math_find.jsonl", "The", "A");
  EXPECT_THAT(Problem("infinitebench", "infinite", "math_find"), Message("math_find.jsonl", "The .. of"));
  Change("infinite/rows/longbook_choice_eng.jsonl", "[\"g\", \"B\"]", "[\"z\"]");
  EXPECT_THAT(Problem("infinitebench", "infinite", "longbook_choice_eng"), Message("answer", "options"));
  Change("longproc/data/html_to_tsv/html_to_tsv_2k.json", "\"gt\"", "\"gold\"");
  EXPECT_THAT(Problem("longproc", "longproc", "html_to_tsv_2k"), Message("html_to_tsv_2k.json", "\"gt\""));
  Change("nolima/results/m_book_t0_1.json", "\"contains\"", "\"LLM\"");
  EXPECT_THAT(Problem("nolima", "nolima", ""), Message("m_book_t0_1.json", "LLM"));
}

TEST_F(BenchmarksTest, BrokenFilesAreNamed) {
  const std::string rows = ReadFile(root_ / "LongBench/data/qasper.jsonl");
  WriteFile(root_ / "LongBench/data/qasper.jsonl", rows.substr(0, rows.size() - 9));
  EXPECT_THAT(Problem("longbench", "LongBench", "qasper"), Message("qasper.jsonl", "row 3"));
  EXPECT_FALSE(fs::exists(root_ / "out/rows/longbench_qasper.jsonl")) << "part of a set is no set";
  WriteFile(root_ / "LongBench/data/qasper.jsonl", "");
  EXPECT_THAT(Problem("longbench", "LongBench", "qasper"), Message("qasper.jsonl", 1));
  WriteFile(root_ / "LongBench/data/qasper.jsonl", "[1]\n");
  EXPECT_THAT(Problem("longbench", "LongBench", "qasper"), Message("qasper.jsonl", "row 1"));
  WriteFile(root_ / "LongBench/config/dataset2maxlen.json", "{}");
  EXPECT_THAT(Problem("longbench", "LongBench", "lcc"), Message("lcc"));
  WriteFile(root_ / "LongBench/config/dataset2prompt.json", "[");
  EXPECT_THAT(Problem("longbench", "LongBench", "lcc"), Message("dataset2prompt.json"));
  Change("babilong/prompts.py", "DEFAULT_PROMPTS = {", "DEFAULT_PROMPTS = {x: ");
  EXPECT_THAT(Problem("babilong", ".", "qa1"), Message("prompts.py", "line"));
  Change("infinite/src/prompt.py", "yarn_mistral_templates", "mistral_templates");
  EXPECT_THAT(Problem("infinitebench", "infinite", "passkey"), Message("prompt.py", "yarn_mistral_templates"));
  WriteFile(root_ / "longproc/data/tom_tracking/prompts.yaml", "PROMPT: x");
  EXPECT_THAT(Problem("longproc", "longproc", "tom_tracking_2k"), Message("tom_tracking/prompts.yaml", "USER_PROMPT"));
  WriteFile(root_ / "longproc/data/tom_tracking/prompts.yaml", "a: [");
  EXPECT_THAT(Problem("longproc", "longproc", "tom_tracking_2k"), testing::HasSubstr("prompts.yaml"));
}

TEST_F(BenchmarksTest, WhatIsNotImportedIsNamed) {
  EXPECT_THAT(Problem("longbench", "LongBench", "dureader"), Message("dureader", "--jieba"));
  EXPECT_THAT(Problem("longbench", "LongBench", "qsper"), Message("qsper"));
  EXPECT_THAT(Problem("longbench", "LongBench", "qmsum", "e"), Message("qmsum", "LongBench-E"));
  EXPECT_THAT(Problem("longproc", "longproc", "countdown_2k"), Message("countdown_2k"));
  EXPECT_THAT(Problem("infinitebench", "infinite", "passkeys"), Message("passkeys"));
  EXPECT_THAT(Problem("infinitebench", "infinite", "math_calc", "gpt4"), Message("math_calc", "gpt4"));
  EXPECT_THAT(ImportBenchmark(*FindBenchmark("longbench2"), Options("v2", "rag")).status().message(),
              Message("rag", "0shot", "cot_answer"));
  EXPECT_THAT(ImportBenchmark(*FindBenchmark("longproc"), Options("longproc", "x")).status().message(), Message("x"));
}

TEST_F(BenchmarksTest, ChineseSetsNameTheirDictionary) {
  const Json jieba = ParseJson(ReadFile("eval_tasks/testdata/jieba.json")).value();
  for (const auto& [path, bytes] : jieba.at("files").items())
    WriteFile(root_ / "jieba" / path, bytes.get<std::string>());
  WriteFile(root_ / "LongBench/config/dataset2prompt.json", R"({"vcsum": "{context}!"})");
  WriteFile(root_ / "LongBench/config/dataset2maxlen.json", R"({"vcsum": 8})");
  WriteFile(root_ / "LongBench/data/vcsum.jsonl", R"({"context": "中文", "answers": ["答"]})");
  ImportOptions options = Options("LongBench");
  options.datasets = {"vcsum"};
  options.jieba = (root_ / "jieba").string();
  EXPECT_THAT(Imported("longbench", options).problems, IsEmpty());
  const Json row = Rows("longbench_vcsum")[0];
  EXPECT_EQ(row.at("prompt"), "中文!");
  EXPECT_EQ(row.at("reference").at("jieba"), options.jieba);
  EXPECT_EQ(row.at("reference").at("jieba_sha256").get<std::string>().size(), 64u);
  options.jieba = (root_ / "v2").string();
  EXPECT_THAT(Imported("longbench", options).problems, ElementsAre(testing::HasSubstr("dict.txt")));
  // By default they are left out with a note, as long as no dictionary is named.
  options = Options("LongBench");
  EXPECT_THAT(Imported("longbench", options).notes, testing::Contains(Message("vcsum", "--jieba")));
}

TEST_F(BenchmarksTest, TurnsOfMrcr) {
  const Json turns = {{{"role", "user"}, {"content", "a poem"}},
                      {{"role", "assistant"}, {"content", "p"}},
                      {{"role", "user"}, {"content", "again"}}};
  Json row = {{"prompt", turns.dump()},
              {"answer", "XYp"},
              {"random_string_to_prepend", "XY"},
              {"n_needles", 2},
              {"n_chars", 40'000}};
  const Json whole = row;
  for (const Json& bad : {Json("no JSON"), Json("[]"), Json("[{\"role\": \"user\"}]"),
                          Json("[{\"role\": \"assistant\", \"content\": \"x\"}]")}) {
    row["prompt"] = bad;
    WriteFile(root_ / "mrcr/2needle.jsonl", row.dump() + "\n");
    EXPECT_THAT(Problem("mrcr", "mrcr", "2needle"), Message("row 1", "prompt"));
  }
  row = whole;
  WriteFile(root_ / "mrcr/2needle.jsonl", row.dump() + "\n");
  ImportOptions options = Options("mrcr");
  options.datasets = {"2needle"};
  const ImportResult result = Imported("mrcr", options);
  ASSERT_THAT(result.tasks, SizeIs(1));
  EXPECT_EQ(result.tasks[0].context_length, 16384 * 5 / 4 + 2048) << "40,000 characters are about 10,000 tokens";
  const Json written = Rows("mrcr_2needle.16k")[0];
  EXPECT_EQ(written.at("messages"), turns);
  EXPECT_EQ(written.at("reference"), (Json{{"answer", "XYp"}, {"prefix", "XY"}}));
}

}  // namespace
}  // namespace varifocal::benchmarks
