#include "eval_tasks/python/text.h"

#include <utf8proc.h>

#include <algorithm>
#include <string_view>

namespace varifocal {
namespace {

bool IsCased(CodePoint point) {
  return utf8proc_isupper(point) || utf8proc_islower(point) || utf8proc_category(point) == UTF8PROC_CATEGORY_LT;
}

// Default_Ignorable for casing (Unicode 3.13, D136): marks, formats, modifiers, and the mid-word punctuation.
bool IsCaseIgnorable(CodePoint point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      break;
  }
  switch (point) {
    case '\'':
    case '.':
    case ':':
    case 0xB7:
    case 0x387:
    case 0x55F:
    case 0x5F4:
    case 0x2018:
    case 0x2019:
    case 0x2024:
    case 0x2027:
    case 0xFE13:
    case 0xFE52:
    case 0xFE55:
    case 0xFF07:
    case 0xFF0E:
    case 0xFF1A:
      return true;
    default:
      return false;
  }
}

// A capital sigma that ends a word becomes the final form: a cased letter before it, none after it.
bool IsFinalSigma(const PythonText& points, size_t at) {
  size_t before = at;
  while (before > 0 && IsCaseIgnorable(points[before - 1])) --before;
  if (before == 0 || !IsCased(points[before - 1])) return false;
  size_t after = at + 1;
  while (after < points.size() && IsCaseIgnorable(points[after])) ++after;
  return after == points.size() || !IsCased(points[after]);
}

// A representative of the characters that re.IGNORECASE treats as equal: the lower case, and where several lower-case
// letters share an upper case, the first of them (listed in CPython's re/_casefix.py).
CodePoint WithoutCase(CodePoint point) {
  static constexpr CodePoint kAlike[][3] = {
      {0x69, 0x131},   {0x73, 0x17F},   {0xB5, 0x3BC},    {0x345, 0x3B9, 0x1FBE},  {0x390, 0x1FD3},  {0x3B0, 0x1FE3},
      {0x3B2, 0x3D0},  {0x3B5, 0x3F5},  {0x3B8, 0x3D1},   {0x3BA, 0x3F0},          {0x3C0, 0x3D6},   {0x3C1, 0x3F1},
      {0x3C2, 0x3C3},  {0x3C6, 0x3D5},  {0x432, 0x1C80},  {0x434, 0x1C81},         {0x43E, 0x1C82},  {0x441, 0x1C83},
      {0x44A, 0x1C86}, {0x463, 0x1C87}, {0x1C88, 0xA64B}, {0x442, 0x1C84, 0x1C85}, {0x1E61, 0x1E9B}, {0xFB05, 0xFB06}};
  constexpr CodePoint kDottedCapitalI = 0x130;
  const CodePoint lower = point == kDottedCapitalI ? 'i' : utf8proc_tolower(point);
  for (const auto& alike : kAlike) {
    if (lower == alike[1] || (alike[2] != 0 && lower == alike[2])) return alike[0];
  }
  return lower;
}

}  // namespace

PythonText ToPythonText(absl::string_view utf8) {
  PythonText points;
  points.reserve(utf8.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(utf8.data());
  for (size_t i = 0; i < utf8.size();) {
    utf8proc_int32_t point = -1;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(utf8.size() - i), &point);
    points.push_back(length > 0 ? point : 0xFFFD);
    i += length > 0 ? static_cast<size_t>(length) : 1;
  }
  return points;
}

std::string ToUtf8(const PythonText& text, size_t begin, size_t end) {
  std::string utf8;
  for (size_t i = begin; i < end; ++i) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t length = utf8proc_encode_char(text[i], bytes);
    utf8.append(reinterpret_cast<const char*>(bytes), length);
  }
  return utf8;
}

PythonText PythonLower(const PythonText& text) {
  constexpr CodePoint kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;
  constexpr CodePoint kDottedCapitalI = 0x130, kCombiningDot = 0x307;
  PythonText lower;
  lower.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == kCapitalSigma) {
      lower.push_back(IsFinalSigma(text, i) ? kFinalSigma : kSigma);
    } else if (text[i] == kDottedCapitalI) {
      lower.push_back('i');
      lower.push_back(kCombiningDot);
    } else {
      lower.push_back(utf8proc_tolower(text[i]));
    }
  }
  return lower;
}

std::string PythonLower(absl::string_view utf8) { return ToUtf8(PythonLower(ToPythonText(utf8))); }

std::string PythonCapitalize(absl::string_view utf8) {
  // Unicode's SpecialCasing.txt: letters whose title case is several characters, each before these; utf8proc has the single
  // ones.
  static constexpr std::u32string_view kTitles =
      U" \u00DFSs \u0149\u02BCN \u01F0J\u030C \u0390\u0399\u0308\u0301 \u03B0\u03A5\u0308\u0301 \u0587\u0535\u0582"
      U" \u1E96H\u0331 \u1E97T\u0308 \u1E98W\u030A \u1E99Y\u030A \u1E9AA\u02BE \u1F50\u03A5\u0313"
      U" \u1F52\u03A5\u0313\u0300 \u1F54\u03A5\u0313\u0301 \u1F56\u03A5\u0313\u0342 \u1FB2\u1FBA\u0345"
      U" \u1FB4\u0386\u0345 \u1FB6\u0391\u0342 \u1FB7\u0391\u0342\u0345 \u1FC2\u1FCA\u0345 \u1FC4\u0389\u0345"
      U" \u1FC6\u0397\u0342 \u1FC7\u0397\u0342\u0345 \u1FD2\u0399\u0308\u0300 \u1FD3\u0399\u0308\u0301"
      U" \u1FD6\u0399\u0342 \u1FD7\u0399\u0308\u0342 \u1FE2\u03A5\u0308\u0300 \u1FE3\u03A5\u0308\u0301"
      U" \u1FE4\u03A1\u0313 \u1FE6\u03A5\u0342 \u1FE7\u03A5\u0308\u0342 \u1FF2\u1FFA\u0345 \u1FF4\u038F\u0345"
      U" \u1FF6\u03A9\u0342 \u1FF7\u03A9\u0342\u0345 \uFB00Ff \uFB01Fi \uFB02Fl \uFB03Ffi \uFB04Ffl \uFB05St \uFB06St"
      U" \uFB13\u0544\u0576 \uFB14\u0544\u0565 \uFB15\u0544\u056B \uFB16\u054E\u0576 \uFB17\u0544\u056D ";
  const PythonText text = ToPythonText(utf8);
  if (text.empty()) return "";
  PythonText capitalized = PythonLower(text);
  capitalized.erase(capitalized.begin(), capitalized.begin() + PythonLower(PythonText{text[0]}).size());
  PythonText first = {utf8proc_totitle(text[0])};
  const size_t row = kTitles.find(std::u32string{U' ', static_cast<char32_t>(text[0])});
  if (row != kTitles.npos) first.assign(kTitles.begin() + row + 2, kTitles.begin() + kTitles.find(U' ', row + 1));
  return ToUtf8(first) + ToUtf8(capitalized);
}

std::string PythonUpper(absl::string_view utf8) {
  PythonText upper;
  for (CodePoint point : ToPythonText(utf8)) {
    for (CodePoint part : ToPythonText(PythonCapitalize(ToUtf8(PythonText{point})))) {
      upper.push_back(utf8proc_toupper(part));
    }
  }
  return ToUtf8(upper);
}

PythonText PythonStrip(const PythonText& text) {
  size_t begin = 0, end = text.size();
  while (begin < end && IsPythonSpace(text[begin])) ++begin;
  while (end > begin && IsPythonSpace(text[end - 1])) --end;
  return PythonText(text.begin() + begin, text.begin() + end);
}

std::string PythonStrip(absl::string_view utf8) { return ToUtf8(PythonStrip(ToPythonText(utf8))); }

absl::string_view PythonRightStrip(absl::string_view utf8) {
  while (!utf8.empty()) {
    size_t begin = utf8.size() - 1;
    while (begin > 0 && (utf8[begin] & 0xC0) == 0x80) --begin;
    const PythonText last = ToPythonText(utf8.substr(begin));
    if (last.size() != 1 || !IsPythonSpace(last[0])) break;
    utf8 = utf8.substr(0, begin);
  }
  return utf8;
}

std::vector<std::string> PythonSplit(absl::string_view utf8) {
  const PythonText text = ToPythonText(utf8);
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && !IsPythonSpace(text[end])) ++end;
    if (end > begin) words.push_back(ToUtf8(text, begin, end));
    begin = end + 1;
  }
  return words;
}

std::vector<std::string> PythonSplitLines(absl::string_view utf8) {
  const PythonText text = ToPythonText(utf8);
  const auto ends_line = [](CodePoint point) {
    return (point >= 10 && point <= 13) || (point >= 28 && point <= 30) || point == 0x85 || point == 0x2028 ||
           point == 0x2029;
  };
  std::vector<std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    while (end < text.size() && !ends_line(text[end])) ++end;
    lines.push_back(ToUtf8(text, begin, end));
    begin = end + (end + 1 < text.size() && text[end] == '\r' && text[end + 1] == '\n' ? 2 : 1);
  }
  return lines;
}

bool IsPythonWordCharacter(CodePoint point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    default:
      return point == '_';
  }
}

bool IsPythonSpace(CodePoint point) {
  return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

bool IsPythonDecimal(CodePoint point) { return utf8proc_category(point) == UTF8PROC_CATEGORY_ND; }

bool IsPythonUpper(CodePoint point) { return utf8proc_isupper(point) != 0; }
bool IsPythonLower(CodePoint point) { return utf8proc_islower(point) != 0; }

bool MatchesIgnoringCase(const PythonText& text, size_t begin, const PythonText& pattern) {
  if (begin + pattern.size() > text.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (WithoutCase(text[begin + i]) != WithoutCase(pattern[i])) return false;
  }
  return true;
}

}  // namespace varifocal
