// Lists of strings in JSON objects.
//
// Errors: INVALID_ARGUMENT naming the key.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// The strings of `object[key]`, which may be empty. Fails if the key is missing or not a list of strings.
absl::StatusOr<std::vector<std::string>> GetStrings(const Json& object, absl::string_view key);
// As GetStrings, and fails on an empty list.
absl::StatusOr<std::vector<std::string>> GetNonEmptyStrings(const Json& object, absl::string_view key);

}  // namespace varifocal
