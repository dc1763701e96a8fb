// What may not reach a terminal as it is. Method: a table of texts and what is printed; and texts that arrive in two parts.
#include "base/terminal_text.h"

#include <gtest/gtest.h>

namespace varifocal {
namespace {

TEST(TerminalTextTest, ControlCharactersAreEscapedAndNothingElse) {
  const struct {
    std::string text, printed;
  } kRows[] = {
      {"plain, with\ttabs\nand lines", "plain, with\ttabs\nand lines"},
      {"Grüße, 你好, 🙂", "Grüße, 你好, 🙂"},
      {"\x1b]0;title\x07", "\\u001b]0;title\\u0007"},
      {"\x1b[2J\x1b[31m", "\\u001b[2J\\u001b[31m"},
      {"over\rwritten\b\b\v\f", "over\\u000dwritten\\u0008\\u0008\\u000b\\u000c"},
      {std::string("nul\0", 4), "nul\\u0000"},
      {"\x7f", "\\u007f"},
      {"\xc2\x9b[31m", "\\u009b[31m"},
      {"\x9b[31m", "\\x9b[31m"},
      {"a\xe2\x80\xae"
       "b\xe2\x81\xa6",
       "a\\u202eb\\u2066"},
      {"cut \xe2\x80", "cut \\xe2\\x80"},
      {"\xc0\x9b \xf5\x80\x80\x80", "\\xc0\\x9b \\xf5\\x80\\x80\\x80"},
  };
  for (const auto& row : kRows) {
    EXPECT_EQ(TerminalText(row.text), row.printed);
    for (size_t cut = 0; cut <= row.text.size(); ++cut) {
      std::string rest;
      const std::string first = TerminalText(row.text.substr(0, cut), &rest);
      EXPECT_EQ(first + TerminalText(rest + row.text.substr(cut)), row.printed) << cut;
    }
  }
}

}  // namespace
}  // namespace varifocal
