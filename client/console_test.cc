// What verbs print to a terminal: everything but the codes of Styled is escaped, also where it comes in pieces. Method: a buffer in
// front of a string.
#include "client/console.h"

#include <gtest/gtest.h>

#include <iostream>
#include <ostream>
#include <streambuf>

namespace varifocal::client {
namespace {

std::string Printed(const std::string& text, size_t part) {
  std::stringbuf target;
  const std::unique_ptr<std::streambuf> buffer = MakeTerminalBuffer(&target);
  std::ostream out(buffer.get());
  for (size_t at = 0; at < text.size(); at += part) out << text.substr(at, part);
  out << std::flush;
  return target.str();
}

TEST(TerminalBufferTest, EscapesAllButStyles) {
  Console console{.out = std::cout, .err = std::cerr};
  console.color = true;
  const std::string bold = Styled(console, Style::kBold, "name"), dim = Styled(console, Style::kDim, "note");
  const struct {
    std::string text, printed;
  } kRows[] = {
      {bold + " Grüße\n" + dim, bold + " Grüße\n" + dim},
      {"\x1b]0;title\x07 \x1b[2J\x1b[1;1H\x1b[31m", "\\u001b]0;title\\u0007 \\u001b[2J\\u001b[1;1H\\u001b[31m"},
      {"\x1b[1", "\\u001b[1"},
      {"\r\x1b[K", "\\u000d\\u001b[K"},
      {"\x1b\x1b[0m", "\\u001b\x1b[0m"},
      {"\xe2\x80", "\\xe2\\x80"},
  };
  for (const auto& row : kRows) {
    for (size_t part = 1; part <= row.text.size(); ++part) EXPECT_EQ(Printed(row.text, part), row.printed) << part;
  }
}

}  // namespace
}  // namespace varifocal::client
