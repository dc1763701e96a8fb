// The six novels as they are on this machine: numbers of chapters that any edition states, and texts without a trace of
// the file around them. Skipped where the novels are absent.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval_tasks/novels.h"
#include "eval_tasks/testing_samples.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

class NovelsRealTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loaded = LoadNovels("");
    if (!loaded.ok()) GTEST_SKIP() << loaded.status().message();
    novels_ = *std::move(loaded);
  }
  std::shared_ptr<const Novels> novels_;
};

TEST_F(NovelsRealTest, HaveTheirChapters) {
  const std::pair<const char*, size_t> chapters[] = {
      {"Emma", 55},       {"Mansfield Park", 48},      {"Northanger Abbey", 31},
      {"Persuasion", 24}, {"Pride and Prejudice", 61}, {"Sense and Sensibility", 50}};
  for (const auto& [title, count] : chapters) {
    const Novel* novel = novels_->Find(title);
    ASSERT_NE(novel, nullptr) << title;
    EXPECT_EQ(novel->chapters.size(), count) << title;
    for (const Chapter& chapter : novel->chapters) {
      EXPECT_GT(chapter.end - chapter.begin, 3000u) << title;
      EXPECT_TRUE(absl::StartsWithIgnoreCase(novel->text.substr(chapter.begin), "chapter")) << title;
    }
  }
}

TEST_F(NovelsRealTest, EndWithTheirLastSentences) {
  const std::pair<const char*, const char*> endings[] = {
      {"Emma", "in the perfect happiness of the union."},
      {"Mansfield Park", "within the view and patronage of Mansfield Park had long been."},
      {"Northanger Abbey", "to recommend parental tyranny, or reward filial disobedience."},
      {"Persuasion", "in its domestic virtues than in its national importance."},
      {"Pride and Prejudice", "had been the means of uniting them."},
      {"Sense and Sensibility", "or producing coolness between their husbands."}};
  for (const auto& [title, ending] : endings) {
    EXPECT_TRUE(absl::EndsWith(novels_->Find(title)->text, ending)) << title;
  }
  EXPECT_GT(novels_->words().size(), 700'000u);
}

// Each of the task's own questions: the evidence stands in the prompt, holds an answer and no wrong choice but as part
// of something else, and the four of a context fit into 2,048 tokens of the kind that real tokenizers have.
TEST_F(NovelsRealTest, EveryQuestionIsAnsweredByItsEvidence) {
  SuiteSpec suite;
  suite.name = "test";
  suite.lengths = {2048};
  suite.tasks = {{"", "longqa_novel", {}, {}, 0}};
  const auto task = MakeTask(ValidateSuiteSpec(suite).value().tasks[0]).value();
  EXPECT_GE(task->question_count(), 60);
  std::set<std::string> questions;
  for (int index = 0; index < task->question_count(); index += 4) {
    for (const Sample& sample : Group(*task, 2048, Words(), index)) {
      const std::string evidence = EvidenceText(sample);
      EXPECT_LE(evidence.size(), 300u) << sample.row_id;
      const bool holds_answer = std::any_of(sample.gold.begin(), sample.gold.end(), [&](const std::string& gold) {
        return absl::StrContains(absl::AsciiStrToLower(evidence), absl::AsciiStrToLower(gold));
      });
      EXPECT_TRUE(holds_answer) << sample.row_id << ": " << evidence;
      EXPECT_TRUE(questions.insert(sample.prompt.substr(sample.shared_prefix_bytes)).second) << sample.row_id;
      EXPECT_TRUE(absl::EndsWith(sample.prompt, "?\nAnswer:")) << sample.row_id;
      EXPECT_TRUE(sample.truncation.gold_survived);
    }
  }
}

}  // namespace
}  // namespace varifocal
