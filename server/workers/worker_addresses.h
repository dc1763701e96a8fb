// Addresses of workers, and what they resolve to.
//
// Errors:  INVALID_ARGUMENT naming the address that is none.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace varifocal {

// Of "a:1,b:2" without blanks.
absl::StatusOr<std::vector<std::string>> ParseWorkerAddresses(const std::string& text);
absl::Status CheckWorkerAddresses(const std::vector<std::string>& addresses);

// Every numeric address of a HOST:PORT, "unix:PATH" as it is; empty when the name cannot be resolved now. Blocks.
std::vector<std::string> ResolveWorker(const std::string& address);

}  // namespace varifocal
