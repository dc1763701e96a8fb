#include "eval_tasks/ruler/python_source.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal::ruler {
namespace {

class LiteralReader {
 public:
  LiteralReader(absl::string_view source, size_t at) : source_(source), at_(at) {}

  absl::StatusOr<Json> Value() {
    SkipBlanks();
    if (Take("{")) return Dictionary();
    if (at_ < source_.size() && (source_[at_] == '"' || source_[at_] == '\'')) {
      ASSIGN_OR_RETURN(std::string text, Text());
      return Json(std::move(text));
    }
    const size_t end = std::min(source_.find_first_not_of("0123456789", at_), source_.size());
    int64_t number = 0;
    if (!absl::SimpleAtoi(source_.substr(at_, end - at_), &number)) return Unreadable();
    at_ = end;
    return Json(number);
  }

  absl::StatusOr<std::string> Text() {
    const char mark = source_[at_];
    const std::string three(3, mark);
    const std::string quote = absl::StartsWith(source_.substr(at_), three) ? three : std::string(1, mark);
    at_ += quote.size();
    std::string text;
    while (at_ < source_.size() && !absl::StartsWith(source_.substr(at_), quote)) {
      if (quote.size() == 1 && source_[at_] == '\n') return Unreadable();
      if (source_[at_] != '\\') {
        text += source_[at_++];
        continue;
      }
      constexpr absl::string_view kEscapes = "nt\\'\"", kMeant = "\n\t\\'\"";
      const size_t escape = at_ + 1 < source_.size() ? kEscapes.find(source_[at_ + 1]) : absl::string_view::npos;
      if (escape == absl::string_view::npos) return Unreadable();
      text += kMeant[escape];
      at_ += 2;
    }
    if (!Take(quote)) return Unreadable();
    return text;
  }

 private:
  absl::StatusOr<Json> Dictionary() {
    Json result = Json::object();
    while (true) {
      SkipBlanks();
      if (Take("}")) return result;
      if (at_ >= source_.size() || (source_[at_] != '"' && source_[at_] != '\'')) return Unreadable();
      ASSIGN_OR_RETURN(const std::string key, Text());
      SkipBlanks();
      if (!Take(":")) return Unreadable();
      ASSIGN_OR_RETURN(result[key], Value());
      SkipBlanks();
      if (!Take(",") && !absl::StartsWith(source_.substr(at_), "}")) return Unreadable();
    }
  }

  void SkipBlanks() {
    while (at_ < source_.size()) {
      if (source_[at_] == '#') {
        at_ = std::min(source_.find('\n', at_), source_.size());
      } else if (absl::ascii_isspace(source_[at_])) {
        ++at_;
      } else {
        return;
      }
    }
  }

  bool Take(absl::string_view text) {
    if (!absl::StartsWith(source_.substr(at_), text)) return false;
    at_ += text.size();
    return true;
  }

  absl::Status Unreadable() const {
    const auto line = 1 + std::count(source_.begin(), source_.begin() + std::min(at_, source_.size()), '\n');
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line, " is no text, integer or dictionary of them in Python"));
  }

  const absl::string_view source_;
  size_t at_;
};

}  // namespace

absl::StatusOr<Json> FindPythonDictionary(absl::string_view source, absl::string_view name) {
  const std::string wanted = absl::StrCat(name, " = {");
  for (size_t at = source.find(wanted); at != absl::string_view::npos; at = source.find(wanted, at + 1)) {
    if (at == 0 || source[at - 1] == '\n') return LiteralReader(source, at + wanted.size() - 1).Value();
  }
  return absl::InvalidArgumentError(absl::StrCat("has no dictionary ", name));
}

absl::StatusOr<std::string> FindPythonText(absl::string_view source, absl::string_view name) {
  for (const absl::string_view quote : {"\"", "'"}) {
    const std::string wanted = absl::StrCat(name, " = ", quote);
    for (size_t at = source.find(wanted); at != absl::string_view::npos; at = source.find(wanted, at + 1)) {
      const size_t line = source.rfind('\n', at) + 1;
      if (source.substr(line, at - line).find_first_not_of(' ') != absl::string_view::npos) continue;
      return LiteralReader(source, at + wanted.size() - 1).Text();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat("has no text ", name));
}

absl::StatusOr<std::string> FormatSlots(absl::string_view format, const std::map<std::string, std::string>& slots) {
  std::string text;
  for (size_t at = 0; at < format.size();) {
    if (absl::StartsWith(format.substr(at), "{{") || absl::StartsWith(format.substr(at), "}}")) {
      text += format[at];
      at += 2;
      continue;
    }
    const size_t end = format.find('}', at);
    if (format[at] == '}' || (format[at] == '{' && end == absl::string_view::npos)) {
      return absl::InvalidArgumentError(absl::StrCat("the template \"", format, "\" has an open brace"));
    }
    if (format[at] == '{') {
      const std::string name(format.substr(at + 1, end - at - 1));
      const auto slot = slots.find(name);
      if (slot == slots.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("the template \"", format, "\" has a slot {", name, "}, which this task does not fill"));
      }
      text += slot->second;
      at = end + 1;
      continue;
    }
    const size_t next = std::min(format.find_first_of("{}", at), format.size());
    text.append(format.data() + at, next - at);
    at = next;
  }
  return text;
}

}  // namespace varifocal::ruler
