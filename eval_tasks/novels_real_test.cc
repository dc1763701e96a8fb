// The six novels installed on this machine: chapter counts as in any edition, and texts without the surrounding parts of
// the file. Skipped where the novels are absent.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "base/sha256.h"
#include "eval_tasks/tasks/fact_world.h"
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

// The task on the real novels.
std::unique_ptr<Task> MakeReal(const std::string& kind, std::map<std::string, std::string> parameters = {}) {
  return MakeTask(Completed({.kind = kind, .parameters = std::move(parameters)}, 2048).value()).value();
}

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

// Each of the task's questions: the prompt contains the evidence, which contains an answer and no wrong choice except as
// part of another word, and the four of a context fit into 2,048 tokens of typical size.
TEST_F(NovelsRealTest, EvidenceContainsTheAnswer) {
  const auto task = MakeReal("longqa_novel");
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

// A gold document contains the evidence of its question. (Passages of one context may overlap.)
TEST_F(NovelsRealTest, GoldDocumentsContainTheEvidence) {
  const auto ask = MakeReal("longqa_novel");
  const auto task = MakeReal("rag_novel");
  ASSERT_EQ(task->question_count(), ask->question_count());
  for (int index = 0; index < task->question_count(); index += 4) {
    const std::vector<Sample> whole = Group(*ask, 2048, Words(), index);
    const std::vector<Sample> group = Group(*task, 8192, Words(), index);
    for (size_t i = 0; i < group.size(); ++i) {
      EXPECT_EQ(group[i].row_id, whole[i].row_id);
      const std::string evidence = absl::StrReplaceAll(EvidenceText(whole[i]), {{"\n\n", " "}});
      EXPECT_TRUE(absl::StrContains(EvidenceText(group[i]), evidence)) << evidence;
      EXPECT_TRUE(absl::StartsWith(EvidenceText(group[i]), "Document: "));
    }
  }
}

// Facts must not collide with the books: no name of the facts' people occurs in them.
TEST_F(NovelsRealTest, NamesOfFactsDoNotOccurInNovels) {
  std::set<std::string> words;
  for (const ProseWord& word : novels_->words()) {
    std::string letters;
    for (char c : word.text) {
      if (absl::ascii_isalpha(c)) letters.push_back(c);
    }
    words.insert(letters);
  }
  EXPECT_TRUE(words.count("Emma"));
  for (absl::string_view name : kFactNames) EXPECT_FALSE(words.count(std::string(name))) << name;
}

// The tasks that hide sentences in prose, at three lengths: hidden sentences are between whole sentences.
TEST_F(NovelsRealTest, SentencesAreHiddenBetweenSentences) {
  for (const auto& [kind, more] : std::vector<std::pair<std::string, std::map<std::string, std::string>>>{
           {"niah", {{"keys", "4"}}}, {"variable_tracking", {}}, {"fact_tracking", {{"ask", "where_before"}}}}) {
    auto parameters = more;
    parameters["haystack"] = "prose";
    const auto task = Make(kind, parameters);
    for (int length : {2048, 8192, 32768}) {
      for (const Sample& sample : Group(*task, length, Words(), 4)) {
        EXPECT_LE(sample.prompt_token_count() + sample.max_new_tokens, length);
        EXPECT_EQ(sample.token_ids, Words().EncodePrompt(sample.prompt).value());
        for (const PromptSpan& span : sample.evidence) {
          const size_t end = sample.prompt.find_last_not_of(" \n", span.byte_begin - 1);
          EXPECT_TRUE(absl::StrContains(".!?\"')_:I0123456789", sample.prompt.substr(end, 1)))
              << sample.prompt.substr(end - 40, 80);
        }
      }
    }
  }
}

// Prompts must not change by accident: stored results would become invalid.
TEST_F(NovelsRealTest, PromptsAreStable) {
  const std::map<std::string, std::string> digests = {
      {"longqa_novel", "bb02bcaba67ded6daf56f51656735a21bad28e30d1c3ee50b488473e82f2cce7"},
      {"niah", "bbbcc91a439b54521c586ae083329cb0ea1c4c0efea787cfb5cb55b0cdf32edb"},
      {"fact_tracking", "fd62d53773a82514bbf14dd3a9bae2209f7450110c0219f9ebab30c90b8690c9"},
      {"rag_novel", "4a1c05ff9afdfd2c3072e9c1be6156394cb1c22961d8b0d117d14f9c87630305"},
      {"variable_tracking", "15cb1b457aef81419898f8af3c5a288ef04c8de0eff2aa73c999e614a0909b35"}};
  for (const auto& [kind, digest] : digests) {
    const bool asks_on_novels = kind == "longqa_novel" || kind == "rag_novel";
    const auto task = asks_on_novels ? MakeReal(kind) : MakeReal(kind, {{"haystack", "prose"}});
    std::string all;
    for (const Sample& sample : Group(*task, 4096, Words(), 0)) absl::StrAppend(&all, sample.prompt, "\n");
    EXPECT_EQ(Sha256Hex(all), digest) << kind;
  }
}

}  // namespace
}  // namespace varifocal
