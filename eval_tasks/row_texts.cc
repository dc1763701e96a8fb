#include "eval_tasks/row_texts.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json_strings.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal {

absl::StatusOr<Json> ParseRowObject(absl::string_view line) {
  ASSIGN_OR_RETURN(Json row, ParseJsonKeepingDigits(line));
  if (row.is_object()) return row;
  return InvalidArgument("is ", JsonKind(row), ", not a JSON object");
}

const Json* FindField(const Json& row, const std::string& field) {
  const auto found = row.find(field);
  return found == row.end() ? nullptr : &*found;
}

absl::StatusOr<std::string> TextOf(const Json* value, absl::string_view what) {
  if (value == nullptr) return InvalidArgument(what, " is missing");
  if (value->is_string()) return value->get<std::string>();
  if (value->is_number() || value->is_boolean()) return value->dump();
  return InvalidArgument(what, " is ", JsonKind(*value), value->is_null() ? "" : ", not a text");
}

absl::StatusOr<std::string> NonBlankTextOf(const Json* value, absl::string_view what) {
  ASSIGN_OR_RETURN(std::string text, TextOf(value, what));
  if (PythonStrip(text).empty()) return InvalidArgument(what, " is empty");
  return text;
}

absl::StatusOr<std::vector<std::string>> NonBlankTextsOf(const Json* value, absl::string_view what) {
  std::vector<std::string> texts;
  if (value == nullptr || !value->is_array()) {
    ASSIGN_OR_RETURN(std::string text, NonBlankTextOf(value, what));
    texts.push_back(std::move(text));
    return texts;
  }
  if (value->empty()) return InvalidArgument(what, " is an empty list");
  for (const Json& item : *value) {
    ASSIGN_OR_RETURN(std::string text, NonBlankTextOf(&item, absl::StrCat("text ", texts.size() + 1, " of ", what)));
    texts.push_back(std::move(text));
  }
  return texts;
}

}  // namespace varifocal
