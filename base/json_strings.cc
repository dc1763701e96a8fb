#include "base/json_strings.h"

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace varifocal {

absl::StatusOr<std::vector<std::string>> GetStrings(const Json& object, absl::string_view key) {
  const auto found = object.find(std::string(key));
  bool is_valid = found != object.end() && found->is_array();
  std::vector<std::string> strings;
  if (is_valid) {
    for (const Json& item : *found) {
      is_valid = is_valid && item.is_string();
      if (is_valid) strings.push_back(item.get<std::string>());
    }
  }
  if (!is_valid) return InvalidArgument("\"", key, "\" must be a list of texts");
  return strings;
}

absl::StatusOr<std::vector<std::string>> GetNonEmptyStrings(const Json& object, absl::string_view key) {
  ASSIGN_OR_RETURN(std::vector<std::string> strings, GetStrings(object, key));
  if (strings.empty()) return InvalidArgument("\"", key, "\" must have at least 1 text");
  return strings;
}

}  // namespace varifocal
