#include "eval_tasks/python/literals.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Appends the character of the escape at `at`, a backslash.
void ReadEscape(absl::string_view source, size_t& at, std::string& text) {
  static const std::map<char, const char*> kPlain = {{'n', "\n"}, {'t', "\t"}, {'r', "\r"}, {'\\', "\\"},
                                                     {'\'', "'"}, {'"', "\""}, {'\n', ""},  {'a', "\a"},
                                                     {'b', "\b"}, {'f', "\f"}, {'v', "\v"}};
  static const std::map<char, size_t> kHex = {{'x', 2}, {'u', 4}, {'U', 8}};
  const char c = source[at + 1];
  const auto plain = kPlain.find(c);
  const auto hex = kHex.find(c);
  const absl::string_view digits = source.substr(at + 2, hex == kHex.end() ? 0 : hex->second);
  const bool is_hex = hex != kHex.end() && digits.size() == hex->second &&
                      std::all_of(digits.begin(), digits.end(), [](char d) { return absl::ascii_isxdigit(d); });
  uint32_t point = 0;
  if (plain != kPlain.end()) {
    text += plain->second;
    at += 2;
  } else if (is_hex && absl::SimpleHexAtoi(digits, &point) && point <= 0x10FFFFu) {
    text += ToUtf8(PythonText{static_cast<CodePoint>(point)});
    at += 2 + digits.size();
  } else {  // not an escape: both characters are kept
    absl::StrAppend(&text, source.substr(at, 2));
    at += 2;
  }
}

class ConstantParser {
 public:
  ConstantParser(absl::string_view source, size_t at) : source_(source), at_(at) {}

  absl::StatusOr<Json> Value(int level = 0) {
    constexpr int kLevelsMax = 32;
    if (level > kLevelsMax) return Unexpected("is nested too deeply");
    Skip();
    if (Peek() == '{') return Braces(level);
    if (Peek() == '[' || Peek() == '(') return List(level);
    if (Peek() == '-' || absl::ascii_isdigit(Peek())) return Number();
    std::optional<std::string> text;
    for (bool is_more = true; is_more;) {
      const absl::string_view prefix = Name();
      if (Peek() == '"' || Peek() == '\'') {
        const std::string letters = absl::AsciiStrToLower(prefix);
        if (absl::StrContains(letters, 'f')) return Unexpected("is an f-string");
        ASSIGN_OR_RETURN(const std::string part, ReadPythonString(source_, at_, absl::StrContains(letters, 'r')));
        text = absl::StrCat(text.value_or(""), part);
      } else if (text.has_value()) {
        return Unexpected("is an expression");
      } else {
        return Plain(prefix);
      }
      Skip();
      if (Peek() == '+') {
        ++at_;
        Skip();
      } else {
        is_more = Peek() == '"' || Peek() == '\'';
      }
    }
    return Json(*text);
  }

 private:
  char Peek() const { return at_ < source_.size() ? source_[at_] : '\0'; }
  // White space, comments and continued lines.
  void Skip() {
    while (at_ < source_.size()) {
      if (source_[at_] == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (absl::ascii_isspace(source_[at_]) || source_[at_] == '\\') {
        ++at_;
      } else {
        return;
      }
    }
  }
  absl::string_view Name() {
    const size_t begin = at_;
    while (IsNameCharacter(Peek())) ++at_;
    return source_.substr(begin, at_ - begin);
  }
  absl::Status Unexpected(absl::string_view what) const {
    const absl::string_view before = source_.substr(0, std::min(at_, source_.size()));
    return InvalidArgument("line ", 1 + std::count(before.begin(), before.end(), '\n'), ": the value ", what);
  }
  absl::StatusOr<Json> Plain(absl::string_view name) const {
    if (name == "None") return Json();
    if (name == "True" || name == "False") return Json(name == "True");
    return Unexpected("is not a constant");
  }
  absl::StatusOr<Json> Number() {
    const size_t begin = at_;
    while (IsNameCharacter(Peek()) || absl::StrContains("+-.", std::string(1, Peek()))) ++at_;
    const absl::string_view text = source_.substr(begin, at_ - begin);
    int64_t whole = 0;
    double number = 0;
    if (absl::SimpleAtoi(text, &whole)) return Json(whole);
    if (absl::SimpleAtod(text, &number)) return Json(number);
    return Unexpected("is not a number");
  }
  // The end of a container after a value and its comma.
  absl::StatusOr<bool> IsEnd(char end) {
    Skip();
    if (Peek() == ',') {
      ++at_;
      Skip();
    } else if (Peek() != end) {
      return Unexpected("does not end");
    }
    if (Peek() != end) return false;
    ++at_;
    return true;
  }
  absl::StatusOr<Json> List(int level) {
    const char end = Peek() == '[' ? ']' : ')';
    Json list = Json::array();
    ++at_;
    Skip();
    bool is_end = Peek() == end;
    if (is_end) ++at_;
    while (!is_end) {
      ASSIGN_OR_RETURN(Json item, Value(level + 1));
      list.push_back(std::move(item));
      ASSIGN_OR_RETURN(is_end, IsEnd(end));
    }
    return list;
  }
  absl::StatusOr<Json> Braces(int level) {
    Json object = Json::object(), set = Json::array();
    ++at_;
    Skip();
    bool is_end = Peek() == '}';
    if (is_end) ++at_;
    while (!is_end) {
      ASSIGN_OR_RETURN(Json key, Value(level + 1));
      Skip();
      if (Peek() == ':') {
        if (!key.is_string()) return Unexpected("has a key that is not a text");
        ++at_;
        ASSIGN_OR_RETURN(object[key.get<std::string>()], Value(level + 1));
      } else {
        set.push_back(std::move(key));
      }
      ASSIGN_OR_RETURN(is_end, IsEnd('}'));
    }
    return set.empty() ? object : set;
  }

  const absl::string_view source_;
  size_t at_;
};

// The place after `name =` in a line that begins at `at`; npos where the line does something else.
size_t ValueAt(absl::string_view source, size_t at, absl::string_view name) {
  const absl::string_view line = source.substr(at);
  if (!absl::StartsWith(line, name)) return absl::string_view::npos;
  size_t equals = name.size();
  while (equals < line.size() && line[equals] == ' ') ++equals;
  if (line.substr(equals, 1) != "=" || line.substr(equals, 2) == "==") return absl::string_view::npos;
  return at + equals + 1;
}

// The begin of the next line, or the end.
size_t NextLine(absl::string_view source, size_t at) { return std::min(source.find('\n', at), source.size() - 1) + 1; }

}  // namespace

absl::StatusOr<std::string> ReadPythonString(absl::string_view source, size_t& at, bool is_raw) {
  const char quote = source[at];
  const bool is_triple = source.substr(at, 3) == std::string(3, quote);
  const std::string end(is_triple ? 3 : 1, quote);
  at += end.size();
  std::string text;
  while (source.substr(at, end.size()) != end) {
    if (at >= source.size() || (!is_triple && source[at] == '\n')) {
      return InvalidArgument("a string literal does not end");
    }
    if (source[at] != '\\' || at + 1 >= source.size()) {
      text += source[at++];
    } else if (is_raw) {
      absl::StrAppend(&text, source.substr(at, 2));
      at += 2;
    } else {
      ReadEscape(source, at, text);
    }
  }
  at += end.size();
  return text;
}

absl::StatusOr<Json> PythonConstant(absl::string_view source, absl::string_view name) {
  for (size_t at = 0; at < source.size(); at = NextLine(source, at)) {
    const size_t value = ValueAt(source, at, name);
    if (value != absl::string_view::npos) return ConstantParser(source, value).Value();
  }
  return NotFound("nothing is assigned to ", name);
}

absl::StatusOr<std::string> PythonTextOf(absl::string_view source, absl::string_view name) {
  for (size_t at = 0; at < source.size(); at = NextLine(source, at)) {
    const size_t begin = std::min(source.find_first_not_of(" \t", at), source.size());
    const size_t value = ValueAt(source, begin, name);
    if (value == absl::string_view::npos) continue;
    const absl::StatusOr<Json> found = ConstantParser(source, value).Value();
    if (found.ok() && found->is_string()) return found->get<std::string>();
  }
  return NotFound("no text is assigned to ", name);
}

}  // namespace varifocal
