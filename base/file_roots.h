// Which directories the files that requests name must be in.
//
// A daemon reachable by users other than its own reads checkpoints and data files below its roots alone. Every file
// of base/files.h is opened through OpenConfined, so no reader can bypass the rule: once the process is confined, a path
// is resolved by openat2 with RESOLVE_BENEATH from a root's descriptor, and neither "..", nor a symbolic link, nor a
// link of /proc leads out. A link inside of a root to another place below it is followed, a link with an absolute
// target is not.
//
// Errors:  PERMISSION_DENIED (PATH_OUTSIDE_ROOTS): one sentence for every path outside, whether it exists or not.
// Threads: Confine once, before requests are served; OpenConfined any.
// Source:  Linux, openat2(2) (5.6 and later).
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace varifocal {

// Of a checkpoint directory; named by a job's task; named by the daemon's own flags, and never confined.
enum class FileUse { kModel, kData, kOwn };

struct FileRoots {
  std::vector<std::string> model_roots;  // --model-root
  std::vector<std::string> data_roots;   // --data-root
  // Named by the daemon's own command line or environment: read as they are, links that lead out included.
  std::vector<std::string> own_model_directories;
  std::vector<std::string> own_data_directories;

  bool empty() const { return model_roots.empty() && data_roots.empty(); }
};

// From now on, for the whole process. With roots of one kind alone, no file of the other kind may be named.
// INVALID_ARGUMENT (BAD_FILE_ROOT) naming the root that is no directory, or a kernel without openat2.
absl::Status ConfineFiles(const FileRoots& roots);
void UnconfineFilesForTesting();

// open(2) with O_CLOEXEC and `flags`, inside of the roots where the process is confined.
absl::StatusOr<int> OpenConfined(const std::string& path, FileUse use, int flags);

}  // namespace varifocal
