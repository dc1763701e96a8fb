#include "tokenizer/component.h"

#include <algorithm>

#include "base/status_macros.h"

namespace varifocal {

absl::Status CheckKeys(const Json& object, absl::string_view place, std::initializer_list<absl::string_view> known) {
  if (!object.is_object()) return InvalidArgument(place, " must be an object, not ", object.type_name());
  for (const auto& item : object.items()) {
    if (item.key() == "type" || std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    return InvalidArgument(place, ": the key \"", item.key(), "\" is not supported");
  }
  return absl::OkStatus();
}

absl::StatusOr<const Json*> GetMember(const Json& object, absl::string_view key) {
  if (object.is_object()) {
    auto found = object.find(std::string(key));
    if (found != object.end()) return &*found;
  }
  return InvalidArgument("\"", key, "\" is missing");
}

absl::StatusOr<absl::string_view> GetComponentType(const Json& object, absl::string_view place) {
  if (!object.is_object()) return InvalidArgument(place, " must be an object, not ", object.type_name());
  ASSIGN_OR_RETURN(auto type, Annotate(GetMember(object, "type"), place));
  if (!type->is_string()) return InvalidArgument(place, ": \"type\" must be a string, not ", type->type_name());
  return absl::string_view(type->get_ref<const std::string&>());
}

absl::StatusOr<TextPattern> GetPattern(const Json& object, absl::string_view key) {
  ASSIGN_OR_RETURN(const Json* value, GetMember(object, key));
  RETURN_IF_ERROR(CheckKeys(*value, key, {"Regex", "String"}));
  ASSIGN_OR_RETURN(std::optional<std::string> regex, FindString(*value, "Regex"));
  ASSIGN_OR_RETURN(std::optional<std::string> text, FindString(*value, "String"));
  if (regex.has_value() == text.has_value()) {
    return InvalidArgument("\"", key, "\" must have either \"Regex\" or \"String\"");
  }
  const std::string& pattern = regex.has_value() ? *regex : *text;
  if (pattern.empty()) return InvalidArgument("\"", key, "\" is empty");
  return TextPattern{regex.has_value(), pattern};
}

absl::StatusOr<std::shared_ptr<const Regex>> CompilePattern(const TextPattern& pattern) {
  return pattern.is_regex ? Regex::Compile(pattern.text) : Regex::CompileLiteral(pattern.text);
}

absl::Status UnsupportedType(absl::string_view place, absl::string_view type, absl::string_view supported) {
  return InvalidArgument(place, ": the type \"", type, "\" is not supported; supported are ", supported);
}

}  // namespace varifocal
