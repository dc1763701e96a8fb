// Texts of a user's row: a text itself; a number or a truth value as the row writes it.
//
// One rule for rows and for `varifocal metric`, so that both accept the same gold answers. `what` names the value in
// errors: the field "a".
//
// Errors: INVALID_ARGUMENT for a value that is missing (null pointer), null, an object, a list of lists, or blank.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// The row, with numbers as texts where a double would round them.
absl::StatusOr<Json> ParseRowObject(absl::string_view line);

// Null where the row has no such field.
const Json* FindField(const Json& row, const std::string& field);

absl::StatusOr<std::string> TextOf(const Json* value, absl::string_view what);
// The same, and not white space alone.
absl::StatusOr<std::string> NonBlankTextOf(const Json* value, absl::string_view what);
// One such text, or a list of at least one.
absl::StatusOr<std::vector<std::string>> NonBlankTextsOf(const Json* value, absl::string_view what);

}  // namespace varifocal
