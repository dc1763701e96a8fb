#include "base/file_roots.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "base/file_error.h"
#include "base/reason.h"
#include "base/status_macros.h"

namespace varifocal {
namespace {

constexpr int kRaceAttempts = 16;  // EAGAIN: something was renamed while the path was resolved

struct Root {
  int fd;
  std::vector<std::string> names;  // as it was given and as it resolves; absolute, without a slash at the end
};

struct Uses {
  std::vector<Root> roots;
  std::vector<std::string> own_directories;
  const char* flag;
};

struct Confinement {
  ~Confinement() {
    for (const Uses* uses : {&model, &data}) {
      for (const Root& root : uses->roots) close(root.fd);
    }
  }
  Uses model, data;
};

// Replaced by tests alone, while no file is opened.
std::atomic<const Confinement*> confinement{nullptr};

// Absolute, without "." and "..". What is opened is still resolved step by step from a root, so a ".." that would have
// passed through a link leads to another file at worst, never outside.
std::string Normal(const std::string& path) {
  std::error_code error;
  std::string normal = std::filesystem::absolute(path, error).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return error ? path : normal;
}

// What is left of `path` below `directory`; none when it is not below.
std::optional<std::string> Below(const std::string& path, const std::string& directory) {
  if (path == directory) return ".";
  const std::string prefix = directory == "/" ? directory : directory + "/";
  if (!absl::StartsWith(path, prefix)) return std::nullopt;
  return path.substr(prefix.size());
}

int OpenBeneath(int root, const std::string& path, int flags) {
  open_how how = {};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  for (int attempt = 1;; ++attempt) {
    const long fd = syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how));
    if (fd >= 0 || errno != EAGAIN || attempt == kRaceAttempts) return fd;
  }
}

absl::Status Outside(const std::string& path, const char* flag) {
  return WithReason(PermissionDenied(path, " is not below a directory of ", flag), ErrorReason::kPathOutsideRoots);
}

absl::Status AddRoots(const std::vector<std::string>& directories, Uses* uses) {
  for (const std::string& directory : directories) {
    const auto refused = [&](int error) {
      return WithReason(InvalidArgument(uses->flag, "=", directory, ": ", std::strerror(error)),
                        ErrorReason::kBadFileRoot);
    };
    const int fd = open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return refused(errno);
    uses->roots.push_back({fd, {Normal(directory)}});
    std::error_code error;
    const std::string resolved = std::filesystem::canonical(directory, error).string();
    if (!error) uses->roots.back().names.push_back(resolved);
    const int probe = OpenBeneath(fd, ".", O_PATH);
    if (probe < 0) return refused(errno);
    close(probe);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ConfineFiles(const FileRoots& roots) {
  auto made = std::make_unique<Confinement>();
  made->model.flag = "--model-root";
  made->data.flag = "--data-root";
  RETURN_IF_ERROR(AddRoots(roots.model_roots, &made->model));
  RETURN_IF_ERROR(AddRoots(roots.data_roots, &made->data));
  for (const std::string& own : roots.own_model_directories) made->model.own_directories.push_back(Normal(own));
  for (const std::string& own : roots.own_data_directories) made->data.own_directories.push_back(Normal(own));
  delete confinement.exchange(made.release());
  return absl::OkStatus();
}

void UnconfineFilesForTesting() { delete confinement.exchange(nullptr); }

absl::StatusOr<int> OpenConfined(const std::string& path, FileUse use, int flags) {
  const auto opened = [&](int fd) -> absl::StatusOr<int> {
    if (fd >= 0) return fd;
    return FileError(path, "open", errno);
  };
  const Confinement* const confined = confinement;
  if (confined == nullptr || use == FileUse::kOwn) return opened(open(path.c_str(), flags | O_CLOEXEC));
  const Uses& uses = use == FileUse::kModel ? confined->model : confined->data;
  const std::string normal = Normal(path);
  for (const std::string& own : uses.own_directories) {
    if (Below(normal, own)) return opened(open(normal.c_str(), flags | O_CLOEXEC));
  }
  absl::Status refused = Outside(path, uses.flag);
  for (const Root& root : uses.roots) {
    for (const std::string& name : root.names) {
      const std::optional<std::string> below = Below(normal, name);
      if (!below) continue;
      const int fd = OpenBeneath(root.fd, *below, flags);
      if (fd >= 0) return fd;
      if (errno != EXDEV && errno != ELOOP) refused = FileError(path, "open", errno);
    }
  }
  return refused;
}

}  // namespace varifocal
