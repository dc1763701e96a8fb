// Exit codes, and the distinction between usage errors and failures.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal::client {

enum class ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2 };

// INVALID_ARGUMENT that ends the program with kWrongUsage: errors in flags and suite files, before any work.
absl::Status UsageError(absl::string_view message);
// Converts a status of another library about user input to a usage error.
absl::Status AsUsageError(const absl::Status& status);
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace varifocal::client
