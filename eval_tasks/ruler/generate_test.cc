// Rows that NVIDIA's own scripts wrote of the stand-ins (recipes/goldens/make_ruler.py), and where those scripts never end.
#include "eval_tasks/ruler/generate.h"

#include <set>

#include "base/files.h"
#include "base/reason.h"
#include "eval_tasks/ruler/golden_rows.h"
#include "gmock/gmock.h"
#include "tests/support/messages.h"

namespace varifocal::ruler {
namespace {

TEST_F(GoldenRowsTest, RowsAreUpstreams) {
  EXPECT_EQ(CompareRows("eval_tasks/ruler/testdata/rows.json", kStandIns, false), 302);
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
