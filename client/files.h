// Reads input files of the verbs: bytes, JSON lines, or an array of token ids.
//
// Errors: one sentence with the path: NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT for the content (with its line).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/json.h"

namespace varifocal::client {

// All bytes; "-" is standard input.
absl::StatusOr<std::string> ReadWholeFile(const std::string& path);

// Calls `visit` with each line as it is read, without white space at its ends; blank lines are skipped. Stops at the first
// error, which names the line, unless `on_error` is given: it gets the error of each line that is refused, and reading
// continues. Keeps one line in memory at a time. A file that is not text is an error.
absl::Status ForEachLine(const std::string& path,
                         const std::function<absl::Status(int64_t line_number, absl::string_view line)>& visit,
                         const std::function<void(const absl::Status&)>& on_error = nullptr);

// The same with the object of each line.
absl::Status ForEachJsonLine(const std::string& path, const std::function<absl::Status(const Json&)>& visit);
absl::Status ForEachJsonLine(const std::string& path,
                             const std::function<absl::Status(int64_t line_number, const Json&)>& visit);
absl::StatusOr<Json> ParseJsonObject(absl::string_view line);

// A JSON array of whole numbers, at least 0 and below 2^31.
absl::StatusOr<std::vector<int32_t>> TokenIdsOfJson(const Json& value);
absl::StatusOr<std::vector<int32_t>> ReadTokenIds(const std::string& path);

}  // namespace varifocal::client
