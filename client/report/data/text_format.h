// Formats numbers and names, and escapes text for HTML, Markdown, LaTeX and CSV.
//
// Everything here is a pure function of its arguments: no locale, so that the same database gives the same bytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::report {

// & < > " ' become entities, other control characters than tab and newline U+FFFD: inert in text and in attributes.
std::string EscapeHtml(absl::string_view text);
std::string EscapeLatex(absl::string_view text);
std::string EscapeMarkdownCell(absl::string_view text);  // one line, no cell border
std::string CsvField(absl::string_view text);            // quoted when it must be (RFC 4180)

// In the place of a value that does not exist.
inline constexpr char kNoValue[] = "\u2014";
inline constexpr char kNoValueLatex[] = "---";

// To be rounded for people: 83.75 gives 83.8 however the sum that gave it was ordered.
double ForRounding(double value);

std::string LengthLabel(int64_t tokens);             // "8K", "1,000"
std::string TokensLabel(int64_t low, int64_t high);  // "7 to 8 prompt tokens"
std::string CountLabel(int64_t count);               // "12,345"
std::string ConfidenceLabel(double confidence);      // "95 %"
std::string Signed(double value, int decimals);      // "+12.5", "−3.0" (U+2212), "0.0"
std::string Unsigned(double value, int decimals);    // "12.5", "−3.0"
std::string PValue(double p);                        // "0.002", "< 0.001"; never zero
std::string PEquals(double p);                       // "p = 0.002", "p < 0.001", with no-break spaces
std::string TimeLabel(int64_t time_us);              // "2026-11-21 14:30 UTC"
std::string ShortHash(absl::string_view hex);        // the first 12 characters

// "1K", "1K and 2K", "1K, 2K and 4K"
std::string JoinWithAnd(const std::vector<std::string>& parts);
// Likewise, but "1K, 2K and 7 more" where there are more than `count_max`.
std::string ShortList(std::vector<std::string> parts, size_t count_max);

// `word` for a shell, quoted only if necessary.
std::string ShellWord(const std::string& word);
// In single quotes, inside of which a shell reads everything as it is.
std::string ShellQuoted(absl::string_view word);

// `text` truncated to at most `bytes_max` at a character boundary, with an ellipsis if shortened.
std::string Shorten(absl::string_view text, size_t bytes_max);
// The same of its end.
std::string ShortenFront(absl::string_view text, size_t bytes_max);

std::string Capitalized(std::string text);  // its first letter, of ASCII

std::string QuantityLabel(double value);  // "65.5K", "1.05M", "0.4"

}  // namespace varifocal::report
