// Exit codes, and the distinction between usage errors and failures.
#pragma once

#include "absl/status/status.h"
#include "base/status_macros.h"

namespace varifocal::client {

enum class ExitCode { kDone = 0, kFailed = 1, kWrongUsage = 2 };

// Converts a status of another library about user input to a usage error.
absl::Status AsUsageError(const absl::Status& status);
// INVALID_ARGUMENT that ends the program with kWrongUsage: errors in flags and suite files, before any work.
template <typename... Parts>
absl::Status UsageError(const Parts&... parts) {
  return AsUsageError(InvalidArgument(parts...));
}
ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace varifocal::client
