// Constants of a Python source: its string literals, and the values assigned to names at the top level.
//
// Nothing is executed. So the prompts of a benchmark are read from the user's checkout, and this repository has none.
//
// Errors: INVALID_ARGUMENT with the line.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// The literal whose quote is at `at`, escapes resolved (unless raw); advances `at` past it.
absl::StatusOr<std::string> ReadPythonString(absl::string_view source, size_t& at, bool is_raw);

// The value assigned to `name`: texts (also several in a row, or added), numbers, None, True, False; lists, tuples and
// sets as lists; dictionaries with texts as keys. NOT_FOUND when nothing is assigned.
absl::StatusOr<Json> PythonConstant(absl::string_view source, absl::string_view name);

// The first text assigned to `name` at any indentation, as a variable of a function has. NOT_FOUND without one.
absl::StatusOr<std::string> PythonTextOf(absl::string_view source, absl::string_view name);

}  // namespace varifocal
