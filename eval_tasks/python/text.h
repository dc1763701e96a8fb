// Python's text functions: code points, str.lower(), str.strip(), and the character classes of its `re` module.
//
// The reference metrics are Python; where their rules for Unicode differ from C's or from PCRE's, Python's apply: the
// final sigma and the dotted capital I when lowering, four information separators as white space, Arabic-Indic digits
// as \d, the long s as an "s" when case is ignored.
//
// Bytes that are not UTF-8 count as U+FFFD each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

using CodePoint = int32_t;
using PythonText = std::vector<CodePoint>;

PythonText ToPythonText(absl::string_view utf8);
std::string ToUtf8(const PythonText& text, size_t begin, size_t end);
inline std::string ToUtf8(const PythonText& text) { return ToUtf8(text, 0, text.size()); }

PythonText PythonLower(const PythonText& text);  // str.lower()
std::string PythonLower(absl::string_view utf8);
std::string PythonCapitalize(absl::string_view utf8);  // str.capitalize()
// str.upper(), but for the small Greek letters with a iota subscript.
std::string PythonUpper(absl::string_view utf8);
std::string PythonStrip(absl::string_view utf8);  // str.strip()
PythonText PythonStrip(const PythonText& text);
absl::string_view PythonRightStrip(absl::string_view utf8);         // str.rstrip(), a part of `utf8`
std::vector<std::string> PythonSplit(absl::string_view utf8);       // str.split()
std::vector<std::string> PythonSplitLines(absl::string_view utf8);  // str.splitlines()

bool IsPythonSpace(CodePoint point);          // str.isspace(), and \s
bool IsPythonWordCharacter(CodePoint point);  // \w
bool IsPythonDecimal(CodePoint point);        // \d
bool IsPythonUpper(CodePoint point);          // str.isupper()
bool IsPythonLower(CodePoint point);          // str.islower()
// Whether the plain text `pattern` matches at `begin` under re.IGNORECASE.
bool MatchesIgnoringCase(const PythonText& text, size_t begin, const PythonText& pattern);

}  // namespace varifocal
