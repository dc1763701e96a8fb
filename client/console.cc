#include "client/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace varifocal::client {

Console StandardConsole() {
  Console console{.out = std::cout, .err = std::cerr};
  console.out_is_terminal = isatty(STDOUT_FILENO) != 0;
  console.err_is_terminal = isatty(STDERR_FILENO) != 0;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  console.color = console.out_is_terminal && (no_color == nullptr || *no_color == '\0') &&
                  (term == nullptr || std::strcmp(term, "dumb") != 0);
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20) console.width = size.ws_col;
  return console;
}

std::string Styled(const Console& console, Style style, absl::string_view text) {
  if (!console.color) return std::string(text);
  const char* code = style == Style::kBold ? "1" : "2";
  return absl::StrCat("\x1b[", code, "m", text, "\x1b[0m");
}

std::string WithThousands(int64_t value) {
  const std::string digits = absl::StrCat(value);
  const size_t sign_count = value < 0 ? 1 : 0;
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > sign_count && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string NumberText(double value) {
  constexpr double kWholeMax = 1e15;  // below it every whole number is a double
  if (std::abs(value) < kWholeMax && value == std::floor(value)) return absl::StrCat(static_cast<int64_t>(value));
  return absl::StrCat(value);
}

std::string PText(double p) { return p < 0.0001 ? "<0.0001" : absl::StrFormat("%.4f", p); }

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = bytes;
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return absl::StrCat(bytes, " B");
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanDuration(double seconds) {
  if (!(seconds >= 0) || !std::isfinite(seconds)) return "unknown";
  if (seconds < 10) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return absl::StrCat(whole, " s");
  if (whole < 3600) return absl::StrCat(whole / 60, " min ", whole % 60, " s");
  return absl::StrCat(whole / 3600, " h ", whole % 3600 / 60, " min");
}

}  // namespace varifocal::client
