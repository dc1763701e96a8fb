// The status of a failed system call on a file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// What to do about a path that has "~" where a shell would expand it, as "; ..", for the end of a sentence about a missing
// file; "" for any other path.
std::string TildeHint(absl::string_view path);

// E.g. "cannot open PATH: No such file or directory", with the status code of `error` (errno).
absl::Status FileError(const std::string& path, absl::string_view action, int error);

}  // namespace varifocal
