// Word classes and purity calculated by hand, and `varifocal groups` on a shipped checkpoint.
#include <algorithm>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "client/testing_run.h"
#include "client/token_groups.h"
#include "client/word_classes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> ClassesOf(const std::vector<std::string>& tokens) {
  std::vector<std::string> names;
  for (const WordClass found : ClassifyTokens(tokens)) names.emplace_back(WordClassName(found));
  return names;
}

TEST(WordClassesTest, ListsKnowTheClosedClasses) {
  EXPECT_THAT(ClassesOf({"The", " dog", " and", " she", " will", " not", " run", " under", " 12", " trees", "."}),
              ElementsAre("determiner", "other", "conjunction", "pronoun", "auxiliary", "other", "other", "preposition",
                          "number", "other", "punctuation"));
}

TEST(WordClassesTest, NamesAreCapitalsInsideASentence) {
  EXPECT_THAT(
      ClassesOf({"Dogs", " saw", " Anne", ".", " Then", " Mr", ".", " Elliot", "!", "\n", "\n", "Chapter", " Two"}),
      ElementsAre("other", "other", "name", "punctuation", "other", "name", "punctuation", "name", "punctuation",
                  "punctuation", "punctuation", "other", "number"));
  // A hard line break does not start a sentence; a sentence may start with a quotation mark.
  EXPECT_THAT(ClassesOf({"saw", "\n", "Anne", ".", " \u201c", "Perhaps", "\u201d"}),
              ElementsAre("other", "punctuation", "name", "punctuation", "punctuation", "other", "punctuation"));
}

TEST(WordClassesTest, AWordInPiecesHasItsClassOnce) {
  EXPECT_THAT(ClassesOf({"see", " Went", "worth", ",", " th", "e", " a", "ard", "vark", " don", "'t"}),
              ElementsAre("other", "name", "piece", "punctuation", "determiner", "piece", "other", "piece", "piece",
                          "auxiliary", "auxiliary"));
}

// Four tokens: two determiners in group 0; a name, a number and the second determiner in group 1.
TEST(TokenGroupsTest, PurityCountsEachHolder) {
  using enum WordClass;
  const LayerOfGroups layer =
      DescribeGroups({1, 3, 2, 2}, 3, {"the", " a", " Anne", " 7"}, {kDeterminer, kDeterminer, kName, kNumber});
  ASSERT_EQ(layer.groups.size(), 3u);
  EXPECT_EQ(layer.groups[0].token_count, 2);
  EXPECT_EQ(layer.groups[0].purity, 1);
  EXPECT_EQ(layer.groups[0].top_class(), kDeterminer);
  EXPECT_EQ(layer.groups[1].token_count, 3);
  EXPECT_DOUBLE_EQ(layer.groups[1].purity, 1.0 / 3);
  EXPECT_EQ(layer.groups[2].token_count, 0);
  EXPECT_DOUBLE_EQ(layer.purity, 3.0 / 5);
  EXPECT_THAT(layer.groups[0].common, ElementsAre(std::pair<std::string, int64_t>(" a", 1), std::pair("the", 1)));
}

// Groups that are the classes are pure; shuffled, a group of half the tokens has about half of each class.
TEST(TokenGroupsTest, ShufflingGivesTheBaseRate) {
  std::vector<uint32_t> groups;
  std::vector<WordClass> classes;
  std::vector<std::string> tokens(4000, " x");
  for (size_t i = 0; i < tokens.size(); ++i) {
    groups.push_back(i % 2 == 0 ? 1 : 2);
    classes.push_back(i % 2 == 0 ? WordClass::kName : WordClass::kOther);
  }
  const LayerOfGroups layer = DescribeGroups(groups, 2, tokens, classes);
  EXPECT_EQ(layer.purity, 1);
  EXPECT_NEAR(layer.shuffled_purity, 0.5, 0.03);
  EXPECT_GE(layer.groups[0].shuffled_purity, 0.5);
}

class GroupsVerbTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream file(path_);
    for (int i = 0; i < 60; ++i) file << "The value of the harbor is amber and the value of kettle is stone. ";
  }
  Ran Groups(std::vector<std::string> more, const std::string& model = "models/focus") {
    more.insert(more.begin(), {"groups", "--model=" + model, "--file=" + path_, "--device=cpu"});
    return Varifocal(more);
  }
  // Of this test alone: they run beside each other.
  const testing_support::TemporaryDirectory directory_;
  const std::string path_ = directory_.File("groups_test.txt");
};

TEST_F(GroupsVerbTest, RowsAddUp) {
  const Ran ran = Done(Groups({"--context=128", "--windows=3", "--format=json"}));
  const Json rows = *ParseJson(ran.out);
  ASSERT_EQ(rows.size(), 4u * 8);
  for (size_t layer = 0; layer < 4; ++layer) {
    int64_t held = 0;
    double largest = 0;
    for (size_t g = 0; g < 8; ++g) {
      const Json& row = rows[8 * layer + g];
      EXPECT_EQ(row["layer"], layer);
      EXPECT_EQ(row["layer_token_count"], 3 * 128);
      held += row["token_count"].get<int64_t>();
      largest = std::max(largest, row["token_share"].get<double>());
      int64_t of_classes = 0;
      for (const auto& [name, count] : row["word_classes"].items()) of_classes += count.get<int64_t>();
      EXPECT_EQ(of_classes, row["token_count"]);
    }
    EXPECT_EQ(held, 2 * 3 * 128) << "every token holds two groups";
    EXPECT_EQ(rows[8 * layer]["layer_largest_group"], largest);
    EXPECT_GT(rows[8 * layer]["layer_purity"], rows[8 * layer]["layer_shuffled_purity"]);
  }
}

TEST_F(GroupsVerbTest, OneLayerWithOtherGroups) {
  const Ran ran = Done(Groups({"--context=64", "--layer=2", "--focus-top-k=1", "--format=jsonl"}));
  const std::vector<std::string> lines = absl::StrSplit(ran.out, '\n', absl::SkipEmpty());
  ASSERT_EQ(lines.size(), 8u);
  double held = 0;
  for (const std::string& line : lines) held += (*ParseJson(line))["token_share"].get<double>();
  EXPECT_NEAR(held, 1, 1e-12);
  EXPECT_EQ((*ParseJson(lines[0]))["focus_attention"]["top_k"], 1);
  const Ran text = Groups({"--context=64", "--attention=focus-top-k=1", "--windows=1"});
  EXPECT_THAT(text.out, MessageIn("k = 1", "trained: 2", "K = 8", "window 32", "512", "64"));
}

TEST_F(GroupsVerbTest, APictureOfItsOwn) {
  const Ran ran = Done(Groups({"--context=128", "--windows=1", "--format=svg"}));
  EXPECT_TRUE(absl::StartsWith(ran.out, "<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(ran.out, HasSubstr(">layer 3</text>"));
  EXPECT_THAT(ran.out, HasSubstr(">determiner</text>"));
  EXPECT_THAT(ran.out, ::testing::Not(HasSubstr("nan")));
}

TEST_F(GroupsVerbTest, WhatHasNoGroupsIsRefused) {
  Ran ran = Groups({}, "models/baseline");
  EXPECT_THAT(ran, FailsWith(Message("models/baseline")));
  ran = Groups({"--context=64", "--focus-top-k=5"});
  EXPECT_THAT(ran.err, Message());
  ran = Groups({"--context=64", "--layer=4"});
  EXPECT_THAT(ran.err, Message("4", "0", "1", "2", "3"));
  ran = Groups({"--context=1000000"});
  EXPECT_THAT(ran.err, Message("--context", "1000000", "65536"));
}

}  // namespace
}  // namespace varifocal::client
