// Output: one table in four formats, against literals; numbers read back bit for bit; progress with a manual clock.
#include "client/rows.h"

#include <limits>
#include <sstream>

#include "base/clock.h"
#include "client/progress.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/messages.h"

namespace varifocal::client {
namespace {

using testing::HasSubstr;

std::string Print(Format format) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  console.format = format;
  Rows rows(
      console,
      {{.key = "name", .title = "name"}, {.key = "count", .title = "count", .right_aligned = true}, {.key = "x"}});
  EXPECT_TRUE(rows.Add({{"name", "a"}, {"count", 7}, {"x", 0.1}}).ok());
  EXPECT_TRUE(rows.Add({{"name", "b \"c\", é"}, {"count", 1234}, {"x", nullptr}}).ok());
  EXPECT_TRUE(rows.Finish().ok());
  EXPECT_EQ(err.str(), "");
  return out.str();
}

TEST(RowsTest, FourFormats) {
  EXPECT_EQ(Print(Format::kText), "name      count\na             7\nb \"c\", é   1234\n");
  EXPECT_EQ(Print(Format::kJsonLines),
            "{\"count\":7,\"name\":\"a\",\"x\":0.1}\n{\"count\":1234,\"name\":\"b \\\"c\\\", é\",\"x\":null}\n");
  EXPECT_EQ(Print(Format::kJson),
            "[{\"count\":7,\"name\":\"a\",\"x\":0.1},\n {\"count\":1234,\"name\":\"b \\\"c\\\", é\",\"x\":null}]\n");
  EXPECT_EQ(Print(Format::kCsv), "name,count,x\na,7,0.1\n\"b \"\"c\"\", é\",1234,\n");
}

// On a terminal of 30 columns the widest columns are wrapped at spaces; a word is never split, and a pipe is not wrapped.
TEST(RowsTest, TablesFitATerminal) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const std::vector<std::vector<std::string>> rows = {{"quick", "recall_kv, icl_labels", "1,024"},
                                                      {"standard", "rag", "8,192"}};
  const auto table = [&] { return AlignedTable(console, {"suite", "tasks", "length"}, {false, false, true}, rows); };
  EXPECT_EQ(table(),
            "suite     tasks                  length\n"
            "quick     recall_kv, icl_labels   1,024\n"
            "standard  rag                     8,192\n");
  console.out_is_terminal = true;
  console.width = 30;
  EXPECT_EQ(table(),
            "suite     tasks         length\n"
            "quick     recall_kv,     1,024\n"
            "          icl_labels\n"
            "standard  rag            8,192\n");
  console.width = 5;
  EXPECT_EQ(table(),
            "suite     tasks       length\n"
            "quick     recall_kv,   1,024\n"
            "          icl_labels\n"
            "standard  rag          8,192\n");
}

TEST(RowsTest, NoRows) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  for (const Format format : {Format::kText, Format::kJson, Format::kCsv, Format::kJsonLines}) {
    console.format = format;
    Rows rows(console, {{.key = "a", .title = "a"}});
    ASSERT_TRUE(rows.Finish("Nothing.").ok());
  }
  EXPECT_EQ(out.str(), "Nothing.\n[]\na\n");
}

TEST(RowsTest, DoublesRoundTripAndInfinityIsAnError) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  const double values[] = {0.1 + 0.2, 1.0 / 3, -5e-324, 1.7976931348623157e308, -12.3456789012345678};
  for (double value : values) {
    out.str("");
    ASSERT_TRUE(PrintJson(console, {{"x", value}}).ok());
    EXPECT_EQ(ParseJson(out.str())->at("x").get<double>(), value);
  }
  EXPECT_FALSE(PrintJson(console, {{"x", std::numeric_limits<double>::infinity()}}).ok());
  EXPECT_FALSE(PrintJson(console, {{"x", std::numeric_limits<double>::quiet_NaN()}}).ok());
}

TEST(RowsTest, WordsForPeople) {
  EXPECT_EQ(WithThousands(0), "0");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(WithThousands(1000), "1,000");
  EXPECT_EQ(WithThousands(-1234567), "-1,234,567");
  EXPECT_EQ(NumberText(1048576), "1048576");
  EXPECT_EQ(NumberText(0.5), "0.5");
  EXPECT_EQ(HumanBytes(1023), "1023 B");
  EXPECT_EQ(HumanBytes(1536), "1.5 KiB");
  EXPECT_EQ(HumanBytes(int64_t{3} << 30), "3.0 GiB");
  EXPECT_EQ(HumanDuration(9.94), "9.9 s");
  EXPECT_EQ(HumanDuration(59.4), "59 s");
  EXPECT_EQ(HumanDuration(125), "2 min 5 s");
  EXPECT_EQ(HumanDuration(3720), "1 h 2 min");
  EXPECT_EQ(HumanDuration(-1), "unknown");
}

TEST(StyleTest, ColourOnlyWhereAskedFor) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  EXPECT_EQ(Styled(console, Style::kBold, "x"), "x");
  console.color = true;
  EXPECT_EQ(Styled(console, Style::kBold, "x"), "\x1b[1mx\x1b[0m");
}

TEST(ProgressTest, SilentForTwoSecondsThenPlainLinesInAPipe) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  FakeClock clock;
  Progress progress(console, "jobs/1", clock);
  progress.Update({.done_count = 0, .total_count = 100});
  clock.Advance(1'900'000);
  progress.Update({.done_count = 10, .total_count = 100});
  EXPECT_EQ(err.str(), "");
  clock.Advance(100'000);  // two seconds: 20 of 100 done, eight to go
  progress.Update({.done_count = 20, .total_count = 100, .tokens_per_second = 1234.4});
  EXPECT_EQ(err.str(), "jobs/1 20/100 (20%)  1,234 tokens/s  ETA 8.0 s\n");
  clock.Advance(5'000'000);
  progress.Update({.done_count = 40, .total_count = 100});
  EXPECT_EQ(err.str(), "jobs/1 20/100 (20%)  1,234 tokens/s  ETA 8.0 s\n") << "one line every ten seconds";
  progress.Update({.done_count = 100, .total_count = 100});
  progress.Finish();
  EXPECT_THAT(err.str(), Message("jobs/1", "100/100", "100"));
  EXPECT_EQ(err.str().find('\r'), std::string::npos);
  EXPECT_EQ(err.str().find('\x1b'), std::string::npos);
  EXPECT_EQ(out.str(), "");
}

TEST(ProgressTest, ABarOnATerminalThatIsTakenAway) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err, .err_is_terminal = true};
  FakeClock clock;
  Progress progress(console, "x", clock);
  clock.Advance(3'000'000);
  progress.Update({.done_count = 1, .total_count = 2, .remaining_seconds = 3});
  EXPECT_EQ(err.str(), "\r\x1b[Kx [############............] 1/2 (50%)  ETA 3.0 s");
  progress.Clear();
  EXPECT_THAT(err.str(), testing::EndsWith("\r\x1b[K"));
}

TEST(ProgressTest, WhatEndsAtOnceShowsNothing) {
  std::ostringstream out, err;
  Console console{.out = out, .err = err};
  FakeClock clock;
  Progress progress(console, "x", clock);
  progress.Update({.done_count = 2, .total_count = 2});
  progress.Finish();
  EXPECT_EQ(err.str(), "");
}

TEST(ShortListTest, KeepsTheFirstAndCountsTheRest) {
  EXPECT_EQ(ShortList({}, 2), "");
  EXPECT_EQ(ShortList({"a", "b", "c"}, 2), "a, b, c");
  EXPECT_EQ(ShortList({"a", "b", "c", "d"}, 2), "a, b and 2 more");
}

}  // namespace
}  // namespace varifocal::client
