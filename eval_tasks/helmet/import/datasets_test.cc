// The readers of the families, one dataset at a time: texts of upstream that are missing, options out of range, optional
// fields and columns, files that change while they are read, and errors of the writer.
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "tests/fakes/helmet_release_fixture.h"
#include "tests/support/messages.h"

namespace varifocal::helmet {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr const char *kKv = "json_kv", *kNiah = "ruler_niah_mk_2", *kVt = "ruler_vt", *kRulerQa = "ruler_qa_1",
                     *kNq = "kilt_nq", *kPop = "kilt_popqa_3", *kRank = "msmarco_rerank_psg",
                     *kTrec = "icl_trec_coarse_24shot_balance", *kNlu = "icl_nlu_24shot_balance",
                     *kAsqa = "alce_asqa_3", *kQampari = "alce_qampari_3", *kStory = "narrativeqa_700",
                     *kBookQa = "infbench_qa_eng_700", *kChoice = "infbench_choice_eng_700",
                     *kBookSum = "infbench_sum_eng_900", *kCases = "multi_lexsum_900";

constexpr const char *kKvFile = "data/json_kv/test_k6_dep6.jsonl", *kRankFile = "data/msmarco/k8.jsonl",
                     *kRankDemos = "data/msmarco/demos.jsonl", *kNqFile = "data/kilt/nq_k4.jsonl",
                     *kNqDemos = "data/kilt/nq_demos.jsonl", *kStoryFile = "data/narrativeqa/test.jsonl",
                     *kStoryDemos = "data/narrativeqa/train.jsonl",
                     *kBookQaFile = "data/infbench/longbook_qa_eng.jsonl",
                     *kChoiceFile = "data/infbench/longbook_choice_eng.jsonl",
                     *kCasesFile = "data/multi_lexsum/validation.jsonl", *kCasesDemos = "data/multi_lexsum/train.jsonl",
                     *kTrecTest = "data/icl/trec/test.jsonl", *kNiahFile = "data/ruler/mk/validation_900.jsonl",
                     *kVtFile = "data/ruler/vt/validation_900.jsonl",
                     *kAsqaFile = "data/alce/asqa_eval_gtr_top2000.json", *kAsqaPrompt = "prompts/asqa_revised.json";

class DatasetsTest : public DatasetTest {
 protected:
  ConfigEntry Changed(const std::string& dataset, const std::function<void(ConfigEntry&)>& change) const {
    ConfigEntry entry = entries_.at(dataset);
    change(entry);
    return entry;
  }
  std::string Problem(const ConfigEntry& entry) { return std::string(Import(entry).message()); }
  std::string Problem(const std::string& dataset) { return Problem(entries_.at(dataset)); }
  // Rows are not valid JSON, which a scan of single fields does not notice.
  void BreakRows(const std::string& path) const {
    WriteFile(root_ / path, absl::StrReplaceAll(ReadFile(root_ / path), {{"{\"", "{\"zz\": tru, \""}}));
  }
};

// Each text of upstream is needed by a dataset, which names it.
TEST_F(DatasetsTest, EveryTextIsRequired) {
  const std::map<std::string, std::vector<std::string>> datasets = {
      // by the first part of the text's name
      {"qa", {kNq}},
      {"json_kv", {kKv}},
      {"length", {kStory, kBookQa, kCases}},
      {"narrativeqa", {kStory}},
      {"multi_lexsum", {kCases}},
      {"msmarco", {kRank}},
      {"icl", {kTrec}},
      {"ruler_mv", {"ruler_niah_mv"}},
      {"ruler_niah", {kNiah}},
      {"ruler_vt", {kVt}},
      {"ruler_qa", {kRulerQa}},
      {"alce", {kAsqa, kQampari}},
      {"infbench", {kBookQa, kChoice, kBookSum}},
      {"infbench_qa", {kBookQa}},
      {"infbench_choice", {kChoice}},
      {"infbench_sum", {kBookSum}},
  };
  const std::string source = ReadFile(root_ / "data.py");
  const std::vector<std::string> lines = absl::StrSplit(source, '\n');
  int text_count = 0;
  const std::vector<PythonLiteral> literals = PythonLiterals(source).value();
  for (const PythonLiteral& literal : literals) {
    if (literal.function.empty() || literal.text == "x") continue;
    std::vector<std::string> changed = lines;
    changed[literal.line - 1] = "    '{'";
    WriteFile(root_ / "data.py", absl::StrJoin(changed, "\n"));
    ReadTexts();
    for (const TextChange& change : texts_.changes()) {
      if (!change.sha256.empty()) continue;
      EXPECT_THAT(change.message, HasSubstr("unpaired braces"));
      EXPECT_THAT(std::string(texts_.Form(change.id).status().message()), HasSubstr(change.id));
      const auto of_text = datasets.find(change.id.substr(0, change.id.find('.')));
      if (of_text == datasets.end()) continue;  // subtasks of RULER that the release lacks
      ++text_count;
      for (const std::string& dataset : of_text->second) {
        EXPECT_THAT(Problem(dataset), HasSubstr(absl::StrCat("the text ", change.id, " must have the slots")))
            << dataset;
        // RULER's rows are checked against the slots of both templates.
        if (!absl::StartsWith(dataset, "ruler")) continue;
        const ConfigEntry& entry = entries_.at(dataset);
        const absl::Status status =
            FindFamily(dataset)->import(entry, sources_, [](const ImportedRow&) { return absl::OkStatus(); });
        EXPECT_THAT(std::string(status.message()), HasSubstr(change.id));
      }
    }
  }
  EXPECT_GT(text_count, 40);
  WriteFile(root_ / "data.py", "def load_qa(");
  ReadTexts();
  EXPECT_THAT(Problem(kNq), Message("load_qa", "4"));
  EXPECT_EQ(texts_.Text("none").status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(UpstreamTexts::Read((root_ / "absent").string()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(PythonLiterals("def f").value().empty());
  EXPECT_FALSE(PythonLiterals("'a\\").ok());
}

TEST_F(DatasetsTest, OptionsOutOfRangeAreRejected) {
  const struct {
    const char* dataset;
    const char* name;  // instead of the dataset's
    const char* words;
  } names[] = {
      {kPop, "kilt_popqa_many", "the dataset \"kilt_popqa_many\" ends in no popularity threshold"},
      {kAsqa, "alce_asqa_few", "the dataset \"alce_asqa_few\" ends in no number of documents"},
      {kAsqa, "alce_asqa_0", "the dataset \"alce_asqa_0\" ends in no number of documents"},
      {kAsqa, "alce_eli5_3", "upstream has no scorer for \"alce_eli5_3\""},
      {kStory, "narrativeqa_long", "the dataset \"narrativeqa_long\" ends in no number of tokens"},
      {kStory, "narrativeqa_1", "\"narrativeqa_1\" keeps 1 tokens; the truncation marker alone has "},
      {kBookQa, "infbench_math_700", "upstream has no InfiniteBench task for \"infbench_math_700\""},
      {kBookQa, "infbench_qa_eng_x", "the dataset \"infbench_qa_eng_x\" ends in no number of tokens"},
      {kCases, "multi_lexsum_x", "the dataset \"multi_lexsum_x\" ends in no number of tokens"},
      {kVt, "ruler_none", "upstream has no RULER subtask for \"ruler_none\""},
      {kTrec, "icl_sst2_24shot_balance", "upstream has no label set for \"icl_sst2_24shot_balance\""},
      {kTrec, "icl_trec_coarse_balance", "has no number before \"shot\""},
      {kTrec, "icl_trec_coarse_xshot_balance", "has no number before \"shot\""},
      {kTrec, "icl_trec_coarse_0shot_balance", "has no number before \"shot\""},
      {kTrec, "icl_trec_coarse_24shot", "uses unbalanced examples or natural labels"},
      {kTrec, "icl_trec_coarse_24shot_balance_natural_label", "uses unbalanced examples or natural labels"},
  };
  for (const auto& row : names) {
    const ConfigEntry entry = Changed(row.dataset, [&](ConfigEntry& e) { e.dataset = row.name; });
    EXPECT_THAT(Problem(entry), HasSubstr(row.words)) << row.name;
    EXPECT_TRUE(rows_.empty()) << row.name;
  }
  EXPECT_FALSE(FindFamily("infbench_math_700")
                   ->import(Changed(kBookQa, [](ConfigEntry& e) { e.dataset = "infbench_math_700"; }), sources_,
                            [](const ImportedRow&) { return absl::OkStatus(); })
                   .ok());
  EXPECT_EQ(FindFamily("sst2"), nullptr);
  EXPECT_EQ(FindFamily("kilt_triviaqa"), &kQaFamily);
  for (const char* dataset : {kNq, kPop, kRank, kAsqa, kStory, kBookQa, kCases}) {
    const ConfigEntry entry = Changed(dataset, [](ConfigEntry& e) { e.shots = 1000; });
    EXPECT_THAT(Problem(entry), ContainsRegex("there are [0-9]+ demonstrations to choose from; 1000 are required"))
        << dataset;
  }
}

TEST_F(DatasetsTest, WithoutShotsAndLimitAllRowsAreImported) {
  for (const auto& [dataset, row_count] : std::map<std::string, size_t>{{kKv, 9},
                                                                        {kNiah, 7},
                                                                        {kNq, 24},
                                                                        {kRank, 10},
                                                                        {kTrec, 5},
                                                                        {kNlu, 11},
                                                                        {kAsqa, 7},
                                                                        {kStory, 0},
                                                                        {kBookQa, 0},
                                                                        {kCases, 0}}) {
    ConfigEntry entry = entries_.at(dataset);
    ASSERT_TRUE(Import(entry).ok()) << dataset;
    const size_t limited = rows_.size();
    entry.shots = 0;
    entry.max_test_samples.reset();
    ASSERT_TRUE(Import(entry).ok()) << dataset;
    if (row_count > 0) {
      EXPECT_EQ(rows_.size(), row_count) << dataset;
    }
    EXPECT_GE(rows_.size(), limited) << dataset;
    for (const ImportedRow& row : rows_) {
      for (const char* slot : {"demos", "demo", "demo_text"}) {
        const auto value = row.values.find(slot);
        EXPECT_TRUE(value == row.values.end() || value->second.empty()) << dataset << ": " << value->second;
      }
    }
    entry.max_test_samples = 1;
    ASSERT_TRUE(Import(entry).ok()) << dataset;
    EXPECT_GE(rows_.size(), 1u) << dataset;
    if (dataset != kNq && dataset != kRank) {  // these repeat a question
      EXPECT_EQ(rows_.size(), 1u) << dataset;
    }
  }
  EXPECT_EQ(ShuffledRows(3, {}), (std::vector<size_t>{0, 1, 2}));
  const auto name = [](size_t i) { return absl::StrCat(i / 2); };
  EXPECT_EQ(FirstDifferent({3, 2, 1}, name, 9), (std::vector<size_t>{3, 1}));
}

TEST_F(DatasetsTest, ErrorsOfTheWriterEndAnImport) {
  on_row_ = [] { return absl::AbortedError("no space"); };
  for (const char* dataset : {kKv, kNiah, kNq, kRank, kTrec, kAsqa, kQampari, kStory, kBookQa, kCases}) {
    const absl::Status status = Import(dataset);
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << dataset << ": " << status;
    EXPECT_EQ(rows_.size(), 1u) << dataset;
  }
}

TEST_F(DatasetsTest, RowsThatCannotBeReadAgainAreNamed) {
  // Not JSON where a scan does not look.
  for (const auto& [path, dataset] : std::vector<std::pair<const char*, const char*>>{{kKvFile, kKv},
                                                                                      {kNqFile, kNq},
                                                                                      {kNqDemos, kNq},
                                                                                      {kRankFile, kRank},
                                                                                      {kRankDemos, kRank},
                                                                                      {kStoryFile, kStory},
                                                                                      {kStoryDemos, kStory},
                                                                                      {kBookQaFile, kBookQa},
                                                                                      {kCasesFile, kCases},
                                                                                      {kCasesDemos, kCases},
                                                                                      {kNiahFile, kNiah},
                                                                                      {kAsqaFile, kAsqa}}) {
    const std::string whole = ReadFile(root_ / path);
    BreakRows(path);
    EXPECT_THAT(Problem(dataset), ContainsRegex(absl::StrCat(path, ": row [0-9]+: not JSON"))) << path;
    EXPECT_TRUE(rows_.empty()) << path;
    WriteFile(root_ / path, whole);
  }
  // Truncated after the first row.
  for (const auto& [path, dataset] : std::vector<std::pair<const char*, const char*>>{{kKvFile, kKv},
                                                                                      {kNqFile, kNq},
                                                                                      {kRankFile, kRank},
                                                                                      {kStoryFile, kStory},
                                                                                      {kBookQaFile, kBookQa},
                                                                                      {kCasesFile, kCases}}) {
    const fs::path file = root_ / path;
    const std::string whole = ReadFile(file);
    on_row_ = [&] {
      fs::resize_file(file, 1);
      return absl::OkStatus();
    };
    const ConfigEntry entry = Changed(dataset, [](ConfigEntry& e) { e.max_test_samples.reset(); });
    const absl::Status status = Import(entry);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path << ": " << status;
    EXPECT_EQ(rows_.size(), 1u) << path;
    WriteFile(file, whole);
  }
}

struct BadField {
  const char* dataset;
  const char* path;
  std::function<void(Json&)> change;
  const char* words;  // a regular expression
};

TEST_F(DatasetsTest, BadFieldsOfDemonstrationsAndPassagesAreNamed) {
  const std::vector<BadField> rows = {
      {kKv, kKvFile, Set("/demos/0", Json{7, "x"}), "\"demos\" must be a list of pairs of texts"},
      {kKv, kKvFile, Set("/demos/0", Json{"x", 7}), "\"demos\" must be a list of pairs of texts"},
      {kRank, kRankFile, [](Json& row) { row["ctxs"][0].erase("id"); }, "\"ctxs\\[0\\]\" must have an \"id\""},
      {kRank, kRankFile, [](Json& row) { row["ctxs"][0].erase("label"); }, "\"ctxs\\[0\\]\" must have an \"id\""},
      {kRank, kRankFile, Set("/ctxs/0/id", 7), "\"ctxs\\[0\\]\" must have an \"id\""},
      {kRank, kRankFile, [](Json& row) { row["ctxs"][0].erase("text"); }, "\"ctxs\\[0\\].text\" is missing"},
      {kRank, kRankDemos, Erase("ctxs"), "demos.jsonl: row [0-9]+: the field \"ctxs\" is missing"},
      {kRank, kRankDemos, [](Json& row) { row["ctxs"][0].erase("text"); }, "\"ctxs\\[0\\].text\" is missing"},
      {kRank, kRankDemos, Erase("query"), "demos.jsonl: row [0-9]+: the field \"query\" is missing"},
      {kNq, kNqDemos, Erase("ctxs"), "nq_demos.jsonl: row [0-9]+: the field \"ctxs\" is missing"},
      {kNq, kNqDemos, Erase("answers"), "nq_demos.jsonl: row [0-9]+: the field \"answers\" is missing"},
      {kNq, kNqFile, Set("/answers", Json::array({Json::array({"a", 7})})), "\"answers\" holds a number, not texts"},
      {kAsqa, kAsqaFile, Erase("question"), "\"question\" is missing"},
      {kAsqa, kAsqaFile, Set("/qa_pairs/0/short_answers", Json{"a", 7}), "must be a list of at least 1 text"},
      {kStory, kStoryFile, Set("/document", Json{{"text", 7}}), "\"document.text\" must be a text"},
      {kStory, kStoryFile, Erase("question"), "\"question\" is missing"},
      {kStory, kStoryDemos, Erase("question"), "train.jsonl: row [0-9]+: the field \"question\" is missing"},
      {kStory, kStoryDemos, Set("/question", Json::object()), "train.jsonl: row [0-9]+: the field \"question.text\""},
      {kStory, kStoryDemos, Erase("answers"), "train.jsonl: row [0-9]+: the field \"answers\" is missing"},
      {kBookQa, kBookQaFile, Erase("context"), "\"context\" is missing"},
      {kChoice, kChoiceFile, Erase("options"), "\"options\" is missing"},
      {kCases, kCasesFile, Erase("sources"), "\"sources\" is missing"},
      {kCases, kCasesFile, [](Json& row) { row["summary/short"] = 7; }, "\"summary/short\" is a number, not a text"},
  };
  for (const BadField& row : rows) {
    const std::string whole = ReadFile(root_ / row.path);
    ChangeRows(row.path, row.change);
    EXPECT_THAT(Problem(row.dataset), ContainsRegex(row.words)) << row.path;
    WriteFile(root_ / row.path, whole);
  }
  const RowView row(Json{{"a", 1.5}, {"b", {{"c", "d"}, "e"}}, {"n", 7}}, "f: row 1");
  EXPECT_THAT(row.Int("a").status().message(), Message("row 1", "\"a\"", 1.5));
  EXPECT_EQ(row.Int("c").status().message(), "f: row 1: the field \"c\" is missing");
  EXPECT_EQ(row.Int("n").value(), 7);
  EXPECT_EQ(row.Texts("b").value(), (std::vector<std::string>{"c", "d", "e"}));
}

TEST_F(DatasetsTest, BadPromptFilesAreNamed) {
  const Json valid = ParseJson(ReadFile(root_ / kAsqaPrompt)).value();
  const std::pair<std::function<void(Json&)>, const char*> rows[] = {
      {Erase("instruction"), "asqa_revised.json: the field \"instruction\" is missing"},
      {Erase("demo_prompt"), "asqa_revised.json: the field \"demo_prompt\" is missing"},
      {Set("/doc_prompt", 7), "asqa_revised.json: the field \"doc_prompt\" is a number, not a text"},
      {Set("/demo_prompt", "{"), "the brace at byte 0 of a template is not closed"},
      {Set("/doc_prompt", "}"), "the brace at byte 0 of a template is unmatched"},
      {Erase("demos"), "asqa_revised.json: the field \"demos\" is missing"},
      {Set("/demos", Json::array()), "asqa_revised.json: the field \"demos\" is an empty list"},
      {Set("/demos/1", Json::object()), "asqa_revised.json: demonstration 2: the field \"docs\" is missing"},
      {Set("/demos/0/docs", Json{7}), "asqa_revised.json: demonstration 1: the field \"docs[0]\" is a number"},
      {[](Json& prompt) { prompt["demos"][0].erase("question"); },
       "asqa_revised.json: demonstration 1: the field \"demos.question\" is missing"},
  };
  for (const auto& [change, words] : rows) {
    Json prompt = valid;
    change(prompt);
    WriteFile(root_ / kAsqaPrompt, prompt.dump());
    EXPECT_THAT(Problem(kAsqa), HasSubstr(words));
  }
  WriteFile(root_ / kAsqaPrompt, "{");
  EXPECT_THAT(Problem(kAsqa), Message("asqa_revised.json", "JSON"));
  fs::remove(root_ / kAsqaPrompt);
  EXPECT_EQ(Import(kAsqa).code(), absl::StatusCode::kNotFound);
}

TEST_F(DatasetsTest, OptionalFieldsHaveDefaults) {
  for (const auto& change : {Erase("depth"), Set("/depth", "deep")}) {
    for (const auto& [dataset, path] : {std::make_pair(kKv, kKvFile), std::make_pair(kNq, kNqFile)}) {
      ASSERT_TRUE(Import(dataset).ok());
      EXPECT_TRUE(std::any_of(rows_.begin(), rows_.end(), [](const ImportedRow& row) { return row.depth > 0; }));
      const std::string whole = ReadFile(root_ / path);
      ChangeRows(path, change);
      ASSERT_TRUE(Import(dataset).ok());
      for (const ImportedRow& row : rows_) EXPECT_EQ(row.depth, 0) << dataset;
      WriteFile(root_ / path, whole);
    }
  }
  // A file of RULER without indices, and one without questions.
  ChangeRows(kNiahFile, Erase("index"));
  ASSERT_TRUE(Import(kNiah).ok());
  for (const ImportedRow& row : rows_) EXPECT_LT(std::stoi(row.id), 7);
  ChangeRows(kVtFile, Erase("query"));
  EXPECT_THAT(Problem(kVt), Message("\"query\""));
  ASSERT_TRUE(Import(Changed(kVt, [](ConfigEntry& e) { e.dataset = "ruler_fwe"; })).ok());
  EXPECT_EQ(rows_[0].values["question"], "");
  // A case without an id, and one whose id is a number.
  ChangeRows(kCasesFile, [id = 0](Json& row) mutable {
    row["id"] = 100 + id++;
    if (id % 2 == 0) row.erase("id");
    if (id == 2) row["sources"] = "one short text";
  });
  ASSERT_TRUE(Import(kCases).ok());
  for (const ImportedRow& row : rows_) EXPECT_LT(std::stoi(row.id), 7);
}

TEST_F(DatasetsTest, CutsOfLongTextsAreRecorded) {
  // The gold answer is at the end of the document.
  ChangeRows(kStoryFile, Set("/answers", ParseJson(R"([{"text": ""}, {"text": "end."}])").value()));
  ASSERT_TRUE(Import(kStory).ok());
  ASSERT_FALSE(rows_.empty());
  for (const ImportedRow& row : rows_) {
    EXPECT_GT(row.length_cut_tokens, 0);
    EXPECT_FALSE(row.gold_survived_length_cut);
    EXPECT_THAT(row.context, testing::Not(HasSubstr("end.")));
  }
  ASSERT_TRUE(Import(Changed(kStory, [](ConfigEntry& e) { e.dataset = "narrativeqa_900000"; })).ok());
  ASSERT_FALSE(rows_.empty());
  for (const ImportedRow& row : rows_) {
    EXPECT_EQ(row.length_cut_tokens, 0);
    EXPECT_TRUE(row.gold_survived_length_cut);
    EXPECT_THAT(row.context, HasSubstr("end."));
  }
  // Short books are dropped.
  ChangeRows(kBookQaFile, Set("/context", "one short text"));
  ASSERT_TRUE(Import(kBookQa).ok());
  EXPECT_TRUE(rows_.empty());
}

TEST_F(DatasetsTest, RepeatedRowsHaveDistinctIds) {
  ChangeRows(kTrecTest, [count = 0](Json& row) mutable { row["coarse_label"] = count++ == 0 ? 1 : 0; });
  const ConfigEntry entry = Changed(kTrec, [](ConfigEntry& e) { e.max_test_samples = 4; });
  ASSERT_TRUE(Import(entry).ok());
  std::set<std::string> ids;
  for (const ImportedRow& row : rows_) ids.insert(row.id);
  EXPECT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids.count("0") + ids.count("0-1"), 2u) << "the only row of its label";
}

// --- The importer

TEST_F(DatasetsTest, LengthsAreSelected) {
  ImportOptions options = Options({"recall"});
  options.lengths = {900};
  options.no_chat = true;
  std::vector<std::string> lines;
  options.on_progress = [&](const std::string& line) { lines.push_back(line); };
  const ImportResult result = ImportHelmet(options).value();
  EXPECT_EQ(result.tasks.size(), 3u);
  for (const ImportedTask& task : result.tasks) EXPECT_EQ(task.context_length, 900);
  EXPECT_EQ(lines, (std::vector<std::string>{"ruler_niah_mk_2 900: 5 rows", "ruler_niah_mv 900: 5 rows",
                                             "json_kv 900: 5 rows"}));
  options.lengths = {1};
  EXPECT_THAT(ImportHelmet(options).status().message(), Message());
  options.lengths.clear();
  options.length_tokenizer = (root_ / "absent").string();
  EXPECT_EQ(ImportHelmet(options).status().code(), absl::StatusCode::kNotFound);
  // Without names: the configurations of the paper.
  for (const char* name : {"longqa", "summ", "icl", "rag", "cite"})
    fs::remove(root_ / "configs" / (std::string(name) + ".yaml"));
  options = Options({});
  const ImportResult paper = ImportHelmet(options).value();
  EXPECT_THAT(absl::StrJoin(paper.problems, "\n"), Message("recall_short.yaml"));
  EXPECT_EQ(paper.suites.size(), 2u) << "recall and rerank";
}

TEST_F(DatasetsTest, ProblemsOfADatasetAreListed) {
  const std::string files = "\ntest_files: data/json_kv/test_k6_dep6.jsonl\ndemo_files: ''\n";
  for (
      const auto& [name, text] : std::map<std::string, std::string>{
          {"none", "datasets: sst2" + files},
          {"zero", "datasets: json_kv\ninput_max_length: 0" + files},
          {"large", "datasets: json_kv\ninput_max_length: 2000000" + files},
          {"digit", "datasets: 1_ruler_vt" + files},
          {"slots", "datasets: ruler_none" + files},
          {"rare",
           "datasets: kilt_popqa_-9\ntest_files: data/kilt/popqa_k4.jsonl\ndemo_files: data/kilt/popqa_demos.jsonl\n"}}) {
    WriteFile(root_ / "configs" / (name + ".yaml"), text);
  }
  const ImportResult result = ImportHelmet(Options({"none", "zero", "large", "digit", "slots", "rare"})).value();
  EXPECT_EQ(result.tasks.size(), 0u);
  EXPECT_THAT(result.problems,
              testing::ElementsAre("none: sst2 at 8192: is not a dataset that can be imported",
                                   Message("zero", "json_kv", 0, 1), Message("large", "json_kv", 2000000),
                                   Message("digit", "1_ruler_vt", 8192),
                                   "slots: ruler_none at 8192: upstream has no RULER subtask for \"ruler_none\"",
                                   Message("rare", "kilt_popqa_-9", 8192)));
}

TEST_F(DatasetsTest, RunsOfOtherSettingsAreOtherTasks) {
  const std::string alce = "\ntest_files: data/alce/asqa_eval_gtr_top2000.json\ndemo_files: ";
  const std::string asqa = "prompts/asqa_revised.json\nmax_test_samples: 2\ninput_max_length: 1000\n";
  const std::string common = "datasets: alce_asqa_3" + alce + asqa;
  fs::copy_file(root_ / kAsqaPrompt, root_ / "prompts/copy.json");
  for (const auto& [name, text] :
       std::map<std::string, std::string>{{"one", common},
                                          {"chat", common + "use_chat_template: true\n"},
                                          {"stop", common + "stop_newline: true\n"},
                                          {"longer", common + "generation_max_length: 77\n"},
                                          {"seven_docs", absl::StrReplaceAll(common, {{"asqa_3", "asqa_7"}})},
                                          {"copy", absl::StrReplaceAll(common, {{"asqa_revised", "copy"}})},
                                          {"same", common}}) {
    WriteFile(root_ / "configs" / (name + ".yaml"), text);
  }
  const ImportResult result =
      ImportHelmet(Options({"one", "chat", "stop", "longer", "seven_docs", "copy", "same"})).value();
  EXPECT_THAT(result.problems, testing::IsEmpty());
  std::vector<std::string> names;
  for (const ImportedTask& task : result.tasks) names.push_back(task.task);
  EXPECT_EQ(names, (std::vector<std::string>{"alce_asqa", "alce_asqa_2", "alce_asqa_3", "alce_asqa_4", "alce_asqa_5",
                                             "alce_asqa_6"}));
}

TEST_F(DatasetsTest, FilesThatCannotBeWrittenEndTheImport) {
  const fs::path out = root_ / "out";
  const auto status_with = [&](const std::function<void()>& prepare) {
    fs::remove_all(out);
    prepare();
    return ImportHelmet(Options({"rerank"})).status();
  };
  const std::string task = "msmarco_rerank_psg";
  for (const char* folder : {"rows", "tasks"}) {
    const absl::Status status = status_with([&] { WriteFile(out / folder, "a file"); });
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << folder << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat("Cannot write ", (out / folder).string(), "/")));
  }
  for (const std::string& name : {std::string("helmet_rerank.yaml"), std::string("manifest.json")}) {
    const absl::Status status = status_with([&] { fs::create_directories(out / name); });
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(name));
  }
  const absl::Status taken = status_with([&] { fs::create_directories(out / ("rows/" + task + ".900.jsonl/x")); });
  EXPECT_EQ(taken.code(), absl::StatusCode::kResourceExhausted) << taken;
  // A full disk.
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const absl::Status full_rows = status_with([&] {
    fs::create_directories(out / "rows");
    fs::create_symlink("/dev/full", out / ("rows/" + task + ".900.jsonl.part"));
  });
  EXPECT_EQ(full_rows.code(), absl::StatusCode::kResourceExhausted) << full_rows;
  // Rows that fit the buffer are written when the file is closed.
  WriteFile(
      root_ / "configs/rerank.yaml",
      "datasets: ruler_vt\ntest_files: data/ruler/vt/validation_900.jsonl\ndemo_files: ''\nmax_test_samples: 1\n");
  const absl::Status full_at_close = status_with([&] {
    fs::create_directories(out / "rows");
    fs::create_symlink("/dev/full", out / "rows/ruler_vt.8192.jsonl.part");
  });
  EXPECT_EQ(full_at_close.code(), absl::StatusCode::kResourceExhausted) << full_at_close;
  const absl::Status full_index = status_with([&] {
    fs::create_directories(out / "tasks");
    fs::create_symlink("/dev/full", out / "tasks/ruler_vt.json");
  });
  EXPECT_EQ(full_index.code(), absl::StatusCode::kPermissionDenied) << full_index;
}

}  // namespace
}  // namespace varifocal::helmet
