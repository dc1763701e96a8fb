// The data folder: what is missing, of another version or malformed, and the parts that read it.
#include "eval_tasks/ruler/inputs.h"

#include <algorithm>

#include "base/files.h"
#include "base/json.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/python/literals.h"
#include "eval_tasks/ruler/fixture.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"

namespace varifocal::ruler {
namespace {

using ::testing::ElementsAre;

class InputsTest : public RulerFolderTest {
 protected:
  absl::StatusOr<std::unique_ptr<Task>> Open(const std::string& task) {
    return OpenRuler("ruler", {{"task", task}, {"data", folder_}});
  }
  void Break(const std::string& name, absl::string_view text) {
    CopyStandIns();
    Write(name, text);
  }
};

TEST_F(InputsTest, AFolderWithoutDataNamesWhatIsMissingAndTheSuiteWithoutData) {
  const absl::Status status = Open("vt").status();
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_THAT(status.message(), Message("constants.py", "NVIDIA/RULER", "ruler_like"));
}

TEST_F(InputsTest, EveryMissingFileIsNamed) {
  const std::map<std::string, std::string> needed = {
      {"wonderwords/nounlist.txt", "niah_single_1"},
      {"wonderwords/verblist.txt", "cwe"},
      {"punkt_tab/english/sent_starters.txt", "niah_multivalue"},
      {absl::StrCat(kJsonFolder, "/PaulGrahamEssays.json"), "niah_single_2"},
      {absl::StrCat(kJsonFolder, "/squad.json"), "qa_1"},
      {absl::StrCat(kJsonFolder, "/hotpotqa.json"), "qa_2"},
      {"RULER/scripts/data/synthetic/qa.py", "qa_1"},
  };
  CopyStandIns();
  for (const auto& [name, task] : needed) {
    const std::filesystem::path path = std::filesystem::path(folder_) / name;
    std::filesystem::rename(path, path.string() + ".away");
    const absl::Status status = Open(task).status();
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_THAT(status.message(), Message(path.filename().string()));
    EXPECT_TRUE(Open("fwe").ok()) << "which does not read it";
    std::filesystem::rename(path.string() + ".away", path);
  }
}

TEST_F(InputsTest, EnglishWordsAreNeededOnlyForLongLists) {
  CopyStandIns();
  Write(absl::StrCat(kJsonFolder, "/english_words.json"), "version https://git-lfs.github.com/spec/v1\n");
  const auto task = Open("cwe");
  ASSERT_TRUE(task.ok()) << task.status();
  // The stand-ins' lists have fewer than the 4,096 words of the first probe.
  EXPECT_THAT((*task)->MakeSample({42, 1024, 0}, *CounterOf("models/baseline")).status().message(),
              Message("4096", "Git LFS"));
}

TEST_F(InputsTest, AnotherVersionIsNoted) {
  const auto standard = OpenRuler("ruler", {{"task", "niah_single_1"}, {"data", kStandIns}}).value();
  EXPECT_THAT(standard->Note(), Message("niah_single_1", "nounlist.txt", "adjectivelist.txt", "wonderwords 3.0.1"));
  CopyStandIns();
  Write("wonderwords/nounlist.txt", "zebra\n");
  const auto other = Open("niah_single_1").value();
  EXPECT_NE(other->data_sha256(), standard->data_sha256());
  EXPECT_EQ(Open("vt").value()->data_sha256(),
            OpenRuler("ruler", {{"task", "vt"}, {"data", kStandIns}}).value()->data_sha256())
      << "which reads no nouns";
}

TEST_F(InputsTest, RefusesFilesThatAreNotAsRecorded) {
  auto spec = RulerSpec("ruler", {{"task", "vt"}, {"data", kStandIns}}).value();
  spec.parameters["sha256"] = MakeTask(spec).value()->data_sha256();
  EXPECT_TRUE(MakeTask(spec).ok());
  spec.parameters["sha256"] = std::string(64, '0');
  EXPECT_TRUE(absl::IsFailedPrecondition(MakeTask(spec).status()));
}

TEST_F(InputsTest, MalformedFilesAreNamed) {
  const std::string synthetic = "RULER/scripts/data/synthetic/";
  struct Broken {
    std::string task, name, text;
  };
  const std::vector<Broken> cases = {
      {"vt", synthetic + "constants.py", "TASKS = {'niah': 3}\n"},
      {"vt", synthetic + "constants.py", "X = 1\n"},
      {"vt", synthetic + "constants.py", "TASKS = {\n'niah': f(3)}\n"},
      {"vt", synthetic + "variable_tracking.py", "haystack = []\n"},
      {"qa_1", absl::StrCat(kJsonFolder, "/squad.json"), R"({"data":[{"paragraphs":[{"qas":[]}]}]})"},
      {"qa_1", absl::StrCat(kJsonFolder, "/squad.json"), R"({"data":[]})"},
      {"qa_1", absl::StrCat(kJsonFolder, "/squad.json"), R"({"data":[{"paragraphs":[{"context")"},
      {"qa_2", absl::StrCat(kJsonFolder, "/hotpotqa.json"), R"([{"question":"q","answer":"a","context":[["t"]]}])"},
      {"niah_single_2", absl::StrCat(kJsonFolder, "/PaulGrahamEssays.json"), R"({"title":"x"})"},
      {"niah_single_2", "punkt_tab/english/ortho_context.tab", "word\tmany\n"},
      {"niah_single_2", "punkt_tab/english/collocations.tab", "word\n"},
      {"cwe", absl::StrCat(kJsonFolder, "/english_words.json"), R"({"a":1})"},
  };
  CopyStandIns();
  for (const Broken& broken : cases) {
    const std::string before = ReadFile(folder_ + "/" + broken.name, kDataFile).value();
    Write(broken.name, broken.text);
    const absl::Status status = Open(broken.task).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << broken.name << " " << status;
    EXPECT_THAT(status.message(), Message());
    Write(broken.name, before);
  }
}

TEST_F(InputsTest, AnUnknownModelTemplateIsRefused) {
  EXPECT_THAT(OpenRuler("ruler", {{"task", "vt"}, {"data", kStandIns}, {"model_template", "none"}}).status().message(),
              Message("none", "brackets", "some-chat"));
}

TEST_F(InputsTest, AnUnknownTaskIsRefused) {
  EXPECT_THAT(OpenRuler("ruler", {{"task", "niah_single_9"}, {"data", kStandIns}}).status().message(),
              Message("niah_single_9"));
}

TEST(PythonConstantTest, ReadsLiterals) {
  const absl::string_view source =
      "# T = {'a': 1}\nT = {'a': \"x\\n\\\"y\\\"\", # c\n 'b': \"\"\"p\"q\n\"\"\", \"c\": 12,}\n";
  EXPECT_EQ(PythonConstant(source, "T").value(), Json({{"a", "x\n\"y\""}, {"b", "p\"q\n"}, {"c", 12}}));
  const std::string deep = absl::StrCat("T = ", std::string(10'000, '['));
  for (const char* bad : {"T = {'a' 1}", "T = {'a': \"x", "T = {'a': 1", "T = {3: 1}", "T = f(1)", deep.c_str()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(PythonConstant(bad, "T").status())) << bad;
  }
}

TEST(PythonConstantTest, ATextOfAFunction) {
  EXPECT_EQ(PythonTextOf("xy = 'no'\n  x = f()\n\tx == 'no'\n  x = 'it'\n", "x").value(), "it");
  for (const char* bad : {"", "x = 1", "x = 'open", "x"}) {
    EXPECT_TRUE(absl::IsNotFound(PythonTextOf(bad, "x").status())) << bad;
  }
}

TEST(TemplateTest, FillsNamedSlotsOnce) {
  EXPECT_EQ(helmet::RenderText("a {x} {{y}} {x}", {{"x", "{z}"}}).value(), "a {z} {y} {z}");
  for (const char* bad : {"{y}", "{x", "x}"}) EXPECT_FALSE(helmet::RenderText(bad, {{"x", ""}}).ok()) << bad;
}

TEST(WordPairsTest, AreTheSortedSet) {
  const std::vector<std::string> adjectives = {"well", "a", "well-known", "B", "well-known-by", "a"};
  const std::vector<std::string> nouns = {"by-x", "known", "z", "known-by", "A", "z"};
  std::vector<std::string> expected;
  for (const std::string& adjective : adjectives) {
    for (const std::string& noun : nouns) expected.push_back(adjective + "-" + noun);
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  const WordPairs pairs(adjectives, nouns);
  std::vector<std::string> found;
  for (size_t i = 0; i < pairs.size(); ++i) found.push_back(pairs.At(i));
  EXPECT_EQ(found, expected);
}

TEST(PunktTest, SplitsAsNltkDoes) {
  const auto file = [](const char* name) {
    return ReadFile(absl::StrCat(kStandIns, "/punkt_tab/english/", name), kDataFile).value();
  };
  for (const CurlyQuotes quotes : {CurlyQuotes::kLetters, CurlyQuotes::kClosing}) {
    const Punkt punkt = Punkt::Parse(file("abbrev_types.txt"), file("collocations.tab"), file("sent_starters.txt"),
                                     file("ortho_context.tab"), quotes)
                            .value();
    const char* name = quotes == CurlyQuotes::kLetters ? "letters" : "closing";
    const std::string path = absl::StrCat("eval_tasks/ruler/testdata/sentences_", name, ".json");
    int count = 0;
    const Json rows = ParseJson(ReadFile(path, kDataFile).value()).value();
    for (const Json& row : rows) {
      const std::string text = row[0].get<std::string>();
      std::vector<size_t> sizes;
      for (const absl::string_view sentence : punkt.Sentences(text)) sizes.push_back(sentence.size());
      EXPECT_EQ(Json(sizes), row[1]) << name << ": " << text;
      ++count;
    }
    EXPECT_EQ(count, 160);
  }
}

TEST(PunktTest, CurlyQuotesCloseSentencesFromNltk310On) {
  const absl::string_view text = "He said \u201cno.\u201d It ended.\u201d Then.";
  const auto split = [&](CurlyQuotes quotes) { return Punkt::Parse("", "", "", "", quotes).value().Sentences(text); };
  EXPECT_THAT(split(CurlyQuotes::kLetters), ElementsAre("He said \u201cno.\u201d It ended.\u201d Then."));
  EXPECT_THAT(split(CurlyQuotes::kClosing), ElementsAre("He said \u201cno.\u201d", "It ended.\u201d", "Then."));
}

}  // namespace
}  // namespace varifocal::ruler
