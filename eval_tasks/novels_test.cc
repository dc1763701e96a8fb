// Parsing of novels: chapters, paragraphs, words and sentence ends of a small synthetic one, by literals; and errors for
// missing files. novels_real_test.cc covers the real ones.
#include "eval_tasks/novels.h"

#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr absl::string_view kRaw =
    "THE LAMP\n\nby Nobody\n\n\nVOLUME I\n\n\nCHAPTER I\n\n\n"
    "Mr. Ash was  not\nrich. \"Why?\" said\n   Mrs. Oak.\n\nNobody_knew._\n\n"
    "CHAPTER II\nChapter two it was!\n\nchapter V was meant.\n\nFINIS\n\nA note on paper.";

TEST(NovelTest, IsItsChaptersWithLinesJoined) {
  const Novel novel = ParseNovel("The Lamp", kRaw).value();
  EXPECT_EQ(novel.title, "The Lamp");
  EXPECT_EQ(novel.text,
            "CHAPTER I\n\nMr. Ash was not rich. \"Why?\" said Mrs. Oak.\n\nNobody_knew._\n\n"
            "CHAPTER II\n\nChapter two it was!\n\nchapter V was meant.");
  ASSERT_EQ(novel.chapters.size(), 2u);
  EXPECT_EQ(novel.chapters[0].begin, 0u);
  EXPECT_EQ(novel.chapters[0].end, novel.chapters[1].begin);
  EXPECT_EQ(novel.text.substr(novel.chapters[1].begin, 10), "CHAPTER II");
  EXPECT_EQ(novel.chapters[1].end, novel.text.size());
  EXPECT_THAT(ParseNovel("Empty", "EMPTY\n\nno heading\n").status().message(), Message("\"Empty\"", "\"CHAPTER I\""));
}

TEST(NovelTest, WordPositions) {
  std::vector<Novel> two;
  two.push_back(ParseNovel("The Lamp", kRaw).value());
  two.push_back(ParseNovel("More", "Chapter 1\n\nOne A. B. two.").value());
  const Novels novels(std::move(two));
  std::vector<std::string> begin_paragraphs, end_sentences;
  for (const ProseWord& word : novels.words()) {
    if (word.begins_paragraph) begin_paragraphs.emplace_back(word.text);
    if (word.ends_sentence) end_sentences.emplace_back(word.text);
  }
  EXPECT_THAT(begin_paragraphs,
              ElementsAre("CHAPTER", "Mr.", "Nobody_knew._", "CHAPTER", "Chapter", "chapter", "Chapter", "One"));
  EXPECT_THAT(end_sentences,
              ElementsAre("I", "rich.", "\"Why?\"", "Oak.", "Nobody_knew._", "II", "was!", "meant.", "1", "two."));
  const Novel& second = *novels.Find("More");
  EXPECT_EQ(novels.words()[novels.WordAt(second, second.text.find("A."))].text, "A.");
  EXPECT_EQ(novels.words()[novels.WordAt(second, second.text.find("wo."))].text, "two.");
  EXPECT_EQ(novels.words()[novels.WordAt(second, 9)].text, "One") << "a blank belongs to the word after it";
  EXPECT_EQ(novels.Find("Less"), nullptr);
}

TEST(NovelsTest, ErrorsOfAbsentOrChangedFilesNameTheScript) {
  const testing_support::TemporaryDirectory temporary;
  const std::string& directory = temporary.path();
  const absl::Status absent = LoadNovels(directory).status();
  EXPECT_EQ(absent.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(absent.message(), absl::StrCat("cannot open ", directory,
                                           "/emma.txt: No such file or directory; deploy/get_novels.sh "
                                           "fetches the six novels"));
  testing_support::WriteFile(temporary.File("emma.txt"), "CHAPTER I\n\nShort.");
  const absl::Status changed = LoadNovels(directory).status();
  EXPECT_THAT(changed, IsError(absl::StatusCode::kFailedPrecondition, Message("SHA-256")));
  EXPECT_THAT(std::string(changed.message()), HasSubstr("deploy/get_novels.sh"));
}

TEST(NovelsTest, TheScriptChecksTheSameDigests) {
  std::ifstream file("deploy/novels.sha256");
  std::set<std::pair<std::string, std::string>> stated, known;
  std::string digest, name;
  while (file >> digest >> name) stated.insert({digest, name});
  for (const NovelFile& novel : NovelFiles()) known.insert({std::string(novel.sha256), std::string(novel.file_name)});
  EXPECT_EQ(stated, known);
}

}  // namespace
}  // namespace varifocal
