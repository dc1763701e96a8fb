#include "base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>

#include "base/file_calls.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr size_t kPieceBytes = 1 << 20;

int64_t Nanoseconds(const timespec& time) { return time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec; }

FileIdentity IdentityOf(const struct stat& info) {
  return {.device = info.st_dev,
          .inode = info.st_ino,
          .size = info.st_size,
          .modified_ns = Nanoseconds(info.st_mtim),
          .changed_ns = Nanoseconds(info.st_ctim)};
}

const char* TypeName(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  if (S_ISSOCK(mode)) return "a socket";
  return "of another type";
}

absl::Status CheckRegular(const std::string& path, int fd, struct stat* info) {
  if (fstat(fd, info) != 0) return FileError(path, "inspect", errno);
  if (S_ISREG(info->st_mode)) return absl::OkStatus();
  return InvalidArgument(path, " is ", TypeName(info->st_mode), ", not a regular file");
}

absl::StatusOr<int> OpenRegular(const std::string& path, FileUse use, struct stat* info) {
  // Looked at before it is opened for reading, because opening alone has effects on some devices.
  ASSIGN_OR_RETURN(const int look, OpenConfined(path, use, O_PATH));
  absl::Status status = CheckRegular(path, look, info);
  close(look);
  RETURN_IF_ERROR(status);
  // Without O_NONBLOCK, opening a FIFO without a writer blocks; the flag has no effect on a regular file.
  ASSIGN_OR_RETURN(const int fd, OpenConfined(path, use, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  status = CheckRegular(path, fd, info);
  if (status.ok()) return fd;
  close(fd);
  return status;
}

}  // namespace

struct InputFile::Handle {
  explicit Handle(int fd) : fd(fd) {}
  // Closing may wait for the file system too.
  ~Handle() {
    CallFileSystemLater([closed = fd] { close(closed); });
  }
  const int fd;
};

absl::StatusOr<std::unique_ptr<InputFile>> InputFile::Open(const std::string& path, FileUse use) {
  struct Opened {
    absl::Status status;
    std::shared_ptr<Handle> handle;
    FileIdentity identity;
  };
  auto opened = std::make_shared<Opened>();
  RETURN_IF_ERROR(CallFileSystem(path, [opened, path, use] {
    struct stat info = {};
    const absl::StatusOr<int> fd = OpenRegular(path, use, &info);
    opened->status = fd.status();
    if (fd.ok()) opened->handle = std::make_shared<Handle>(*fd);
    opened->identity = IdentityOf(info);
  }));
  RETURN_IF_ERROR(opened->status);
  return std::unique_ptr<InputFile>(new InputFile(path, opened->handle, opened->identity));
}

absl::StatusOr<size_t> InputFile::ReadSomeAt(int64_t offset, size_t size, char* out) const {
  struct Piece {
    std::unique_ptr<char[]> bytes;
    ssize_t count = -1;
    int error = 0;
  };
  auto piece = std::make_shared<Piece>();
  piece->bytes.reset(new char[size]);  // not zeroed
  RETURN_IF_ERROR(CallFileSystem(path_, [piece, handle = handle_, offset, size] {
    do {
      piece->count = pread(handle->fd, piece->bytes.get(), size, offset);
      piece->error = errno;
    } while (piece->count < 0 && piece->error == EINTR);
  }));
  if (piece->count < 0) return FileError(path_, "read", piece->error);
  std::memcpy(out, piece->bytes.get(), static_cast<size_t>(piece->count));
  return static_cast<size_t>(piece->count);
}

absl::Status InputFile::ReadAt(int64_t offset, size_t size, char* out) const {
  while (size > 0) {
    ASSIGN_OR_RETURN(const size_t count, ReadSomeAt(offset, size, out));
    if (count == 0) {
      return DataLoss(path_, " became shorter while it was read: it had ", identity_.size,
                      " bytes and now ends at byte ", offset);
    }
    offset += static_cast<int64_t>(count);
    out += count;
    size -= count;
  }
  return absl::OkStatus();
}

absl::Status InputFile::CheckUnchanged() const {
  struct Looked {
    struct stat info = {};
    int error = 0;
  };
  auto looked = std::make_shared<Looked>();
  RETURN_IF_ERROR(CallFileSystem(path_, [looked, handle = handle_] {
    if (fstat(handle->fd, &looked->info) != 0) looked->error = errno;
  }));
  if (looked->error != 0) return FileError(path_, "inspect", looked->error);
  if (IdentityOf(looked->info) == identity_) return absl::OkStatus();
  return DataLoss(path_, " was changed while it was read; its content is not used");
}

absl::StatusOr<std::string> ReadFile(const std::string& path, const FileKind& kind) {
  ASSIGN_OR_RETURN(const std::unique_ptr<InputFile> file, InputFile::Open(path, kind.use));
  if (file->size() > kind.bytes_max) {
    return InvalidArgument(path, " has ", file->size(), " bytes; the limit of ", kind.name, " is ", kind.bytes_max);
  }
  std::string bytes;
  try {
    // Files of /proc report size 0, and a file may grow: read until the end, within the limit.
    for (size_t count = 1; count > 0; bytes.resize(bytes.size() - (kPieceBytes - count))) {
      const size_t at = bytes.size();
      if (at == 0) bytes.reserve(static_cast<size_t>(file->size()) + kPieceBytes);
      bytes.resize(at + kPieceBytes);
      ASSIGN_OR_RETURN(count, file->ReadSomeAt(static_cast<int64_t>(at), kPieceBytes, bytes.data() + at));
      if (static_cast<int64_t>(at + count) > kind.bytes_max) {
        return InvalidArgument(path, " has more than ", kind.bytes_max, " bytes, the limit of ", kind.name);
      }
    }
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("cannot read ", path, ": no memory for its ", file->size(), " bytes");
  }
  return bytes;
}

bool FileExists(const std::string& path, FileUse use) {
  auto is_missing = std::make_shared<bool>(false);
  const absl::Status answered = CallFileSystem(path, [is_missing, path, use] {
    const absl::StatusOr<int> fd = OpenConfined(path, use, O_PATH);
    if (fd.ok()) close(*fd);
    *is_missing = absl::IsNotFound(fd.status());
  });
  return !answered.ok() || !*is_missing;
}

bool IsDirectory(const std::string& path) {
  auto is_directory = std::make_shared<bool>(false);
  const absl::Status answered = CallFileSystem(path, [is_directory, path] {
    struct stat info = {};
    *is_directory = stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  });
  return answered.ok() && *is_directory;
}

}  // namespace varifocal
