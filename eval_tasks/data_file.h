// A user's data file, whole.
//
// Errors: NOT_FOUND "PATH: why".
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace varifocal {

absl::StatusOr<std::string> ReadDataFile(const std::string& path);

}  // namespace varifocal
