// The matcher of golden messages: against goldens that this file's own tests have in tests/testdata/goldens/messages.txt.
#include "tests/support/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/process.h"

namespace varifocal {
namespace {

TEST(MessagesTest, TextsAndValuesInTheirOrder) {
  EXPECT_THAT("top_p is 2; it must be from 0 to 1.", Message("top_p", 2, 0, 1));
  EXPECT_THAT(std::string("two\nlines"), Message());
  EXPECT_THAT("/tmp/x7/a: 3 bytes, not 4.", Message(3, 4).Varying("/tmp/x7"));
}

TEST(MessagesTest, AMissingValueFails) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("top_p is wrong.", Message("2")), "lacks \"2\"");
}

// The first block with all of the values: of a page by its elements, of other texts by lines.
TEST(MessagesTest, ASentenceInAPageOrAnOutput) {
  const std::string page =
      "<!doctype html><html><head><title>Job 7</title><style>p { margin: 8px; }</style></head><body>"
      "<h1>sharp</h1><ul><li><b>fragile</b> p &lt; 0.05 of 8\u00A0tests<br>by Holm</li><li>8 tests</li></ul></body></html>";
  EXPECT_THAT(page, MessageIn("8 tests"));
  EXPECT_THAT(page, MessageIn(7));
  EXPECT_THAT("samples  6\nseconds  0.25\n", MessageIn("seconds").Varying(0.25));
  EXPECT_EQ(BlocksOf(page),
            (std::vector<std::string>{"Job 7", "sharp", "fragile p < 0.05 of 8 tests by Holm", "8 tests"}));
  EXPECT_EQ(BlocksOf("p < 0.05\n\n | a |  b |\n"), (std::vector<std::string>{"p < 0.05", "| a | b |"}));
  EXPECT_EQ(BlocksOf("<p>an open <tag </p"), (std::vector<std::string>{"an open"}));
}

TEST(MessagesTest, ValuesOfDifferentBlocksFail) {
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("8 tests\nHolm\n", MessageIn(8, "Holm")), "no block with 8, Holm");
}

TEST(MessagesTest, OtherWordsFail) {
  if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) GTEST_SKIP() << "would rewrite what it must refuse";
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("reworded", Message()), "the golden message is \"as written\"");
  EXPECT_THAT("the second", Message());
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("1 line\n2 lines", MessageIn(2)), "the golden message is \"2 rows\"");
  EXPECT_NONFATAL_FAILURE(EXPECT_THAT("a fourth", Message()), "which is a new message");
}

// Run by the next test in a process of its own, where it must fail.
TEST(DISABLED_MessagesTest, MatchesOneOfTwo) { EXPECT_THAT("the first", Message()); }

TEST(MessagesTest, AMessageThatIsNoLongerMatchedFails) {
  if (std::getenv("VARIFOCAL_UPDATE_GOLDENS") != nullptr) GTEST_SKIP() << "would rewrite what it must refuse";
  const testing_support::ProcessResult ran = testing_support::RunProcess(
      "messages_test", {"--gtest_also_run_disabled_tests", "--gtest_filter=*MatchesOneOfTwo"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.out, testing::HasSubstr("more messages"));
}

// "Suite.Test" of every test of the repository, without parameters.
std::set<std::string> AllTests() {
  const std::regex declaration(R"(TEST(?:_F|_P)?\((\w+),\s*(\w+)\))");
  std::set<std::string> tests;
  for (const char* room : {"base", "client", "db", "eval_tasks", "kernels", "server", "tests", "tokenizer", "wire"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(room)) {
      if (!absl::EndsWith(entry.path().string(), "_test.cc")) continue;
      const std::string text = testing_support::ReadFile(entry.path().string());
      for (std::sregex_iterator test(text.begin(), text.end(), declaration), end; test != end; ++test) {
        tests.insert(absl::StrCat((*test)[1].str(), ".", (*test)[2].str()));
      }
    }
  }
  return tests;
}

// "program: Prefix/Suite.Test/parameter" of the file without prefix and parameter.
TEST(MessagesTest, EveryGoldenBelongsToATest) {
  const std::set<std::string> tests = AllTests();
  ASSERT_GT(tests.size(), 1000u);
  const std::regex key(R"(\w+: (?:\w+/)*(\w+)\.(\w+)(?:/.*)?)");
  int64_t count = 0;
  const std::vector<std::string> lines =
      absl::StrSplit(testing_support::ReadFile("tests/testdata/goldens/messages.txt"), '\n');
  for (const std::string& line : lines) {
    std::smatch match;
    if (line.empty() || line[0] == ' ' || line[0] == '-' || !std::regex_match(line, match, key)) continue;
    EXPECT_TRUE(tests.contains(absl::StrCat(match[1].str(), ".", match[2].str()))) << line;
    ++count;
  }
  EXPECT_GT(count, 100);
}

}  // namespace
}  // namespace varifocal
