// JSON values as texts: lists of strings, numbers with all their digits, and words for messages.
//
// Errors: INVALID_ARGUMENT naming the key, or of ParseJson.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/json.h"

namespace varifocal {

// As ParseJson, but a number that a double would round (a whole number above 64 bits, or more digits than a double has)
// becomes a text, as it is written.
absl::StatusOr<Json> ParseJsonKeepingDigits(absl::string_view text);

// "a list", "an object", "a text", "a number", "a truth value", "null".
absl::string_view JsonKind(const Json& value);

// The strings of `object[key]`, which may be empty. Fails if the key is missing or not a list of strings.
absl::StatusOr<std::vector<std::string>> GetStrings(const Json& object, absl::string_view key);
// As GetStrings, and fails on an empty list.
absl::StatusOr<std::vector<std::string>> GetNonEmptyStrings(const Json& object, absl::string_view key);

}  // namespace varifocal
