#include "client/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <iterator>
#include <streambuf>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/terminal_text.h"

namespace varifocal::client {

namespace {

// The codes of Styled, which text that is printed may have too.
constexpr absl::string_view kStyles[] = {"\x1b[0m", "\x1b[1m", "\x1b[2m"};

class TerminalBuffer final : public std::streambuf {
 public:
  explicit TerminalBuffer(std::streambuf* target) : target_(target) {}

 protected:
  int_type overflow(int_type character) override {
    if (traits_type::eq_int_type(character, traits_type::eof())) return traits_type::not_eof(character);
    const char byte = traits_type::to_char_type(character);
    return xsputn(&byte, 1) == 1 ? character : traits_type::eof();
  }
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    pending_.append(bytes, count);
    Pass(/*is_end=*/false);
    return count;
  }
  int sync() override {
    Pass(/*is_end=*/true);
    return target_->pubsync();
  }

 private:
  void Put(absl::string_view text) { target_->sputn(text.data(), static_cast<std::streamsize>(text.size())); }
  void Pass(bool is_end) {
    absl::string_view text = pending_;
    std::string rest;
    while (!text.empty()) {
      const size_t escape = text.find('\x1b');
      Put(TerminalText(text.substr(0, escape), is_end || escape != text.npos ? nullptr : &rest));
      if (escape == text.npos) break;
      text.remove_prefix(escape);
      if (!is_end && IsStartOfStyle(text)) {
        rest = std::string(text);
        break;
      }
      const bool is_style = std::find(std::begin(kStyles), std::end(kStyles), text.substr(0, 4)) != std::end(kStyles);
      const size_t size = is_style ? 4 : 1;
      Put(is_style ? std::string(text.substr(0, size)) : TerminalText(text.substr(0, size)));
      text.remove_prefix(size);
    }
    pending_ = std::move(rest);
  }
  static bool IsStartOfStyle(absl::string_view text) {
    return text.size() < 4 && std::any_of(std::begin(kStyles), std::end(kStyles),
                                          [&](absl::string_view style) { return absl::StartsWith(style, text); });
  }

  std::streambuf* const target_;
  std::string pending_;
};

}  // namespace

std::unique_ptr<std::streambuf> MakeTerminalBuffer(std::streambuf* target) {
  return std::make_unique<TerminalBuffer>(target);
}

Console StandardConsole() {
  // Of the process, as std::cout is.
  static const std::unique_ptr<std::streambuf> out_buffer = MakeTerminalBuffer(std::cout.rdbuf());
  static const std::unique_ptr<std::streambuf> err_buffer = MakeTerminalBuffer(std::cerr.rdbuf());
  static std::ostream safe_out(out_buffer.get()), safe_err(err_buffer.get());
  safe_err << std::unitbuf;
  const bool out_is_terminal = isatty(STDOUT_FILENO) != 0, err_is_terminal = isatty(STDERR_FILENO) != 0;
  Console console{.out = out_is_terminal ? safe_out : std::cout, .err = err_is_terminal ? safe_err : std::cerr};
  console.out_is_terminal = out_is_terminal;
  console.err_is_terminal = err_is_terminal;
  console.controls = &std::cerr;
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
