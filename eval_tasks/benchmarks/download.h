// What a user has of a benchmark: a folder with upstream's checkout and data, in whatever arrangement.
//
// Files are found by the end of their path ("config/dataset2prompt.json"), the one with the shortest path first.
//
// Errors: NOT_FOUND with the folder, the file and where upstream keeps it; of base/files.h.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal::benchmarks {

class Download {
 public:
  // Lists the folder: at most kFilesMax files, eight levels.
  static absl::StatusOr<Download> Open(const std::string& folder);

  // The first of the path ends that a file has.
  std::optional<std::string> Find(const std::vector<std::string>& ends) const;
  // The same, or an error with `where` upstream keeps it.
  absl::StatusOr<std::string> Need(const std::vector<std::string>& ends, absl::string_view where) const;
  // All files whose path has this end, in order.
  std::vector<std::string> All(absl::string_view end) const;
  std::vector<std::string> WithSuffix(absl::string_view suffix) const;
  // The bytes of a small file that is needed; its digest goes to files().
  absl::StatusOr<std::string> Text(const std::vector<std::string>& ends, absl::string_view where);

  const std::string& folder() const { return folder_; }
  void Record(const std::string& path, const std::string& sha256) { files_[path] = sha256; }
  const std::map<std::string, std::string>& files() const { return files_; }  // SHA-256 of what was read

 private:
  std::string folder_;
  std::vector<std::string> paths_;  // relative, shortest first
  std::map<std::string, std::string> files_;
};

}  // namespace varifocal::benchmarks
