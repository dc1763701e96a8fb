// Exit codes, and the difference between "you asked for something impossible" and "it did not work".
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal::client {

enum class ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2 };

// INVALID_ARGUMENT that ends the program with kWrongUsage: flags and suite files, before anything was tried.
absl::Status UsageError(absl::string_view message);
// The same of a status that another room gave for what the user typed.
absl::Status AsUsageError(const absl::Status& status);
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace varifocal::client
