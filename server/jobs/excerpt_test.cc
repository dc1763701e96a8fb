// Excerpts: size bound; evidence, start and end are kept; characters are not split. Method: properties over prompts of
// several sizes, with a prompt of two-byte characters to test the cuts.
#include "server/jobs/excerpt.h"

#include <gtest/gtest.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace varifocal {
namespace {

std::string Filler(size_t bytes) {
  std::string text;
  for (int i = 0; text.size() < bytes; ++i) absl::StrAppend(&text, "line ", i, "\n");
  return text.substr(0, bytes);
}

bool IsWholeUtf8(const std::string& text) {  // of one- and two-byte characters
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = text[i];
    if (c < 0x80) continue;
    if ((c & 0xE0) != 0xC0 || i + 1 == text.size() || (text[i + 1] & 0xC0) != 0x80) return false;
    ++i;
  }
  return true;
}

TEST(ExcerptTest, ShortPromptIsWhole) {
  const std::string prompt = Filler(kExcerptBytesMax);
  EXPECT_EQ(MakeExcerpt(prompt, {{10, 20, 0, 0}}), prompt);
}

TEST(ExcerptTest, LongPromptKeepsStartEvidenceAndEnd) {
  for (size_t size : {kExcerptBytesMax + 1, size_t{10'000}, size_t{200'000}}) {
    for (double depth : {0.0, 0.03, 0.5, 0.97, 1.0}) {
      std::string prompt = "INSTRUCTION" + Filler(size) + "QUESTION";
      const std::string gold = "<<the gold evidence>>";
      const auto at = static_cast<int64_t>(depth * size);
      prompt.insert(at, gold);
      const std::string excerpt = MakeExcerpt(prompt, {{at, at + std::ssize(gold), 0, 0}});
      EXPECT_LE(excerpt.size(), kExcerptBytesMax) << size << " " << depth;
      EXPECT_TRUE(absl::StrContains(excerpt, gold)) << size << " " << depth;
      EXPECT_TRUE(depth == 0 || absl::StartsWith(excerpt, "INSTRUCTION"));
      EXPECT_TRUE(absl::EndsWith(excerpt, "QUESTION"));
      EXPECT_TRUE(size <= 10'000 || absl::StrContains(excerpt, " bytes ...]"));
    }
  }
}

TEST(ExcerptTest, ManySpansStayWithinTheBound) {
  const std::string prompt = Filler(100'000);
  for (int count : {1, 2, 8, 9, 500}) {
    std::vector<PromptSpan> spans;
    for (int i = 0; i < count; ++i) spans.push_back({i * 200, i * 200 + 150, 0, 0});
    EXPECT_LE(MakeExcerpt(prompt, spans).size(), kExcerptBytesMax) << count;
  }
}

TEST(ExcerptTest, CharactersStayWhole) {
  std::string prompt = "a";  // every later character starts at an odd byte, so even cuts fall inside one
  while (prompt.size() < 50'000) prompt += "\xC3\xA9";
  for (int64_t at = 20'000; at < 20'004; ++at) {
    const std::string excerpt = MakeExcerpt(prompt, {{at, at + 10, 0, 0}});
    EXPECT_TRUE(IsWholeUtf8(excerpt)) << at;
    EXPECT_LE(excerpt.size(), kExcerptBytesMax);
  }
}

}  // namespace
}  // namespace varifocal
