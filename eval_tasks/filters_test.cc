// Filters against Python's `re` (tests/testdata/goldens/filters.json, recipes/goldens/make_filters.py), chains against results
// that a person can check, and bad ones against the sentence and the key that they name.
#include "eval_tasks/filters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "base/files.h"
#include "base/json.h"
#include "base/reason.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

AnswerFilters Chain(std::vector<FilterSpec> specs) {
  for (FilterSpec& spec : specs) spec = ValidateFilter(std::move(spec)).value();
  return AnswerFilters(specs);
}

std::optional<std::string> Extract(std::vector<FilterSpec> specs, absl::string_view text) {
  return Chain(std::move(specs)).Apply(text);
}

TEST(FiltersTest, PatternsMatchAsInPython) {
  const Json rows = *ParseJson(*ReadFile("tests/testdata/goldens/filters.json", kDataFile));
  ASSERT_GT(rows.size(), 300u);
  int found_count = 0;
  for (const Json& row : rows) {
    const auto found = row["found"].get<std::vector<std::string>>();
    FilterSpec spec{.filter = "regex", .pattern = row["pattern"].get<std::string>(), .group = row["group"].get<int>()};
    const std::string text = row["text"].get<std::string>();
    found_count += !found.empty();
    // White space at the ends of what is left is removed, and nothing else is nothing.
    const auto expected = [](const std::string& match) {
      const std::string stripped(absl::StripAsciiWhitespace(match));
      return stripped.empty() ? std::nullopt : std::optional(stripped);
    };
    for (const auto& [match, wanted] :
         {std::pair<const char*, std::string>("first", found.empty() ? "" : found.front()),
          {"last", found.empty() ? "" : found.back()},
          {"all", absl::StrJoin(found, ", ")}}) {
      spec.match = match;
      EXPECT_EQ(Extract({spec}, text), expected(wanted)) << row << " " << match;
    }
  }
  EXPECT_GT(found_count, 200);
}

TEST(FiltersTest, EveryRowOfTheTable) {
  const std::string text = "I think it is a hat.\n\nBut: **The HAT #2**\n";
  const struct {
    FilterSpec spec;
    std::optional<std::string> left;
  } cases[] = {
      {{.filter = "regex", .pattern = "#(\\d)"}, "2"},
      {{.filter = "regex", .pattern = "#(\\d)", .group = 0}, "#2"},
      {{.filter = "regex", .pattern = "(?i)hat", .match = "all"}, "hat, HAT"},
      {{.filter = "regex", .pattern = "^I"}, "I"},
      {{.filter = "regex", .pattern = "boot"}, std::nullopt},
      {{.filter = "after", .text = ":"}, "**The HAT #2**"},
      {{.filter = "after", .match = "first", .text = "it"}, "is a hat.\n\nBut: **The HAT #2**"},
      {{.filter = "after", .text = "#2**"}, std::nullopt},
      {{.filter = "before", .text = " is"}, "I think it"},
      {{.filter = "before", .match = "last", .text = "*"}, "I think it is a hat.\n\nBut: **The HAT #2*"},
      {{.filter = "before", .text = "boot"}, std::nullopt},
      {{.filter = "first_line"}, "I think it is a hat."},
      {{.filter = "last_line"}, "But: **The HAT #2**"},
      {{.filter = "lower_case"}, "i think it is a hat.\n\nbut: **the hat #2**"},
      {{.filter = "strip", .text = "*I"}, "think it is a hat.\n\nBut: **The HAT #2"},
      {{.filter = "strip"}, "I think it is a hat.\n\nBut: **The HAT #2**"},
  };
  std::set<std::string> seen;
  for (const auto& c : cases) {
    EXPECT_EQ(Extract({c.spec}, text), c.left) << FiltersText({c.spec});
    seen.insert(c.spec.filter);
  }
  EXPECT_THAT(FilterNames(), testing::UnorderedElementsAreArray(seen));
}

TEST(FiltersTest, AChainPassesOnWhatIsLeftAndEndsWhereNothingIs) {
  const std::vector<FilterSpec> chain = {
      {.filter = "after", .text = "Answer:"}, {.filter = "first_line"}, {.filter = "strip", .text = "*."}};
  EXPECT_EQ(Extract(chain, "Answer: no.\nAnswer: **yes.**\nBye"), "yes");
  EXPECT_EQ(Extract(chain, "no answer"), std::nullopt);
  EXPECT_EQ(Extract(chain, "Answer: **\nyes"), std::nullopt) << "nothing is left to be stripped";
  EXPECT_EQ(Extract(chain, " \n "), std::nullopt);
  EXPECT_EQ(AnswerFilters().Apply(" yes "), "yes");
  EXPECT_EQ(FiltersText({ValidateFilter({.filter = "regex", .pattern = "a(b)", .match = "all"}).value(), chain[0]}),
            "regex a(b), group 1, all matches; after \"Answer:\"");
}

TEST(FiltersTest, TheAnswerLineOfAChatForm) {
  const struct {
    const char* reply;
    std::optional<std::string> answer;
  } cases[] = {
      {"Ravi went to the mill, then to the kitchen.\nAnswer: kitchen", "kitchen"},
      {"Answer: kitchen", "kitchen"},
      {"**Answer: kitchen**", "kitchen"},
      {"**Answer:** The kitchen.\n", "The kitchen."},
      {"### answer : *12*  \r\n", "12"},
      {"Answer: mill? No.\n\n> Answer: kitchen", "kitchen"},
      {"Answer: kitchen\nI hope that this helps.", "kitchen"},
      {"Answer: 12, 14, 16", "12, 14, 16"},
      {"The answer: kitchen", std::nullopt},
      {"It is the kitchen.", std::nullopt},
      {"Answer:\nkitchen", std::nullopt},
      {"Answer: ** **", std::nullopt},
      {"", std::nullopt},
  };
  for (const auto& c : cases) EXPECT_EQ(Extract({AnswerLineFilter()}, c.reply), c.answer) << c.reply;
  EXPECT_EQ(*ValidateFilter(AnswerLineFilter()), AnswerLineFilter()) << "it is complete";
}

TEST(FiltersTest, BadFiltersNameTheirKey) {
  const struct {
    FilterSpec spec;
    const char* key;
    std::vector<std::string> values;
  } cases[] = {
      {{}, "filter", {}},
      {{.filter = "regx"}, "filter", {"\"regx\"", "\"regex\""}},
      {{.filter = "regex"}, "pattern", {"\"regex\""}},
      {{.filter = "regex", .pattern = "(a"}, "pattern", {"(a", "missing )"}},
      {{.filter = "regex", .pattern = "a(?=b)"}, "pattern", {"a(?=b)"}},
      {{.filter = "regex", .pattern = R"((a)\1)"}, "pattern", {R"((a)\1)"}},
      {{.filter = "regex", .pattern = "((a{100}){100}){100}"}, "pattern", {}},
      {{.filter = "regex", .pattern = std::string(1025, 'a')}, "pattern", {"1025", "1024"}},
      {{.filter = "regex", .pattern = "(a)", .group = 2}, "group", {"2", "1"}},
      {{.filter = "regex", .pattern = "(a)", .group = -1}, "group", {"-1", "1"}},
      {{.filter = "regex", .pattern = "a", .match = "third"}, "match", {"\"third\"", "first", "all"}},
      {{.filter = "after", .match = "all", .text = ":"}, "match", {"\"all\"", "last"}},
      {{.filter = "after"}, "text", {"\"after\""}},
      {{.filter = "last_line", .text = "a"}, "text", {"\"last_line\""}},
      {{.filter = "strip", .match = "last"}, "match", {"\"strip\""}},
      {{.filter = "strip", .group = 0}, "group", {"\"strip\""}},
      {{.filter = "first_line", .pattern = "a"}, "pattern", {"\"first_line\""}},
  };
  for (const auto& c : cases) {
    const absl::Status status = ValidateFilter(c.spec).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(FieldOf(status), c.key);
    EXPECT_THAT(status.message(), MessageMatcher(c.values));
  }
}

// A backtracking engine takes 2^100,000 steps, or as many frames of the stack.
TEST(FiltersTest, NoPatternTakesForever) {
  const std::string text = std::string(100'000, 'a') + "!";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(Extract({{.filter = "regex", .pattern = "(?:a+)+$"}}, text), std::nullopt);
  EXPECT_EQ(Extract({{.filter = "regex", .pattern = "(a|aa)+b"}}, text), std::nullopt);
  EXPECT_EQ(Extract({{.filter = "regex", .pattern = "a", .match = "last"}}, text), "a");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// What is no UTF-8, or ends inside a character, is text that patterns may not match, and no reason to stop.
TEST(FiltersTest, BytesThatAreNoUtf8) {
  EXPECT_EQ(Extract({{.filter = "regex", .pattern = "\\w+", .match = "all"}},
                    "\xff"
                    "a \xe6\x97 b"),
            "a, b");
  EXPECT_EQ(Extract({{.filter = "strip", .text = "x"}}, "x\xff x"), "\xff");
}

}  // namespace
}  // namespace varifocal
