// What upstream's scripts say in literals: prompts are read from the user's checkout, and are not in this repository.
//
// Supported: texts in one or three quotes, double or single, with the escapes \n \t \\ \' \"; integers; dictionaries of
// them; comments. Templates are those of str.format, with named slots, {{ and }}.
//
// Errors: INVALID_ARGUMENT naming what is missing or cannot be read, and the line.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal::ruler {

// The first `name = {..}` at the start of a line.
absl::StatusOr<Json> FindPythonDictionary(absl::string_view source, absl::string_view name);
// The first `name = ".."` of any indentation whose value is a text.
absl::StatusOr<std::string> FindPythonText(absl::string_view source, absl::string_view name);

absl::StatusOr<std::string> FormatSlots(absl::string_view format, const std::map<std::string, std::string>& slots);

}  // namespace varifocal::ruler
