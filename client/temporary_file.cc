#include "client/temporary_file.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace varifocal::client {

absl::StatusOr<TemporaryFile> TemporaryFile::Make(const std::string& name) {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::temp_directory_path(error);
  std::string path = (directory / absl::StrCat("varifocal-", name, "-XXXXXX")).string();
  const int descriptor = error ? -1 : mkostemp(path.data(), 0);
  if (descriptor < 0) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot make a temporary file ", path, "; set TMPDIR."));
  }
  close(descriptor);
  return TemporaryFile(std::move(path));
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) std::remove(path_.c_str());
}

}  // namespace varifocal::client
