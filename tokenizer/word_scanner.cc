#include "tokenizer/word_scanner.h"

#include "tokenizer/unicode_classes.h"
#include "tokenizer/utf8.h"

namespace varifocal {
namespace {

struct Character {
  uint32_t point = 0;
  uint16_t classes = 0;
  int length = 0;  // 0 at the end of the text
};

Character At(absl::string_view text, size_t at) {
  if (at >= text.size()) return {};
  Character c;
  c.length = ReadValidUtf8(text.data() + at, &c.point);
  c.classes = UnicodeClasses()[c.point];
  return c;
}

constexpr uint16_t kLetterNumberSpace = kLetter | kNumber | kSpace;

bool IsLetter(const Character& c) { return (c.classes & kLetter) != 0; }
bool IsNumber(const Character& c) { return (c.classes & kNumber) != 0; }
bool IsSpace(const Character& c) { return (c.classes & kSpace) != 0; }
bool IsOther(const Character& c) { return c.length > 0 && (c.classes & kLetterNumberSpace) == 0; }
bool IsNewline(const Character& c) { return c.length > 0 && (c.point == '\n' || c.point == '\r'); }

// End of the run of characters that `belongs` accepts, from `at`.
template <typename Belongs>
size_t RunEnd(absl::string_view text, size_t at, Belongs belongs) {
  for (Character c = At(text, at); belongs(c); c = At(text, at)) at += c.length;
  return at;
}

// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe at the start; 0 when there is none. `any_case` also takes U+017F, the
// long s, which folds to s.
size_t ContractionLength(absl::string_view text, bool any_case) {
  auto letter = [&](size_t at) -> char {
    if (at >= text.size()) return '\0';
    const char c = text[at];
    return any_case && c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  const char first = letter(1), second = letter(2);
  if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
  if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
  if (any_case && first == '\xC5' && second == '\xBF') return 3;
  return 0;
}

// \s+(?!\S)|\s+ : a run of spaces without the last one, which belongs to the following word; all of it at the end.
size_t SpacesLength(absl::string_view text) {
  size_t at = 0, last = 0;
  for (Character c = At(text, 0); IsSpace(c); c = At(text, at)) {
    last = at;
    at += c.length;
  }
  return at == text.size() || last == 0 ? at : last;
}

size_t ScanLlama3Word(absl::string_view text, int digit_count_max) {
  const Character first = At(text, 0);
  if (first.point == '\'') {
    const size_t length = ContractionLength(text, /*any_case=*/true);
    if (length > 0) return length;
  }
  // [^\r\n\p{L}\p{N}]?\p{L}+
  if (IsLetter(first)) return RunEnd(text, first.length, IsLetter);
  if (!IsNumber(first) && !IsNewline(first) && IsLetter(At(text, first.length))) {
    return RunEnd(text, first.length, IsLetter);
  }
  // \p{N}{1,3}
  if (IsNumber(first)) {
    size_t at = first.length;
    for (int count = 1; count < digit_count_max; ++count) {
      const Character c = At(text, at);
      if (!IsNumber(c)) break;
      at += c.length;
    }
    return at;
  }
  //  ?[^\s\p{L}\p{N}]+[\r\n]*
  const size_t start = first.point == ' ' ? 1 : 0;
  if (IsOther(At(text, start))) return RunEnd(text, RunEnd(text, start, IsOther), IsNewline);
  // \s*[\r\n]+ : up to the last line break of the run
  size_t after_newline = 0, at = 0;
  for (Character c = first; IsSpace(c); c = At(text, at)) {
    at += c.length;
    if (IsNewline(c)) after_newline = at;
  }
  if (after_newline > 0) return after_newline;
  return SpacesLength(text);
}

size_t ScanLlama3(absl::string_view text) { return ScanLlama3Word(text, 3); }
size_t ScanQwen2(absl::string_view text) { return ScanLlama3Word(text, 1); }

struct NamedScanner {
  const char* pattern;
  WordScanner scanner;
};

constexpr NamedScanner kScanners[] = {
    {R"re('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)re", ScanGpt2Word},
    {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
     ScanLlama3},
    {R"re((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)re",
     ScanQwen2},
};

}  // namespace

size_t ScanGpt2Word(absl::string_view text) {
  const Character first = At(text, 0);
  if (first.point == '\'') {
    const size_t length = ContractionLength(text, /*any_case=*/false);
    if (length > 0) return length;
  }
  //  ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
  const size_t start = first.point == ' ' ? 1 : 0;
  const Character c = start == 0 ? first : At(text, start);
  if (IsLetter(c)) return RunEnd(text, start, IsLetter);
  if (IsNumber(c)) return RunEnd(text, start, IsNumber);
  if (IsOther(c)) return RunEnd(text, start, IsOther);
  return SpacesLength(text);
}

WordScanner FindWordScanner(absl::string_view pattern) {
  for (const NamedScanner& row : kScanners) {
    if (pattern == row.pattern) return row.scanner;
  }
  return nullptr;
}

}  // namespace varifocal
