// Untrusted input files: opened without blocking, regular files only, limited in size by kind.
//
// All files named by a user are read through this interface, so that a FIFO, a device, a directory or an endless file
// is an error, and never blocks a thread or exhausts memory. docs/input_files.md lists the kinds.
//
// Errors:  NOT_FOUND (no such file), PERMISSION_DENIED, INVALID_ARGUMENT (not a regular file; above the size limit
//          of its kind), RESOURCE_EXHAUSTED (no descriptor or memory left), DATA_LOSS (I/O error, or the file was
//          truncated), UNAVAILABLE (the file system does not answer, file_calls.h), all with the path.
// Threads: an InputFile may be shared; it reads at explicit offsets.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/file_error.h"
#include "base/file_roots.h"

namespace varifocal {

// A kind of input file and its size limit.
struct FileKind {
  const char* name;
  int64_t bytes_max;
  FileUse use = FileUse::kModel;
};

// config.json, generation_config.json, YAML, data.py
inline constexpr FileKind kConfigFile = {"a configuration file", 16 << 20};
inline constexpr FileKind kChatFormatFile = {"a chat_format.json", 1 << 20};
inline constexpr FileKind kTokenizerFile = {"a tokenizer.json", 128 << 20};
inline constexpr FileKind kWeightIndexFile = {"a safetensors index", 100'000'000};
// Rows of jsonl, short and HELMET tasks, novels.
inline constexpr FileKind kDataFile = {"a data file", int64_t{4} << 30, FileUse::kData};

// Identifies the content of a file as it was opened: any write changes ctime.
struct FileIdentity {
  uint64_t device = 0, inode = 0;
  int64_t size = 0, modified_ns = 0, changed_ns = 0;  // since 1970-01-01

  bool operator==(const FileIdentity&) const = default;
};

class InputFile {
 public:
  static absl::StatusOr<std::unique_ptr<InputFile>> Open(const std::string& path, FileUse use);
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  const FileIdentity& identity() const { return identity_; }  // as it was opened
  int64_t size() const { return identity_.size; }
  // The bytes of one read: fewer than `size` near the end of the file, 0 at the end.
  absl::StatusOr<size_t> ReadSomeAt(int64_t offset, size_t size, char* out) const;
  // Exactly `size` bytes from `offset` on, or DATA_LOSS.
  absl::Status ReadAt(int64_t offset, size_t size, char* out) const;
  // DATA_LOSS unless the file is as it was opened.
  absl::Status CheckUnchanged() const;

 private:
  struct Handle;  // shared with a read that was given up
  InputFile(std::string path, std::shared_ptr<Handle> handle, const FileIdentity& identity)
      : path_(std::move(path)), handle_(std::move(handle)), identity_(identity) {}

  const std::string path_;
  const std::shared_ptr<Handle> handle_;
  const FileIdentity identity_;
};

// The whole file as it is now.
absl::StatusOr<std::string> ReadFile(const std::string& path, const FileKind& kind);
// False when it is certain that nothing is there. A path outside of the roots counts as there: reading it is refused.
bool FileExists(const std::string& path, FileUse use);
// False also for what cannot be looked at, or does not answer.
bool IsDirectory(const std::string& path);

}  // namespace varifocal
