#include "eval_tasks/data_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/str_cat.h"

namespace varifocal {

absl::StatusOr<std::string> ReadDataFile(const std::string& path) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string bytes;
  char buffer[1 << 16];
  size_t size = 0;
  while ((size = std::fread(buffer, 1, sizeof(buffer), file.get())) > 0) bytes.append(buffer, size);
  if (std::ferror(file.get()) != 0) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  return bytes;
}

}  // namespace varifocal
