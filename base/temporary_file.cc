#include "base/temporary_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/file_error.h"

namespace varifocal {
namespace {

void RemoveWithSiblings(const std::string& path) {
  for (const char* end : {"-journal", "-wal", "-shm", ".lock", ""}) unlink(absl::StrCat(path, end).c_str());
}

// Whether the locked file is still the one at its path: who had the lock before may have removed it.
bool IsAt(int fd, const std::string& path) {
  struct stat opened, named;
  return fstat(fd, &opened) == 0 && lstat(path.c_str(), &named) == 0 && opened.st_dev == named.st_dev &&
         opened.st_ino == named.st_ino;
}

// A file of the prefix and a number, without more.
bool IsOfPrefix(absl::string_view name, absl::string_view prefix) {
  return name.size() > prefix.size() && name.substr(0, prefix.size()) == prefix &&
         std::all_of(name.begin() + prefix.size(), name.end(), absl::ascii_isdigit);
}

void RemoveLeftovers(const std::string& prefix) {
  const std::filesystem::path pattern = prefix;
  const std::filesystem::path directory = pattern.parent_path().empty() ? "." : pattern.parent_path();
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (!IsOfPrefix(entry->path().filename().string(), pattern.filename().string())) continue;
    const std::string path = entry->path().string();
    const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && IsAt(fd, path)) RemoveWithSiblings(path);
    close(fd);
  }
}

}  // namespace

TemporaryFile::TemporaryFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

TemporaryFile::TemporaryFile(TemporaryFile&& other) noexcept
    : path_(std::exchange(other.path_, "")), fd_(std::exchange(other.fd_, -1)) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  return *this;
}

TemporaryFile::~TemporaryFile() {
  if (!path_.empty()) RemoveWithSiblings(path_);
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<TemporaryFile> TemporaryFile::Make(const std::string& prefix) {
  constexpr int kNameCountMax = 1000;
  RemoveLeftovers(prefix);
  std::string path;
  // A name may be another process's of another namespace, or one that removes leftovers may hold the new file for a moment.
  for (int i = 0; i < kNameCountMax; ++i) {
    path = absl::StrCat(prefix, getpid(), i == 0 ? "" : absl::StrCat("0", i));
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) return FileError(path, "create", errno);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || !IsAt(fd, path)) {
      close(fd);
      continue;
    }
    TemporaryFile made(path, fd);
    if (ftruncate(fd, 0) != 0) return FileError(path, "create", errno);
    return made;
  }
  return FileError(path, "lock", EAGAIN);
}

}  // namespace varifocal
