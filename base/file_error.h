// The status of a failed system call on a file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// E.g. "cannot open PATH: No such file or directory", with the status code of `error` (errno).
absl::Status FileError(const std::string& path, absl::string_view action, int error);

}  // namespace varifocal
