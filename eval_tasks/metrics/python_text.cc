#include "eval_tasks/metrics/python_text.h"

#include <utf8proc.h>

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
    utf8.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
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
  const PythonText text = ToPythonText(utf8);
  PythonText capitalized = PythonLower(text);
  if (!text.empty()) capitalized[0] = utf8proc_totitle(text[0]);
  return ToUtf8(capitalized);
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

bool MatchesIgnoringCase(CodePoint point, char pattern) {
  const char lower = pattern >= 'A' && pattern <= 'Z' ? static_cast<char>(pattern - 'A' + 'a') : pattern;
  if (point == pattern || point == lower) return true;
  if (lower < 'a' || lower > 'z') return false;
  if (point == lower - 'a' + 'A') return true;
  constexpr CodePoint kLongS = 0x17F, kKelvin = 0x212A, kDotlessI = 0x131, kDottedCapitalI = 0x130;
  if (lower == 's') return point == kLongS;
  if (lower == 'k') return point == kKelvin;
  return lower == 'i' && (point == kDotlessI || point == kDottedCapitalI);
}

bool MatchesIgnoringCase(const PythonText& text, size_t begin, absl::string_view pattern) {
  if (begin + pattern.size() > text.size()) return false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (!MatchesIgnoringCase(text[begin + i], pattern[i])) return false;
  }
  return true;
}

}  // namespace varifocal
