// Questions on novels: rows are checked against the text; a window contains its passage, continues in the next book, and
// records its truncation; on synthetic novels. novels_real_test.cc covers the real ones.
#include "absl/strings/match.h"
#include "eval_tasks/testing_samples.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/json_changes.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using ::testing::HasSubstr;

TEST(LongqaNovelTest, WindowsAreContiguousTextAcrossBooks) {
  std::string ring;
  for (const ProseWord& word : InventedNovels()->words()) {
    absl::StrAppend(&ring, ring.empty() ? "" : word.begins_paragraph ? "\n\n" : " ", word.text);
  }
  const std::string twice = absl::StrCat(ring, "\n\n", ring);
  bool crosses = false;
  for (const char* depth : {"0", "0.3", "1"}) {
    const auto task = Make("longqa_novel", {{"depth", depth}});
    for (int index = 0; index < task->question_count(); index += 4) {
      const Sample sample = Group(*task, 8192, Shipped(), index)[0];
      const size_t begin = sample.prompt.rfind("Passage: ") + 9;
      const std::string window = sample.prompt.substr(begin, sample.shared_prefix_bytes - 2 - begin);
      EXPECT_TRUE(absl::StrContains(twice, window)) << depth << " " << index;
      crosses = crosses || (absl::StrContains(window, "CHAPTER 1\n") && !absl::StartsWith(window, "CHAPTER 1\n"));
    }
  }
  EXPECT_TRUE(crosses) << "a passage at the end of a first book needs the start of another before or after it";
}

TEST(LongqaNovelTest, RecordsHowMuchOfTheChapterWasCut) {
  // A chapter has 3,000 words of a token each and 500 full stops. The passage is near its start.
  const auto front = Make("longqa_novel", {{"depth", "0"}});
  const Sample shorter = Group(*front, 1024, Words(), 0)[0];
  const Sample longer = Group(*front, 2048, Words(), 0)[0];
  EXPECT_TRUE(shorter.truncation.gold_survived);
  // All that the longer window adds is of this chapter.
  EXPECT_NEAR(shorter.truncation.cut_token_count - longer.truncation.cut_token_count,
              longer.prompt_token_count() - shorter.prompt_token_count(), 10);
  EXPECT_NEAR(shorter.truncation.cut_token_count, 3500 - shorter.prompt_token_count(), 150);
  // What comes before the passage is of the book before it, but for a few words.
  const auto back = Make("longqa_novel", {{"depth", "1"}});
  EXPECT_NEAR(Group(*back, 1024, Words(), 0)[0].truncation.cut_token_count, 3500, 60);
  EXPECT_EQ(Group(*front, 8192, Words(), 0)[0].truncation.cut_token_count < 20, true);
}

TEST(LongqaNovelTest, RowIdsAndEndOfRows) {
  const auto task = Make("longqa_novel", {{"format", "multiple_choice"}});
  EXPECT_EQ(task->question_count(), 16);
  const std::vector<Sample> group = Group(*task, 2048, Shipped(), 4);
  EXPECT_EQ(group[2].row_id, "The Lamp 20 2");
  EXPECT_TRUE(absl::EndsWith(group[2].prompt, "Question: What is sentence 2?\nAnswer:"));
  EXPECT_EQ(group[2].continuations.size(), 4u);
  EXPECT_EQ(group[2].continuations[group[2].gold_continuation_indices[0]], absl::StrCat(" ", group[2].gold[0]));
  EXPECT_TRUE(absl::StartsWith(EvidenceText(group[2]), group[2].gold[0]));
}

TEST(NovelQuestionsTest, InvalidRowsAreRejectedWithTheirLine) {
  const std::string good = InventedQuestions();
  EXPECT_EQ(ParseNovelQuestions(good, *InventedNovels())->size(), 16u);
  struct Case {
    std::string from, to, message;
  };
  const std::vector<Case> cases = {
      {"\"chapter\":1", "\"chapter\":0",
       "line 1 of the questions on novels: chapter is 0; The Lamp has chapters 1 to 20"},
      {"\"novel\":\"The Oar\"", "\"novel\":\"Oars\"", "line 9 of the questions on novels: unknown novel \"Oars\""},
      {"\"evidence\":\"", "\"evidence\":\"zzz ", "must occur exactly once in chapter 1 of The Lamp"},
      {",\"y\",\"z\"]", "]", "\"wrong\" has 1 texts; it must have 3"},
      {"\"id\":\"The Lamp 1 1\"", "\"id\":\"The Lamp 1 0\"",
       "line 2 of the questions on novels: the id \"The Lamp 1 0\" is given twice"},
      {"\"context\":\"The Oar 1\"", "\"context\":\"The Lamp 20\"", ""},
      {"\"answers\":[", "\"answers\":[1,", "\"answers\" must be a list of texts"},
      {"{", "[{", "line 1 of the questions on novels: "},
  };
  for (const Case& wrong : cases) {
    std::string bad = good;
    const size_t at = bad.find(wrong.from);
    ASSERT_NE(at, std::string::npos) << wrong.from;
    bad.replace(at, wrong.from.size(), wrong.to);
    const auto parsed = ParseNovelQuestions(bad, *InventedNovels());
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument) << wrong.to;
    EXPECT_THAT(std::string(parsed.status().message()), HasSubstr(wrong.message));
  }
  const std::string last_line = good.substr(good.rfind('\n', good.size() - 2) + 1);
  EXPECT_THAT(ParseNovelQuestions(good.substr(0, good.size() - last_line.size()), *InventedNovels()).status().message(),
              Message("15", "4"));
}

TEST(NovelQuestionsTest, EveryChangeOfARowIsAcceptedOrRejectedWithItsLine) {
  const std::string good = InventedQuestions();
  const size_t end = good.find('\n');
  int rejected_count = 0;
  testing_support::ForEachChange(*ParseJson(good.substr(0, end)), [&](const testing_support::JsonChange& change) {
    const absl::Status status =
        ParseNovelQuestions(change.changed.dump() + good.substr(end), *InventedNovels()).status();
    if (status.ok()) return;
    ++rejected_count;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << change.path << ": " << change.what;
    EXPECT_THAT(status.message(), Message()) << change.path;
  });
  EXPECT_GT(rejected_count, 50);
  for (const char* line : {"[]", "7", "{"}) EXPECT_FALSE(ParseNovelQuestions(line, *InventedNovels()).ok()) << line;
  EXPECT_FALSE(ParseNovelQuestions("", *InventedNovels()).ok());
}

}  // namespace
}  // namespace varifocal
