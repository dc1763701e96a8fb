#include "eval_tasks/metrics/normalize.h"

#include <utf8proc.h>

#include <cstdint>

#include "absl/strings/str_join.h"

namespace varifocal {
namespace {

std::vector<int32_t> CodePoints(absl::string_view text) {
  std::vector<int32_t> points;
  points.reserve(text.size());
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (size_t i = 0; i < text.size();) {
    utf8proc_int32_t point = -1;
    const utf8proc_ssize_t length = utf8proc_iterate(bytes + i, static_cast<utf8proc_ssize_t>(text.size() - i), &point);
    points.push_back(length > 0 ? point : 0xFFFD);
    i += length > 0 ? static_cast<size_t>(length) : 1;
  }
  return points;
}

std::string ToUtf8(const std::vector<int32_t>& points, size_t begin, size_t end) {
  std::string text;
  for (size_t i = begin; i < end; ++i) {
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t length = utf8proc_encode_char(points[i], bytes);
    text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
  }
  return text;
}

bool IsCased(int32_t point) {
  return utf8proc_isupper(point) || utf8proc_islower(point) || utf8proc_category(point) == UTF8PROC_CATEGORY_LT;
}

// Default_Ignorable for casing (Unicode 3.13, D136): marks, formats, modifiers, and the mid-word punctuation.
bool IsCaseIgnorable(int32_t point) {
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
bool IsFinalSigma(const std::vector<int32_t>& points, size_t at) {
  size_t before = at;
  while (before > 0 && IsCaseIgnorable(points[before - 1])) --before;
  if (before == 0 || !IsCased(points[before - 1])) return false;
  size_t after = at + 1;
  while (after < points.size() && IsCaseIgnorable(points[after])) ++after;
  return after == points.size() || !IsCased(points[after]);
}

std::vector<int32_t> Lower(const std::vector<int32_t>& points) {
  constexpr int32_t kCapitalSigma = 0x3A3, kSigma = 0x3C3, kFinalSigma = 0x3C2;
  constexpr int32_t kDottedCapitalI = 0x130, kCombiningDot = 0x307;
  std::vector<int32_t> lower;
  lower.reserve(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    if (points[i] == kCapitalSigma) {
      lower.push_back(IsFinalSigma(points, i) ? kFinalSigma : kSigma);
    } else if (points[i] == kDottedCapitalI) {
      lower.push_back('i');
      lower.push_back(kCombiningDot);
    } else {
      lower.push_back(utf8proc_tolower(points[i]));
    }
  }
  return lower;
}

bool IsAsciiPunctuation(int32_t point) {
  return (point >= 33 && point <= 47) || (point >= 58 && point <= 64) || (point >= 91 && point <= 96) ||
         (point >= 123 && point <= 126);
}

bool IsWordCharacter(int32_t point) {
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

bool IsSpace(int32_t point) {
  return (point >= 9 && point <= 13) || (point >= 28 && point <= 32) || point == 0x85 || point == 0xA0 ||
         point == 0x1680 || (point >= 0x2000 && point <= 0x200A) || point == 0x2028 || point == 0x2029 ||
         point == 0x202F || point == 0x205F || point == 0x3000;
}

bool IsArticle(const std::vector<int32_t>& points, size_t begin, size_t end) {
  const size_t length = end - begin;
  if (points[begin] == 'a') return length == 1 || (length == 2 && points[begin + 1] == 'n');
  return length == 3 && points[begin] == 't' && points[begin + 1] == 'h' && points[begin + 2] == 'e';
}

}  // namespace

std::vector<std::string> NormalizedWords(absl::string_view text) {
  std::vector<int32_t> points;
  for (int32_t point : Lower(CodePoints(text))) {
    if (!IsAsciiPunctuation(point)) points.push_back(point);
  }
  // Articles are runs of word characters, which lie inside the runs of non-space that become words.
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && IsWordCharacter(points[end])) ++end;
    if (end > begin && IsArticle(points, begin, end)) {
      for (size_t i = begin; i < end; ++i) points[i] = ' ';
    }
    begin = end > begin ? end : begin + 1;
  }
  std::vector<std::string> words;
  for (size_t begin = 0; begin < points.size();) {
    if (IsSpace(points[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < points.size() && !IsSpace(points[end])) ++end;
    words.push_back(ToUtf8(points, begin, end));
    begin = end;
  }
  return words;
}

std::string NormalizeAnswer(absl::string_view text) { return absl::StrJoin(NormalizedWords(text), " "); }

int64_t CountCharacters(absl::string_view text) { return static_cast<int64_t>(CodePoints(text).size()); }

}  // namespace varifocal
