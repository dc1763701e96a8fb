#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr char kSpaceClass[] =
    R"(\x09-\x0d\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr char kWordClass[] =  // letters, marks, digits, superscripts and fractions of Latin-1, circled letters
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\xb2\xb3\xb9\xbc-\xbe\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

std::string WithLibraryClasses(absl::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char next = pattern[++i];
      const char* members = next == 's' || next == 'S'   ? kSpaceClass
                            : next == 'w' || next == 'W' ? kWordClass
                                                         : nullptr;
      const bool negated = next == 'S' || next == 'W';
      if (members == nullptr || (negated && in_class)) {
        out += {c, next};
      } else {
        absl::StrAppend(&out, in_class ? "" : negated ? "[^" : "[", members, in_class ? "" : "]");
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
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
  pcre2_code* compiled = nullptr;  // null: the pattern is looked for as it is
  std::string pattern;
  ~Code() { pcre2_code_free(compiled); }
};

Regex::Regex(std::unique_ptr<Code> code) : code_(std::move(code)) {}
Regex::~Regex() = default;

absl::StatusOr<std::shared_ptr<const Regex>> Regex::Compile(absl::string_view pattern) {
  auto code = std::make_unique<Code>();
  code->pattern = std::string(pattern);
  const std::string rewritten = WithLibraryClasses(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code->compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &offset, nullptr);
  if (code->compiled == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pattern \"", pattern, "\" does not compile: ", ErrorText(error), " at offset ", offset));
  }
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);  // without it matching is slower, not different
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
    } else {  // an empty match: go on behind the next character
      at = range[1] + 1;
      while (at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) ++at;
    }
  }
  return found;
}

}  // namespace varifocal
