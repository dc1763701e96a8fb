#include "base/file_error.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace varifocal {

absl::Status FileError(const std::string& path, absl::string_view action, int error) {
  std::string message = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::NotFoundError(message);
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
