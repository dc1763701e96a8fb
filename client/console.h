// Input and output of a verb: streams, their properties, and the requested output format.
//
// Results go to `out`, everything else (progress, notes, errors) to `err`, so that a pipe carries data only. What goes to a
// terminal is escaped (base/terminal_text.h), except for the codes of Styled: names, answers and errors may come from anyone. Tests
// use string streams.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace varifocal::client {

enum class Format { kText, kJson, kJsonLines, kCsv };

struct Console {
  std::ostream& out;
  std::ostream& err;
  bool out_is_terminal = false;
  bool err_is_terminal = false;
  bool color = false;  // out is a terminal, NO_COLOR is unset or empty and TERM is not "dumb"
  int width = 100;     // columns of the terminal
  Format format = Format::kText;
  std::ostream* controls = nullptr;  // of `err`, for codes of a terminal; null: `err` itself
};

// A stream buffer that escapes what it passes on to `target`.
std::unique_ptr<std::streambuf> MakeTerminalBuffer(std::streambuf* target);

// The streams of the process.
Console StandardConsole();

enum class Style { kBold, kDim };

// `text` between the terminal's codes for `style`, or unchanged where the console has no colour.
std::string Styled(const Console& console, Style style, absl::string_view text);

// 1234567 -> "1,234,567".
std::string WithThousands(int64_t value);
// 1048576 -> "1048576", 0.5 -> "0.5": limits in messages.
std::string NumberText(double value);
// A p value of a table: "0.0421", "<0.0001"; never zero.
std::string PText(double p);
// 12 -> "12 B", 1536 -> "1.5 KiB", ...
std::string HumanBytes(int64_t bytes);
// 59 -> "59 s", 125 -> "2 min 5 s", 3700 -> "1 h 2 min".
std::string HumanDuration(double seconds);

}  // namespace varifocal::client
