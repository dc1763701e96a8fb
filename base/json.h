// JSON: a strict parser that rejects duplicate keys, typed getters that name the key in their error, stable output.
//
// nlohmann's parser keeps the last of two equal keys, so two readers of one file may disagree; this one rejects them.
//
// Errors: INVALID_ARGUMENT with the byte offset (parsing) or the key (getters).
// Cost:   objects are sorted maps, so output is sorted and look-ups are O(log n).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

namespace varifocal {

using Json = nlohmann::json;

// Rejects duplicate keys, more than 256 levels, bytes after the value, invalid UTF-8.
absl::StatusOr<Json> ParseJson(absl::string_view text);

// Compact, keys sorted, doubles in the shortest form that reads back the same. INVALID_ARGUMENT when a number is not
// finite (JSON cannot represent it) or a string is not UTF-8.
absl::StatusOr<std::string> DumpJson(const Json& value);

// Values of an object by key. `Get*` fail when the key is missing or of another type; `Find*` return nullopt when it is
// missing or null, and fail only on another type.
absl::StatusOr<std::string> GetString(const Json& object, absl::string_view key);
absl::StatusOr<int64_t> GetInt(const Json& object, absl::string_view key);
absl::StatusOr<double> GetDouble(const Json& object, absl::string_view key);
absl::StatusOr<bool> GetBool(const Json& object, absl::string_view key);
absl::StatusOr<std::optional<std::string>> FindString(const Json& object, absl::string_view key);
absl::StatusOr<std::optional<int64_t>> FindInt(const Json& object, absl::string_view key);
absl::StatusOr<std::optional<double>> FindDouble(const Json& object, absl::string_view key);
absl::StatusOr<std::optional<bool>> FindBool(const Json& object, absl::string_view key);

// The first difference of two documents: its place, such as "suite.tasks[2].name", and both values, shortened.
struct JsonDifference {
  std::string place, before, after;
};
std::optional<JsonDifference> FirstDifference(const Json& before, const Json& after);
// The same of two texts; one that is no JSON is null.
std::optional<JsonDifference> FirstTextDifference(absl::string_view before, absl::string_view after);

// The value, null where there is none.
template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value.has_value() ? Json(*value) : Json();
}

}  // namespace varifocal
