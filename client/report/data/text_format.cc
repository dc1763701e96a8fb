#include "client/report/data/text_format.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace varifocal::report {
namespace {

constexpr char kMinus[] = "\u2212";

// Digits of |value|, and whether it rounds to zero (no "-0.0").
std::string Magnitude(double value, int decimals, bool* is_zero) {
  std::string digits = absl::StrFormat("%.*f", decimals, ForRounding(std::abs(value)));
  *is_zero = digits.find_first_not_of("0.") == std::string::npos;
  return digits;
}

}  // namespace

std::string EscapeHtml(absl::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') || c == 0x7F) {
          out += "\uFFFD";
        } else {
          out += c;
        }
    }
  }
  return out;
}

std::string EscapeLatex(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\textbackslash{}"},
                                    {"{", "\\{"},
                                    {"}", "\\}"},
                                    {"$", "\\$"},
                                    {"&", "\\&"},
                                    {"#", "\\#"},
                                    {"%", "\\%"},
                                    {"_", "\\_"},
                                    {"^", "\\textasciicircum{}"},
                                    {"~", "\\textasciitilde{}"},
                                    {kMinus, "$-$"},
                                    {"\n", " "}});
}

std::string EscapeMarkdownCell(absl::string_view text) {
  return absl::StrReplaceAll(
      text, {{"\\", "\\\\"}, {"|", "\\|"}, {"\n", " "}, {"\r", " "}, {"<", "&lt;"}, {"`", "\\`"}, {"*", "\\*"}});
}

std::string CsvField(absl::string_view text) {
  if (text.find_first_of(",\"\r\n") == absl::string_view::npos) return std::string(text);
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

double ForRounding(double value) {
  constexpr double kSumError = 1e-11;  // relative; of sums of up to some thousand terms
  return value * (1 + kSumError);
}

std::string LengthLabel(int64_t tokens) {
  if (tokens >= 1024 && tokens % 1024 == 0) return absl::StrCat(tokens / 1024, "K");
  return CountLabel(tokens);
}

std::string TokensLabel(int64_t low, int64_t high) {
  return absl::StrCat(low == high ? "" : absl::StrCat(CountLabel(low), " to "), CountLabel(high), " prompt token",
                      high == 1 ? "" : "s");
}

std::string ConfidenceLabel(double confidence) { return absl::StrCat(std::lround(confidence * 100), " %"); }

std::string CountLabel(int64_t count) {
  std::string digits = absl::StrCat(count < 0 ? -count : count);
  for (int at = digits.size() - 3; at > 0; at -= 3) digits.insert(at, 1, ',');
  return absl::StrCat(count < 0 ? kMinus : "", digits);
}

std::string Signed(double value, int decimals) {
  bool is_zero = false;
  std::string digits = Magnitude(value, decimals, &is_zero);
  return is_zero ? digits : absl::StrCat(value < 0 ? kMinus : "+", digits);
}

std::string Unsigned(double value, int decimals) {
  bool is_zero = false;
  std::string digits = Magnitude(value, decimals, &is_zero);
  return is_zero || value > 0 ? digits : absl::StrCat(kMinus, digits);
}

std::string PValue(double p) {
  if (p < 0.001) return "< 0.001";
  return absl::StrFormat("%.*f", p < 0.1 ? 3 : 2, p);
}

// With no-break spaces, so that it is never broken across lines.
std::string PEquals(double p) {
  const std::string text = absl::StrCat("p ", p < 0.001 ? "" : "= ", PValue(p));
  return absl::StrReplaceAll(text, {{" ", "\u00A0"}});
}

std::string TimeLabel(int64_t time_us) {
  return absl::FormatTime("%Y-%m-%d %H:%M UTC", absl::FromUnixMicros(time_us), absl::UTCTimeZone());
}

std::string ShortHash(absl::string_view hex) { return std::string(hex.substr(0, 12)); }

std::string JoinWithAnd(const std::vector<std::string>& parts) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out += i + 1 == parts.size() ? " and " : ", ";
    out += parts[i];
  }
  return out;
}

std::string ShortList(std::vector<std::string> parts, size_t count_max) {
  if (parts.size() > count_max) {
    const size_t left = parts.size() - count_max + 1;
    parts.resize(count_max - 1);
    parts.push_back(absl::StrCat(left, " more"));
  }
  return JoinWithAnd(parts);
}

std::string ShellWord(const std::string& word) {
  const bool plain = !word.empty() && word.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-./=:@,+") == std::string::npos;
  if (plain) return word;
  return ShellQuoted(word);
}

std::string ShellQuoted(absl::string_view word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string Shorten(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t end = bytes_max;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "\u2026");
}

std::string ShortenFront(absl::string_view text, size_t bytes_max) {
  if (text.size() <= bytes_max) return std::string(text);
  size_t begin = text.size() - bytes_max;
  while (begin < text.size() && (text[begin] & 0xC0) == 0x80) ++begin;
  return absl::StrCat("\u2026", text.substr(begin));
}

std::string Capitalized(std::string text) {
  if (!text.empty()) text[0] = absl::ascii_toupper(text[0]);
  return text;
}

std::string QuantityLabel(double value) {
  constexpr std::pair<double, const char*> kUnits[] = {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "K"}};
  for (const auto& [unit, letter] : kUnits) {
    // 999.6 would be shown as 1,000.
    if (value >= 0.9995 * unit) return absl::StrCat(absl::StrFormat("%.3g", value / unit), letter);
  }
  return absl::StrFormat("%.3g", value);
}

}  // namespace varifocal::report
