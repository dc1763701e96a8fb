#include "server/model/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

absl::Status SystemError(const std::string& path, const char* action, int error) {
  std::string message = absl::StrCat("cannot ", action, " ", path, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::InvalidArgumentError(message);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(const std::string& path) {
  Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return SystemError(path, "open", errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return SystemError(path, "inspect", errno);
  if (!S_ISREG(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  auto file = std::unique_ptr<MappedFile>(new MappedFile);
  file->path_ = path;
  file->size_ = static_cast<size_t>(info.st_size);
  file->modified_ns_ = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec;
  file->inode_ = info.st_ino;
  if (file->size_ > 0) {
    void* address = mmap(nullptr, file->size_, PROT_READ, MAP_PRIVATE, fd.get(), 0);
    if (address == MAP_FAILED) return SystemError(path, "map", errno);
    file->address_ = address;
  }
  return file;
}

MappedFile::~MappedFile() {
  if (address_ != nullptr) munmap(address_, size_);
}

void MappedFile::Release(absl::string_view part) const {
  if (address_ == nullptr) return;
  const uintptr_t page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t file_end = reinterpret_cast<uintptr_t>(address_) + size_;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  uintptr_t end = reinterpret_cast<uintptr_t>(part.data()) + part.size();
  // Pages that reach into a neighbour stay; the file's last one has none.
  end = end == file_end ? (end + page - 1) / page * page : end / page * page;
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
}

absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t bytes_max) {
  ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> file, MappedFile::Open(path));
  if (static_cast<int64_t>(file->bytes().size()) > bytes_max) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", file->bytes().size(), " bytes; the limit is ", bytes_max));
  }
  return std::string(file->bytes());
}

bool FileExists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

}  // namespace varifocal
