#include "tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
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
  return InvalidArgument("the pattern \"", pattern, "\" has ", what, ", which is not supported");
}

// A bracket expression: simple members and sets inside it are united; && intersects what is on its sides.
class BracketReader {
 public:
  // `pattern` begins with a bracket.
  explicit BracketReader(absl::string_view pattern) : pattern_(pattern) {}

  // A PCRE2 pattern of one character.
  absl::StatusOr<std::string> Read() {
    ASSIGN_OR_RETURN(const Set set, ReadSet());
    return Text(set);
  }
  size_t size() const { return at_; }

 private:
  // One character: of the members, or of one of the patterns. Negated: of none of them.
  struct Set {
    bool negated = false;
    std::string members;
    std::vector<std::string> patterns;
  };

  static std::string Text(const Set& set) {
    if (set.patterns.empty()) return absl::StrCat(set.negated ? "[^" : "[", set.members, "]");
    std::string any = absl::StrJoin(set.patterns, "|");
    if (!set.members.empty()) any = absl::StrCat("[", set.members, "]|", any);
    return set.negated ? absl::StrCat("(?:(?!", any, ")[\\s\\S])") : absl::StrCat("(?:", any, ")");
  }

  bool Takes(absl::string_view text) {
    if (!absl::StartsWith(pattern_.substr(at_), text)) return false;
    at_ += text.size();
    return true;
  }

  absl::StatusOr<Set> ReadSet() {
    if (++depth_ > 16) return InvalidArgument("brackets are nested deeper than 16 levels");
    Set set;
    ++at_;
    set.negated = Takes("^");
    std::vector<std::string> factors;  // complete operands of &&
    std::string first = pattern_[at_ < pattern_.size() ? at_ : 0] == ']' && Takes("]") ? "]" : "";
    Set operand{false, first, {}};
    while (at_ < pattern_.size() && pattern_[at_] != ']') RETURN_IF_ERROR(ReadMember(operand, factors));
    if (!Takes("]")) return InvalidArgument("a bracket is not closed");
    --depth_;
    if (factors.empty()) {
      operand.negated = set.negated;
      return operand;
    }
    if (operand.members.empty() && operand.patterns.empty()) return InvalidArgument("&& has an empty side");
    std::string all = "(?:";
    for (const std::string& factor : factors) absl::StrAppend(&all, "(?=", factor, ")");
    set.patterns.push_back(absl::StrCat(all, Text(operand), ")"));
    return set;
  }

  absl::Status ReadMember(Set& operand, std::vector<std::string>& factors) {
    const absl::string_view rest = pattern_.substr(at_);
    if (absl::StartsWith(rest, "&&")) {
      if (operand.members.empty() && operand.patterns.empty()) return InvalidArgument("&& has an empty side");
      factors.push_back(Text(operand));
      operand = Set();
      at_ += 2;
      if (absl::StartsWith(pattern_.substr(at_), "^")) return InvalidArgument("&& is followed by ^");
      return absl::OkStatus();
    }
    if (absl::StartsWith(rest, "[:") && rest.find(":]") != absl::string_view::npos) {
      const size_t size = rest.find(":]") + 2;
      absl::StrAppend(&operand.members, rest.substr(0, size));
      at_ += size;
      return absl::OkStatus();
    }
    if (rest[0] == '[') {
      ASSIGN_OR_RETURN(const Set inner, ReadSet());
      operand.patterns.push_back(Text(inner));
      // A hyphen before a set is a member; it must not become a range to what follows the set.
      if (absl::EndsWith(operand.members, "-")) operand.members.insert(operand.members.size() - 1, "\\");
      return absl::OkStatus();
    }
    size_t size = 1;
    if (rest[0] == '\\' && rest.size() > 1) {
      const CharacterSet set = ReadCharacterSet(rest);
      size = set.size > 0 ? set.size : 2;
      if (set.size > 0 && !set.negated) {
        absl::StrAppend(&operand.members, set.members);
        at_ += size;
        return absl::OkStatus();
      }
    }
    absl::StrAppend(&operand.members, rest.substr(0, size));
    at_ += size;
    return absl::OkStatus();
  }

  const absl::string_view pattern_;
  size_t at_ = 0;
  int depth_ = 0;
};

// The pattern with every set expanded to that of the library's engine, and sets inside brackets and their intersection,
// which PCRE2 lacks, as alternatives and look-aheads. A + after {..}, which repeats instead of being possessive, is
// rejected.
absl::StatusOr<std::string> WithLibraryClasses(absl::string_view pattern) {
  std::string out;
  for (size_t i = 0; i < pattern.size();) {
    const absl::string_view rest = pattern.substr(i);
    if (rest[0] == '\\' && rest.size() > 1) {
      const CharacterSet set = ReadCharacterSet(rest);
      if (set.size == 0) {
        absl::StrAppend(&out, rest.substr(0, 2));
      } else {
        absl::StrAppend(&out, set.negated ? "[^" : "[", set.members, "]");
      }
      i += set.size > 0 ? set.size : 2;
      continue;
    }
    if (rest[0] == '[') {
      BracketReader reader(rest);
      ASSIGN_OR_RETURN(std::string text, Annotate(reader.Read(), absl::StrCat("the pattern \"", pattern, "\"")));
      absl::StrAppend(&out, text);
      i += reader.size();
      continue;
    }
    if (absl::StartsWith(rest, "}+")) return UnsupportedSyntax(pattern, "a + after {..}");
    out.push_back(rest[0]);
    ++i;
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
    return InvalidArgument("the pattern \"", pattern, "\" does not compile: ", ErrorText(error), " at offset ", offset);
  }
  pcre2_jit_compile(code->compiled, PCRE2_JIT_COMPLETE);  // optional: only affects speed
  return std::shared_ptr<const Regex>(new Regex(std::move(code)));
}

absl::StatusOr<std::shared_ptr<const Regex>> Regex::CompileLiteral(absl::string_view literal) {
  if (literal.empty()) return InvalidArgument("an empty text cannot be searched");
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
      return ResourceExhausted("the pattern \"", code_->pattern, "\" failed at byte ", at, " of ", text.size(), ": ",
                               ErrorText(result));
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
