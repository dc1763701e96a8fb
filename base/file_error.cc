#include "base/file_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {

std::string TildeHint(absl::string_view path) {
  // "FOLDER/~/x" is "~/x" of a file in FOLDER, whose paths are relative to it.
  const bool is_home = path == "~" || absl::StartsWith(path, "~/") || absl::StrContains(path, "/~/");
  return is_home ? "; \"~\" is not expanded here: in a shell write $HOME, in a file the whole path" : "";
}

absl::Status FileError(const std::string& path, absl::string_view action, int error) {
  std::string message = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFound(message, TildeHint(path));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(message);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::ResourceExhaustedError(message);
    case EIO:
    case ESTALE:
      return absl::DataLossError(message);
    default:
      return absl::InvalidArgumentError(message);
  }
}

}  // namespace varifocal
