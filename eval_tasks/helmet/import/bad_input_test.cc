// Bad input, by table: for every family, rows without a field, with one of another type, with an empty gold list or a
// duplicate id, files that are missing, empty, compressed or not UTF-8. Each error has file, row and field, and the
// other families are imported. Then random changes of bytes and of structure: every import ends, and imported rows can
// be used.
#include <cstdlib>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "eval_tasks/python/random.h"
#include "gmock/gmock.h"
#include "tests/fakes/helmet_release_fixture.h"
#include "tests/support/messages.h"

namespace varifocal::helmet {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

using BadInputTest = DatasetTest;

// A file and a dataset that reads it.
struct DataFile {
  const char* dataset;
  const char* path;
};

struct BadRow {
  DataFile file;
  std::function<void(Json&)> change;
  const char* words;  // after "FILE: row N: ", a regular expression
};

TEST_F(BadInputTest, EveryFieldIsNamed) {
  constexpr DataFile kKv = {"json_kv", "data/json_kv/test_k6_dep6.jsonl"};
  constexpr DataFile kMk = {"ruler_niah_mk_2", "data/ruler/mk/validation_900.jsonl"};
  constexpr DataFile kMv = {"ruler_niah_mv", "data/ruler/mv/validation_900.jsonl"};
  constexpr DataFile kVt = {"ruler_vt", "data/ruler/vt/validation_900.jsonl"};
  constexpr DataFile kNq = {"kilt_nq", "data/kilt/nq_k4.jsonl"};
  constexpr DataFile kNqDemos = {"kilt_nq", "data/kilt/nq_demos.jsonl"};
  constexpr DataFile kPop = {"kilt_popqa_3", "data/kilt/popqa_k4.jsonl"};
  constexpr DataFile kRank = {"msmarco_rerank_psg", "data/msmarco/k8.jsonl"};
  constexpr DataFile kRankDemos = {"msmarco_rerank_psg", "data/msmarco/demos.jsonl"};
  constexpr DataFile kTrec = {"icl_trec_coarse_24shot_balance", "data/icl/trec/train.jsonl"};
  constexpr DataFile kNlu = {"icl_nlu_24shot_balance", "data/icl/nlu_evaluation_data/train.jsonl"};
  constexpr DataFile kAsqa = {"alce_asqa_3", "data/alce/asqa_eval_gtr_top2000.json"};
  constexpr DataFile kQampari = {"alce_qampari_3", "data/alce/qampari_eval_gtr_top2000.json"};
  constexpr DataFile kStory = {"narrativeqa_700", "data/narrativeqa/test.jsonl"};
  constexpr DataFile kStoryDemos = {"narrativeqa_700", "data/narrativeqa/train.jsonl"};
  constexpr DataFile kBookQa = {"infbench_qa_eng_700", "data/infbench/longbook_qa_eng.jsonl"};
  constexpr DataFile kChoice = {"infbench_choice_eng_700", "data/infbench/longbook_choice_eng.jsonl"};
  constexpr DataFile kCases = {"multi_lexsum_900", "data/multi_lexsum/validation.jsonl"};
  constexpr DataFile kCaseDemos = {"multi_lexsum_900", "data/multi_lexsum/train.jsonl"};
  const Json none = Json::array();
  const std::vector<BadRow> rows = {
      {kKv, Erase("context"), "the field \"context\" is missing"},
      {kKv, Set("/context", 7), "the field \"context\" is a number, not a text"},
      {kKv, Set("/question", none), "the field \"question\" "},
      {kKv, Set("/question", Json()), "the field \"question\" is null"},
      {kKv, Erase("answer"), "the field \"answer\" is missing"},
      {kKv, Set("/answer", none), "the field \"answer\" is an empty list"},
      {kKv, Set("/answer", 7), "the field \"answer\" holds a number, not texts"},
      {kKv, Set("/demos", "x"), "the field \"demos\" is not a list"},
      {kKv, Set("/demos/0", Json{"x"}), "the field \"demos\" must be a list of pairs of texts"},
      {kKv, Erase("num_kvs"), "the field \"num_kvs\" is missing"},
      {kMk, Erase("context"), "the field \"context\" is missing"},
      {kMk, Set("/index", 0), "the field \"index\" is 0, as in row 1"},
      {kMv, Set("/answer", none), "the field \"answer\" is an empty list"},
      {kMv, Set("/answer/0", 7), "the field \"answer\" holds a number, not texts"},
      {kMv, Set("/answer", "x"), "the field \"answer\" is a text, not a list"},
      {kMv, Erase("type_needle_v"), "the field \"type_needle_v\" is missing"},
      {kMv, Set("/query", none), "the field \"query\" is a list"},
      {kVt, Set("/example", 7), "the field \"example\" is a number, not a text"},
      {kVt, Erase("outputs"), "the field \"outputs\" is missing"},
      {kNq, Erase("question"), "the field \"question\" is missing"},
      {kNq, Set("/question", 2.5), "the field \"question\" is no text and no whole number"},
      {kNq, Erase("answers"), "the field \"answers\" is missing"},
      {kNq, Set("/answers", none), "the field \"answers\" is an empty list"},
      {kNq, Set("/answers/0", Json()), "the field \"answers\" holds null, not texts"},
      {kNq, Erase("ctxs"), "the field \"ctxs\" is missing"},
      {kNq, Set("/ctxs", "x"), "the field \"ctxs\" is not a list"},
      {kNq, Set("/ctxs/1", "x"), "the field \"ctxs\\[1\\]\" is a text, not an object"},
      {kNq, [](Json& row) { row["ctxs"][2].erase("title"); }, "the field \"ctxs\\[2\\].title\" is missing"},
      {kNq, Set("/ctxs/2/text", none), "the field \"ctxs\\[2\\].text\" "},
      {kNqDemos, Set("/answers", none), "the field \"answers\" is an empty list"},
      {kNqDemos, Set("/answers/0", Json::object()), "the field \"answers\\[0\\]\" is an object"},
      {kNq, Set("/id", 1), "the field \"question\" is not that of row 1, which has the same id 1"},
      {kPop, Erase("s_pop"), "the field \"s_pop\" is missing"},
      {kPop, Set("/s_pop", 0), "the field \"s_pop\" is no number above 0"},
      {kPop, Set("/s_pop", "many"), "the field \"s_pop\" is no number above 0"},
      {kPop, Set("/id", none), "the field \"id\" is no text and no whole number"},
      {kPop, Set("/id", 7), "the field \"question\" is not that of row 1, which has the same id 7"},
      {kRank, Erase("qid"), "\"qid\" (is missing|must be)"},
      {kRank, Set("/qid", 7), "\"qid\" (is missing|must be)"},
      {kRank, Erase("query"), "the field \"query\" is missing"},
      {kRank, Set("/ctxs", none), "the field \"ctxs\" is an empty list"},
      {kRank, Set("/ctxs/1/title", "T"), "\"ctxs\\[1\\]\" has a \"title\", unlike the first passage"},
      {kRank, Set("/ctxs/0/title", "T"), "\"ctxs\\[1\\]\" has no \"title\", unlike the first passage"},
      {kRank, Set("/ctxs/0/label", "high"), "the field \"ctxs\\[0\\]\" must have an \"id\""},
      {kRankDemos, Set("/ctxs/1/id", 7), "the field \"ctxs\\[1\\]\" must have an \"id\""},
      {kTrec, Erase("text"), "\"text\" is missing"},
      {kTrec, Set("/coarse_label", "HUM"), "\"coarse_label\" must be"},
      {kTrec, Set("/coarse_label", 6), "the field \"coarse_label\" is 6; it must be from 0 to 5"},
      {kNlu, Set("/label", -1), "the field \"label\" is -1; it must be from 0 to 67"},
      {kAsqa, Erase("docs"), "the field \"docs\" is missing"},
      {kAsqa, Set("/docs", "x"), "the field \"docs\" is not a list"},
      {kAsqa, Set("/docs/0/title", none), "the field \"docs\\[0\\].title\" "},
      {kAsqa, Set("/qa_pairs", none), "the field \"qa_pairs\" is an empty list"},
      {kAsqa, Set("/qa_pairs/0", "x"), "the field \"qa_pairs\\[0\\].short_answers\" must be a list"},
      {kAsqa, Set("/qa_pairs/1/short_answers", none), "qa_pairs\\[1\\].short_answers\" must be a list of at least"},
      {kAsqa, Set("/sample_id", "0"), "the field \"sample_id\" is \"0\", as in row 1"},
      {kQampari, Erase("answers"), "the field \"answers\" is missing"},
      {kQampari, Set("/answers/0", "x"), "the field \"answers\\[0\\]\" must be a list of at least 1 text"},
      {kStory, Erase("document"), "the field \"document\" is missing"},
      {kStory, Set("/document", "x"), "the field \"document.text\" must be a text"},
      {kStory, Set("/question", Json::object()), "the field \"question.text\" must be a text"},
      {kStory, Set("/answers", none), "the field \"answers\" is an empty list"},
      {kStoryDemos, Set("/answers/0", 7), "the field \"answers\\[0\\].text\" must be a text"},
      {kBookQa, Set("/id", 0), "the field \"id\" is 0, as in row 1"},
      {kBookQa, Erase("input"), "the field \"input\" is missing"},
      {kBookQa, Set("/answer", none), "the field \"answer\" is an empty list"},
      {kChoice, [](Json& row) { row["options"].erase(3); },
       "the field \"options\" has 3 texts; 4 are needed|is no option"},
      {kChoice, Set("/answer/0", "no"), "the field \"answer\" is \"no\", which is no option"},
      {kCases, Erase("summary/short"), "the field \"summary/short\" is missing"},
      {kCases, Set("/sources/0", 7), "the field \"sources\" holds a number, not texts"},
      {kCases, Set("/id", "one"), "the field \"id\" is \"one\", as in row 1"},
      {kCaseDemos, [](Json& row) { row["summary/short"] = 7; }, "the field \"summary/short\" is a number, not a text"},
  };
  for (const BadRow& row : rows) {
    const fs::path path = root_ / row.file.path;
    const std::string whole = ReadFile(path);
    ChangeRows(row.file.path, row.change);
    EXPECT_THAT(std::string(Import(row.file.dataset).message()),
                ContainsRegex(absl::StrCat(row.file.path, ": row [0-9]+: .*(", row.words, ")")));
    WriteFile(path, whole);
  }
}

TEST_F(BadInputTest, InvalidFilesAreReportedAndOthersImported) {
  const std::map<std::string, std::string> files = {
      // of nq_k4.jsonl
      {"", "nq_k4.jsonl: has no rows"},
      {"\n \r\n", "nq_k4.jsonl: has no rows"},
      {"\x1F\x8B\x08", "nq_k4.jsonl: is compressed \\(gzip\\); unpack it first"},
      {"PAR1\x15", "nq_k4.jsonl: row 1: is not a JSON object"},
      {"question,answers\n", "nq_k4.jsonl: row 1: is not a JSON object"},
      {"7\n", "nq_k4.jsonl: row 1: is not a JSON object"},
      {"{\"question\": \"a\"", "nq_k4.jsonl: row 1: is not a JSON object"},
      {"{\"question\": \"\xFF\"}\n", "nq_k4.jsonl: row 1: not JSON"},
      {"{\"question\": \"a\", \"question\": \"b\"}\n", "nq_k4.jsonl: row 1: duplicate field \"question\""},
      {"{\"question\": \"a\"} {\"question\": \"b\"}\n", "nq_k4.jsonl: row 1: has trailing data after its object"},
      {"{\n \"question\": \"a\"\n}\n", "nq_k4.jsonl: row 1: is not a JSON object"},
      {"[{\"question\": \"a\"}", "nq_k4.jsonl: ends inside its list, after 1 row"},
      {"[{\"question\": \"a\"}] {", "nq_k4.jsonl: has trailing data after its list of 1 row"},
      {"[]", "nq_k4.jsonl: has no rows"},
      {std::string(300, '['), "nq_k4.jsonl: row 1: is not a JSON object|the file ends inside it"},
      {"{\"question\": " + std::string(300, '[') + "}\n", "nq_k4.jsonl: row 1: "},
  };
  for (const auto& [bytes, words] : files) {
    WriteFile(root_ / "data/kilt/nq_k4.jsonl", bytes);
    const ImportResult result = ImportHelmet(Options({"rag"})).value();
    EXPECT_THAT(absl::StrJoin(result.problems, "\n"), ContainsRegex(words));
    EXPECT_EQ(result.problems.size(), 1u);
    EXPECT_EQ(result.tasks.size(), 5u);
  }
  for (const char* config : {"recall", "icl", "longqa", "summ", "cite", "rerank"}) {
    fs::remove_all(root_ / "data");
    const ImportResult result = ImportHelmet(Options({config})).value();
    EXPECT_TRUE(result.tasks.empty()) << config;
    ASSERT_FALSE(result.problems.empty()) << config;
    for (const std::string& problem : result.problems) EXPECT_THAT(problem, Message());
  }
}

// A byte order mark, CR LF line ends, blank lines, one list, one list in the field "data": the same rows.
TEST_F(BadInputTest, EquivalentFileLayoutsAreSupported) {
  const fs::path path = root_ / "data/kilt/nq_k4.jsonl", rows = root_ / "out/rows/kilt_nq.700.jsonl";
  const std::string lines = ReadFile(path);
  ASSERT_TRUE(ImportHelmet(Options({"rag"})).ok());
  const std::string expected = ReadFile(rows);
  const std::vector<std::string> texts = absl::StrSplit(lines, '\n', absl::SkipEmpty());
  for (const std::string& bytes :
       {"\xEF\xBB\xBF" + lines, absl::StrJoin(texts, "\r\n"), "\n\n" + absl::StrJoin(texts, "\n\n"),
        "[" + absl::StrJoin(texts, ",\r\n") + "]\n", "\xEF\xBB\xBF [" + absl::StrJoin(texts, ",") + "]"}) {
    fs::remove(rows);
    WriteFile(path, bytes);
    EXPECT_THAT(ImportHelmet(Options({"rag"})).value().problems, testing::IsEmpty());
    EXPECT_EQ(ReadFile(rows), expected);
  }
  // Upstream reads what ends in .json from the field "data".
  const std::string config = ReadFile(root_ / "configs/rag.yaml");
  WriteFile(root_ / "configs/rag.yaml", absl::StrReplaceAll(config, {{"nq_k4.jsonl", "nq_k4.json"}}));
  WriteFile(root_ / "data/kilt/nq_k4.json", R"({"version": [{"data": 1}, "data"], "data" : [)" +
                                                absl::StrJoin(texts, ",\n") + R"(], "n": {"data": []}})");
  fs::remove(rows);
  EXPECT_THAT(ImportHelmet(Options({"rag"})).value().problems, testing::IsEmpty());
  EXPECT_EQ(ReadFile(rows), expected);
  WriteFile(root_ / "data/kilt/nq_k4.json", R"({"rows": []})");
  EXPECT_THAT(absl::StrJoin(ImportHelmet(Options({"rag"})).value().problems, "\n"), Message("nq_k4.json", "\"data\""));
}

// Unusual input that upstream accepts is treated as upstream does.
TEST_F(BadInputTest, InputAcceptedByUpstreamIsAccepted) {
  const fs::path rows = root_ / "out/rows/kilt_nq.700.jsonl";
  auto imported = [&](const std::string& config) {
    fs::remove_all(root_ / "out");
    const ImportResult result = ImportHelmet(Options({config})).value();
    EXPECT_THAT(result.problems, testing::IsEmpty());
    return result;
  };
  imported("rag");
  const std::string expected = ReadFile(rows);
  // The test file determines whether questions are identified by id. The pool has each question twice.
  int id = 0;
  ChangeRows("data/kilt/nq_demos.jsonl", [&](Json& row) { row["id"] = id++; });
  imported("rag");
  EXPECT_EQ(ReadFile(rows), expected);
  // Non-JSON numbers, as written by Python, in unused fields.
  const fs::path path = root_ / "data/kilt/nq_k4.jsonl";
  const std::string lines = ReadFile(path);
  for (const char* odd : {"NaN", "Infinity", "-Infinity", "[1, NaN]", "{\"Infinity\\\"\": NaN}"}) {
    WriteFile(path, absl::StrReplaceAll(lines, {{"\"ctxs\": [{", absl::StrCat("\"ctxs\": [{\"s\": ", odd, ", ")},
                                                {"\"ctxs\":[{", absl::StrCat("\"ctxs\":[{\"s\":", odd, ",")}}));
    ASSERT_NE(ReadFile(path), lines);
    imported("rag");
    EXPECT_EQ(ReadFile(rows), expected) << odd;
  }
  ChangeRows("data/kilt/nq_demos.jsonl", Set("/answers/0", 1969));
  imported("rag");
  EXPECT_THAT(ReadFile(rows), HasSubstr("1969"));
  const Json nested = {"it's", "\u00e9\u200b\n\"\\\U000e0001", 0.1, 1e15, 1e22, Json()};
  ChangeRows("data/kilt/nq_demos.jsonl", Set("/answers/0", nested));
  imported("rag");
  const std::string shown = R"(["it's", 'é\u200b\n"\\\U000e0001', 0.1, 1000000000000000.0, 1e+22, None])";
  EXPECT_THAT(ReadFile(rows), HasSubstr(absl::StripPrefix(absl::StripSuffix(Json(shown).dump(), "\""), "\"")));
  ChangeRows("data/alce/asqa_eval_gtr_top2000.json", Set("/docs", Json::array()));
  imported("cite");
  ChangeRows("data/infbench/longbook_sum_eng.jsonl", Set("/input", Json()));
  const int64_t whole = imported("summ").tasks.back().row_count;
  ChangeRows("data/multi_lexsum/validation.jsonl", [&](Json& row) {
    if (++id % 2 == 0) row["sources"] = Json::array();
  });
  EXPECT_LT(imported("summ").tasks.back().row_count, whole);
}

// A file has a column if any row has it; the other file must have it too.
TEST_F(BadInputTest, AColumnOfSomeRowsIsRequiredInTheOthers) {
  ChangeRow("data/kilt/nq_k4.jsonl", 2, Set("/id", 7));
  EXPECT_THAT(absl::StrJoin(ImportHelmet(Options({"rag"})).value().problems, "\n"),
              Message("nq_k4.jsonl", "1", "\"id\""));
  int id = 0;
  std::map<std::string, int> id_of;
  ChangeRows("data/kilt/nq_k4.jsonl", [&](Json& row) {
    const auto [known, is_new] = id_of.emplace(row["question"], id);
    id += is_new;
    row["id"] = known->second;
  });
  EXPECT_THAT(absl::StrJoin(ImportHelmet(Options({"rag"})).value().problems, "\n"),
              Message("nq_demos.jsonl", "1", "\"id\""));
}

// One random change of a JSON value: a field removed, another type, a list emptied, doubled or nested.
void Disturb(Json& value, PythonRandom& random) {
  if (value.is_structured() && !value.empty() && random.Below(4) > 0) {
    auto item = value.begin();
    std::advance(item, random.Below(value.size()));
    return random.Below(6) == 0 ? static_cast<void>(value.erase(item)) : Disturb(*item, random);
  }
  const Json others[] = {Json(),
                         true,
                         -1,
                         0,
                         1e300,
                         int64_t{1} << 62,
                         "",
                         "x",
                         Json::array(),
                         Json::object(),
                         Json{value, value},
                         {{"text", value}}};
  value = others[random.Below(std::size(others))];
}

TEST_F(BadInputTest, AnyMutatedFileIsImportedOrRejected) {
  const char* asked_for = std::getenv("VARIFOCAL_FUZZ_CASES");
  const int case_count = asked_for == nullptr ? 120 : std::atoi(asked_for);
  const std::shared_ptr<const Tokenizer> tokenizer = Tokenizer::Load("models/baseline").value();
  const auto counter = MakeTokenCounter(tokenizer);
  const std::map<std::string, std::string> config_of = {
      // by folder
      {"data/json_kv", "recall"}, {"data/ruler", "recall"}, {"data/kilt", "rag"},
      {"data/msmarco", "rerank"}, {"data/icl", "icl"},      {"data/alce", "cite"},
      {"prompts", "cite"},        {"configs", "rag"},       {"data.py", "recall"}};
  std::vector<std::pair<std::string, std::string>> targets;  // file and configuration
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root_)) {
    const std::string path = fs::relative(entry.path(), root_).string();
    for (const auto& [folder, config] : config_of) {
      if (entry.is_regular_file() && absl::StartsWith(path, folder)) targets.emplace_back(path, config);
    }
  }
  std::sort(targets.begin(), targets.end());
  PythonRandom random(20261121);
  int refused_count = 0, asked_count = 0;
  for (int i = 0; i < case_count; ++i) {
    const auto& [path, config] = targets[random.Below(targets.size())];
    const std::string whole = ReadFile(root_ / path);
    std::string bytes = whole;
    if (absl::EndsWith(path, ".jsonl") && random.Below(2) == 0) {
      std::vector<std::string> lines = absl::StrSplit(whole, '\n', absl::SkipEmpty());
      for (std::string& line : lines) {
        if (random.Below(3) > 0) continue;
        Json row = ParseJson(line).value();
        Disturb(row, random);
        line = row.dump();
      }
      bytes = absl::StrJoin(lines, "\n");
    } else {
      for (uint64_t n = random.Below(4) + 1; n > 0 && !bytes.empty(); --n) {
        const size_t at = random.Below(bytes.size());
        constexpr char kBytes[] = "{}[]\",:\\\n \xFF\x80u0-e";  // including the terminating NUL
        if (random.Below(3) == 0) {
          bytes.erase(at, random.Below(40));
        } else if (random.Below(2) == 0) {
          bytes.insert(at, bytes.substr(random.Below(bytes.size()), random.Below(60)));
        } else {
          bytes[at] = kBytes[random.Below(sizeof(kBytes))];
        }
      }
    }
    WriteFile(root_ / path, bytes);
    fs::remove_all(root_ / "out");
    const absl::StatusOr<ImportResult> result = ImportHelmet(Options({config}));
    refused_count += !result.ok() || !result->problems.empty();
    for (const ImportedTask& imported : result.ok() ? result->tasks : std::vector<ImportedTask>()) {
      const std::unique_ptr<Task> task = OpenTask(imported.task, false);
      ASSERT_EQ(task->QuestionCountAt(imported.context_length).value(), imported.row_count) << path << " case " << i;
      const auto sample = task->MakeSample({1, imported.context_length, 0}, *counter);
      EXPECT_TRUE(sample.ok() || !sample.status().message().empty()) << path << " case " << i;
      ++asked_count;
    }
    WriteFile(root_ / path, whole);
  }
  EXPECT_GT(refused_count, case_count / 5);
  EXPECT_GT(asked_count, case_count);
}

}  // namespace
}  // namespace varifocal::helmet
