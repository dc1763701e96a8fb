// Rows that NVIDIA's own scripts wrote of the stand-ins (recipes/goldens/make_ruler.py), and where those scripts never end.
#include "eval_tasks/ruler/generate.h"

#include <set>

#include "base/files.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "eval_tasks/ruler/fixture.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"

namespace varifocal::ruler {
namespace {

struct Case {
  Json golden;
  std::map<std::string, std::string> parameters;
  std::string tokenizer;
  int64_t seed = 42;
  int length = 0;
};

std::vector<Case> Cases(const std::string& path, const std::string& data) {
  std::vector<Case> cases;
  const Json all = ParseJson(ReadFile(path, kDataFile).value()).value();
  for (const Json& golden : all) {
    Case made;
    made.golden = golden;
    made.parameters = {{"task", golden["task"].get<std::string>()}, {"data", data}};
    made.tokenizer = golden["tokenizer"].get<std::string>();
    made.seed = golden.value("seed", 42);
    made.length = golden["length"].get<int>();
    if (golden.contains("template_tokens")) {
      made.parameters["template_tokens"] = absl::StrCat(golden["template_tokens"].get<int>());
    } else if (golden.contains("template")) {
      made.parameters["model_template"] = golden["template"].get<std::string>();
    }
    cases.push_back(std::move(made));
  }
  return cases;
}

class GoldenRowsTest : public RulerFolderTest {
 protected:
  // Of the whole suite, in any order of rows.
  static int CompareRows(const std::string& path, const std::string& data, bool digests_only) {
    int compared = 0;
    for (const Case& one : Cases(path, data)) {
      SCOPED_TRACE(absl::StrCat(one.golden["task"].get<std::string>(), " ", one.tokenizer, " ", one.length, " ",
                                one.golden.value("template", std::string()), " seed ", one.seed));
      const auto task = OpenRuler("ruler", one.parameters);
      EXPECT_TRUE(task.ok()) << task.status();
      if (!task.ok()) continue;
      const Json& rows = one.golden["rows"];
      const auto counter = CounterOf(one.tokenizer);
      if (rows.empty()) {  // upstream's script did not end, at some of five rows
        const auto sample = (*task)->MakeSample({one.seed, one.length, 4}, *counter);
        EXPECT_TRUE(HasReason(sample.status(), ErrorReason::kImpossibleLength)) << sample.status();
        ++compared;
        continue;
      }
      for (int i = std::ssize(rows) - 1; i >= 0; --i) {
        const auto sample = (*task)->MakeSample({one.seed, one.length, i}, *counter);
        EXPECT_TRUE(sample.ok()) << sample.status();
        if (!sample.ok()) break;
        EXPECT_EQ(Difference(*sample, rows[i], digests_only), "") << "row " << i;
        ++compared;
      }
    }
    return compared;
  }

  static std::string Difference(const Sample& sample, const Json& row, bool digests_only) {
    const std::string input = sample.prompt.substr(0, sample.prompt.size() - sample.answer_prefix.size());
    const auto digest = [](absl::string_view text) { return Sha256Hex(text).substr(0, 16); };
    if (digests_only) {
      std::string outputs;
      for (const std::string& output : sample.gold) absl::StrAppend(&outputs, outputs.empty() ? "" : "\n", output);
      if (digest(sample.answer_prefix) != row["answer_prefix"].get<std::string>())
        return "prefix " + sample.answer_prefix;
      if (digest(outputs) != row["outputs"].get<std::string>()) return "outputs " + outputs;
    } else {
      if (sample.answer_prefix != row["answer_prefix"].get<std::string>()) return "prefix " + sample.answer_prefix;
      if (Json(sample.gold) != row["outputs"]) return "outputs " + Json(sample.gold).dump();
      if (row.contains("input") && input != row["input"].get<std::string>()) return "input " + input;
    }
    if (digest(input) != row["input_sha256"].get<std::string>())
      return absl::StrCat("a prompt of ", input.size(), " bytes");
    return "";
  }
};

TEST_F(GoldenRowsTest, RowsAreUpstreams) {
  EXPECT_EQ(CompareRows("eval_tasks/ruler/testdata/rows.json", kStandIns, false), 302);
}

// With upstream's prompts and word lists, where the user has them; essays and questions are the stand-ins.
TEST_F(GoldenRowsTest, RowsAreUpstreamsWithItsOwnTexts) {
  namespace fs = std::filesystem;
  const fs::path real = DefaultRulerDirectory();
  if (!fs::exists(real / "RULER") || !fs::exists(real / "wonderwords") || !fs::exists(real / "punkt_tab")) {
    GTEST_SKIP() << real << " has no checkout, word lists and Punkt";
  }
  CopyStandIns();
  const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  for (const char* name : {"niah.py", "variable_tracking.py", "qa.py", "constants.py"}) {
    const fs::path path = fs::path("RULER/scripts/data/synthetic") / name;
    fs::copy(real / path, folder_ / path, copy);
  }
  fs::copy(real / "wonderwords", fs::path(folder_) / "wonderwords", copy);
  fs::copy(real / "punkt_tab/english", fs::path(folder_) / "punkt_tab/english", copy);
  EXPECT_GT(CompareRows("eval_tasks/ruler/testdata/real_rows.json", folder_, true), 60);
}

TEST(RulerTaskTest, ALengthIsALabelThatABosMayExceed) {
  const auto task = OpenRuler("ruler", {{"task", "niah_single_1"}, {"data", kStandIns}}).value();
  const auto counter = CounterOf("models/baseline");
  const Sample sample = task->MakeSample({42, 1024, 1}, *counter).value();
  EXPECT_EQ(sample.max_new_tokens, 128);
  EXPECT_EQ(sample.token_ids, counter->EncodePrompt(sample.prompt).value());
  EXPECT_EQ(sample.shortfall_tokens, 1024 - sample.prompt_token_count() - 128);
  EXPECT_TRUE(sample.stop_strings.empty());
  EXPECT_EQ(sample.metrics[0], "ruler/string_match_all");
  ASSERT_EQ(sample.evidence.size(), 1u);
  EXPECT_EQ(sample.prompt.substr(sample.evidence[0].byte_begin, 7), sample.gold[0]);
  EXPECT_GT(sample.evidence[0].token_end, sample.evidence[0].token_begin);
}

TEST(RulerTaskTest, QuestionsKeepTheirIdentityOverLengthsAndOtherRowsDoNot) {
  const auto id = [](const char* name, int64_t seed, int length) {
    return OpenRuler("ruler", {{"task", name}, {"data", kStandIns}}).value()->Identify({seed, length, 3}).question_id;
  };
  EXPECT_EQ(id("qa_1", 42, 1024), id("qa_1", 42, 4096));
  EXPECT_NE(id("qa_1", 42, 1024), id("qa_1", 43, 1024));
  EXPECT_NE(id("vt", 42, 1024), id("vt", 42, 4096));
  EXPECT_NE(id("vt", 42, 1024), id("vt", 43, 1024));
  // Three questions of a paragraph are not independent.
  const auto squad = OpenRuler("ruler", {{"task", "qa_1"}, {"data", kStandIns}}).value();
  std::set<std::string> clusters;
  for (int i = 0; i < 20; ++i) {
    clusters.insert(squad->Identify({42, 1024, i}).cluster);
    clusters.insert(squad->Identify({42, 4096, i}).cluster);
  }
  EXPECT_GT(clusters.size(), 5u);
  EXPECT_LT(clusters.size(), 15u);
}

TEST(RulerTaskTest, SeedsDrawOtherQuestionsOfTheSameFiles) {
  const auto task = OpenRuler("ruler", {{"task", "fwe"}, {"data", kStandIns}}).value();
  EXPECT_TRUE(task->draws_from_seed());
  EXPECT_FALSE(task->data_sha256().empty());
}

TEST(RulerTaskTest, AsksNoMoreQuestionsThanTheDataHas) {
  const auto task = OpenRuler("ruler", {{"task", "qa_2"}, {"data", kStandIns}}).value();
  EXPECT_EQ(task->question_count(), 14);
  EXPECT_THAT(task->MakeGroup({42, 1024, 14}, *CounterOf("models/baseline"))[0].status().message(),
              Message("qa_2", "14"));
}

TEST(RulerTaskTest, RefusesALengthThatNothingFits) {
  const auto counter = CounterOf("models/baseline");
  for (const char* name : {"niah_single_2", "vt", "cwe", "fwe"}) {
    const auto task = OpenRuler("ruler", {{"task", name}, {"data", kStandIns}}).value();
    for (const int index : {0, 1}) {  // and again
      const auto sample = task->MakeSample({42, 60, index}, *counter);
      EXPECT_TRUE(HasReason(sample.status(), ErrorReason::kImpossibleLength)) << name;
      EXPECT_THAT(sample.status().message(), Message(name));
    }
  }
}

}  // namespace
}  // namespace varifocal::ruler
