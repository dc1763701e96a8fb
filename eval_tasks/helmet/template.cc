#include "eval_tasks/helmet/template.h"

#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/python/repr.h"

namespace varifocal::helmet {

absl::StatusOr<Template> Template::Parse(absl::string_view text) {
  Template result;
  result.texts_.emplace_back();
  int unnamed_count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if ((c == '{' || c == '}') && i + 1 < text.size() && text[i + 1] == c) {
      result.texts_.back() += c;
      ++i;
    } else if (c == '{') {
      const size_t close = text.find('}', i);
      if (close == absl::string_view::npos) {
        return InvalidArgument("the brace at byte ", i, " of a template is not closed");
      }
      const absl::string_view name = text.substr(i + 1, close - i - 1);
      result.slots_.push_back(name.empty() ? absl::StrCat(unnamed_count++) : std::string(name));
      result.texts_.emplace_back();
      i = close;
    } else if (c == '}') {
      return InvalidArgument("the brace at byte ", i, " of a template is unmatched");
    } else {
      result.texts_.back() += c;
    }
  }
  return result;
}

absl::StatusOr<std::string> Template::Render(const SlotValues& values) const { return Render({}, values); }

absl::StatusOr<std::string> Template::Render(const SlotValues& first, const SlotValues& values) const {
  std::string text = texts_[0];
  for (size_t i = 0; i < slots_.size(); ++i) {
    auto found = first.find(slots_[i]);
    if (found == first.end()) {
      found = values.find(slots_[i]);
      if (found == values.end()) return InvalidArgument("the template's slot {", slots_[i], "} has no value");
    }
    absl::StrAppend(&text, found->second, texts_[i + 1]);
  }
  return text;
}

absl::StatusOr<std::string> RenderText(absl::string_view text, const SlotValues& values) {
  ASSIGN_OR_RETURN(const Template parsed, Template::Parse(text));
  return parsed.Render(values);
}

absl::StatusOr<std::string> PythonRepr(const Json& value) {
  if (value.is_string()) return varifocal::PythonRepr(value.get_ref<const std::string&>());
  if (!value.is_array()) return PythonStr(value);
  std::string items;
  for (const Json& item : value) {
    ASSIGN_OR_RETURN(const std::string text, PythonRepr(item));
    absl::StrAppend(&items, items.empty() ? "" : ", ", text);
  }
  return absl::StrCat("[", items, "]");
}

absl::StatusOr<std::string> PythonStr(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_null()) return std::string("None");
  if (value.is_boolean()) return std::string(value.get<bool>() ? "True" : "False");
  if (value.is_number_float()) return varifocal::PythonRepr(value.get<double>());
  if (value.is_number()) return value.dump();
  return InvalidArgument("is ", JsonKind(value), ", not a text or a number");
}

}  // namespace varifocal::helmet
