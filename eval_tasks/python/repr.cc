#include "eval_tasks/python/repr.h"

#include <utf8proc.h>

#include <charconv>
#include <cmath>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

// str.isprintable(): neither a separator other than the blank, nor one of the categories "other".
bool IsPythonPrintable(CodePoint point) {
  switch (utf8proc_category(point)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return point == ' ';
    default:
      return true;
  }
}

std::string Escaped(CodePoint point) {
  if (point == '\n') return "\\n";
  if (point == '\r') return "\\r";
  if (point == '\t') return "\\t";
  if (point < 0x100) return absl::StrCat("\\x", absl::Hex(point, absl::kZeroPad2));
  if (point < 0x10000) return absl::StrCat("\\u", absl::Hex(point, absl::kZeroPad4));
  return absl::StrCat("\\U", absl::Hex(point, absl::kZeroPad8));
}

}  // namespace

std::string PythonRepr(absl::string_view utf8) {
  const char quote = absl::StrContains(utf8, "'") && !absl::StrContains(utf8, "\"") ? '"' : '\'';
  const PythonText text = ToPythonText(utf8);
  std::string repr(1, quote);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == quote || text[i] == '\\') repr += '\\';
    absl::StrAppend(&repr, IsPythonPrintable(text[i]) ? ToUtf8(text, i, i + 1) : Escaped(text[i]));
  }
  return repr + quote;
}

// The shortest digits that give the number back; without an exponent from 0.0001 up to 1e16.
std::string PythonRepr(double value) {
  const double size = std::abs(value);
  const bool is_plain = size == 0 || (size >= 1e-4 && size < 1e16);
  char digits[64];
  const auto written = std::to_chars(std::begin(digits), std::end(digits), value,
                                     is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  const std::string text(digits, written.ptr);
  return is_plain && !absl::StrContains(text, ".") ? text + ".0" : text;
}

}  // namespace varifocal
