#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "tokenizer/unicode_classes.h"

namespace varifocal {
namespace {

constexpr char kSpaceClass[] =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr char kHexDigits[] = "0-9a-fA-F";
constexpr absl::string_view kWordCategories[] = {"L", "M", "Nd", "Nl", "Pc"};
constexpr char kWordExtras[] =  // superscripts and fractions of Latin-1, circled letters
    R"(\xb2\xb3\xb9\xbc-\xbe\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

// Members of a category, such as "Lu" or "L", in bracket syntax.
std::string CategoryMembers(absl::string_view category) {
  std::string out = absl::StrCat("\\p{", category, "}");
  for (int i = 0; i < kNewerCharactersCount; ++i) {
    const NewerCharacters& row = kNewerCharacters[i];
    const absl::string_view name = row.category;
    const bool belongs = name == category || (category.size() == 1 && name.size() == 2 && name[0] == category[0]);
    if (belongs) absl::StrAppendFormat(&out, "\\x{%x}-\\x{%x}", row.first, row.last);
  }
  return out;
}

std::string WordMembers() {
  std::string out = kWordExtras;
  for (absl::string_view category : kWordCategories) out += CategoryMembers(category);
  return out;
}

// An escape that denotes a set of characters.
struct CharacterSet {
  std::string members;
  bool negated = false;
  size_t size = 0;  // bytes of the escape; 0: not a set
};

CharacterSet ReadCharacterSet(absl::string_view escape) {
  switch (escape[1]) {
    case 's':
    case 'S':
      return {kSpaceClass, escape[1] == 'S', 2};
    case 'w':
    case 'W':
      return {WordMembers(), escape[1] == 'W', 2};
    case 'd':
    case 'D':
      return {CategoryMembers("Nd"), escape[1] == 'D', 2};
    case 'h':
    case 'H':
      return {kHexDigits, escape[1] == 'H', 2};
    case 'p':
    case 'P': {
      const size_t end = escape.find('}');
      if (escape.size() < 4 || escape[2] != '{' || end == absl::string_view::npos) return {};
      absl::string_view name = escape.substr(3, end - 3);
      const bool inverted = absl::ConsumePrefix(&name, "^");
      return {CategoryMembers(name), (escape[1] == 'P') != inverted, end + 1};
    }
  }
  return {};
}

absl::Status UnsupportedSyntax(absl::string_view pattern, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("the pattern \"", pattern, "\" has ", what, ", which is not supported"));
}

// The pattern with every set expanded to that of the library's engine. Syntax that PCRE2 interprets differently is
// rejected: sets inside brackets and their intersection, and a + after {..}, which repeats instead of being possessive.
absl::StatusOr<std::string> WithLibraryClasses(absl::string_view pattern) {
  std::string out;
  bool in_brackets = false;
  for (size_t i = 0; i < pattern.size();) {
    const absl::string_view rest = pattern.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      const CharacterSet set = ReadCharacterSet(rest);
      const size_t size = set.size > 0 ? set.size : 2;
      if (set.size == 0 || (set.negated && in_brackets)) {
        absl::StrAppend(&out, rest.substr(0, size));
      } else {
        absl::StrAppend(&out, in_brackets ? "" : set.negated ? "[^" : "[", set.members, in_brackets ? "" : "]");
      }
      i += size;
      continue;
    }
    if (in_brackets && absl::StartsWith(rest, "[") && !absl::StartsWith(rest, "[:")) {
      return UnsupportedSyntax(pattern, "brackets inside brackets");
    }
    if (in_brackets && absl::StartsWith(rest, "&&")) return UnsupportedSyntax(pattern, "&& inside brackets");
    if (!in_brackets && absl::StartsWith(rest, "}+")) return UnsupportedSyntax(pattern, "a + after {..}");
    size_t size = 1;
    if (!in_brackets && rest[0] == '[') {  // a bracket right after the opening one is a member
      in_brackets = true;
      size += absl::StartsWith(rest.substr(size), "^") ? 1 : 0;
      size += absl::StartsWith(rest.substr(size), "]") ? 1 : 0;
    } else if (in_brackets && absl::StartsWith(rest, "[:")) {
      const size_t end = rest.find(":]");
      size = end == absl::string_view::npos ? 2 : end + 2;
    } else if (in_brackets && rest[0] == ']') {
      in_brackets = false;
    }
    absl::StrAppend(&out, rest.substr(0, size));
    i += size;
  }
  return out;
}

std::string ErrorText(int code) {
  PCRE2_UCHAR buffer[200];
  pcre2_get_error_message(code, buffer, sizeof(buffer));
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

struct Regex::Code {
  pcre2_code* compiled = nullptr;  // null: the pattern is searched literally
  std::string pattern;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(absl::string_view pattern) {
  auto code = std::make_unique<Code>();
  code->pattern = std::string(pattern);
  ASSIGN_OR_RETURN(const std::string rewritten, WithLibraryClasses(pattern));
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->compiled =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->compiled == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern \"", pattern, "\" does not compile: ", ErrorText(error), " at offset ", offset));
  }
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);  // optional: only affects speed
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

absl::StatusOr<std::shared_ptr<const Regex>> Regex::CompileLiteral(absl::string_view literal) {
  if (literal.empty()) return absl::InvalidArgumentError("an empty text cannot be searched");
  auto code = std::make_unique<Code>();
  code->pattern = std::string(literal);
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

absl::StatusOr<std::vector<TextRange>> Regex::FindAll(absl::string_view text) const {
  std::vector<TextRange> found;
  if (code_->compiled == nullptr) {
    const absl::string_view literal = code_->pattern;
    for (size_t at = text.find(literal); at != absl::string_view::npos; at = text.find(literal, at + literal.size())) {
      found.push_back({at, at + literal.size()});
    }
    return found;
  }
  std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code_->compiled, nullptr), &pcre2_match_data_free);
  PCRE2_SIZE at = 0;
  while (at <= text.size()) {
    const int result = pcre2_match(code_->compiled, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                                   PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      return absl::ResourceExhaustedError(absl::StrCat("the pattern \"", code_->pattern, "\" failed at byte ", at,
                                                       " of ", text.size(), ": ", ErrorText(result)));
    }
    const PCRE2_SIZE* range = pcre2_get_ovector_pointer(data.get());
    if (range[1] > range[0]) {
      found.push_back({range[0], range[1]});
      at = range[1];
    } else {  // an empty match: continue after the next character
      at = range[1] + 1;
      while (at < text.size() && (text[at] & 0xC0) == 0x80) ++at;
    }
  }
  return found;
}

}  // namespace varifocal
