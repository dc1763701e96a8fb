#include "eval_tasks/benchmarks/download.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/sha256.h"
#include "base/status_macros.h"

namespace varifocal::benchmarks {
namespace {

constexpr size_t kFilesMax = 200'000;
constexpr int kLevelsMax = 8;

}  // namespace

absl::StatusOr<Download> Download::Open(const std::string& folder) {
  namespace fs = std::filesystem;
  Download download;
  download.folder_ = folder;
  std::error_code error, of_entry;
  if (!fs::is_directory(folder, error)) return NotFound(folder, " is not a directory");
  // Links are followed, as in a cache of downloads; the levels bound those that lead back.
  fs::recursive_directory_iterator entries(
      folder, fs::directory_options::skip_permission_denied | fs::directory_options::follow_directory_symlink, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    if (entries->path().filename() == ".git" || entries.depth() >= kLevelsMax) entries.disable_recursion_pending();
    if (!entries->is_regular_file(of_entry)) continue;  // a link to nothing is no file
    download.paths_.push_back(entries->path().lexically_relative(folder).generic_string());
    if (download.paths_.size() > kFilesMax) {
      return InvalidArgument(folder, " has more than ", kFilesMax, " files; name a folder with the benchmark alone");
    }
  }
  if (error) return Unavailable(folder, " cannot be listed: ", error.message());
  std::sort(download.paths_.begin(), download.paths_.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  return download;
}

std::vector<std::string> Download::All(absl::string_view end) const {
  std::vector<std::string> found;
  const std::string below = absl::StrCat("/", end);
  for (const std::string& path : paths_) {
    if (path == end || absl::EndsWith(path, below)) found.push_back(absl::StrCat(folder_, "/", path));
  }
  return found;
}

std::vector<std::string> Download::WithSuffix(absl::string_view suffix) const {
  std::vector<std::string> found;
  for (const std::string& path : paths_) {
    if (absl::EndsWith(path, suffix)) found.push_back(absl::StrCat(folder_, "/", path));
  }
  return found;
}

std::optional<std::string> Download::Find(const std::vector<std::string>& ends) const {
  for (const std::string& end : ends) {
    const std::vector<std::string> found = All(end);
    if (!found.empty()) return found[0];
  }
  return std::nullopt;
}

absl::StatusOr<std::string> Download::Need(const std::vector<std::string>& ends, absl::string_view where) const {
  const std::optional<std::string> path = Find(ends);
  if (path.has_value()) return *path;
  return NotFound(folder_, " has no ", ends[0], ", which is in ", where);
}

absl::StatusOr<std::string> Download::Text(const std::vector<std::string>& ends, absl::string_view where) {
  ASSIGN_OR_RETURN(const std::string path, Need(ends, where));
  ASSIGN_OR_RETURN(std::string text, ReadFile(path, kConfigFile));
  Record(path, Sha256Hex(text));
  return text;
}

}  // namespace varifocal::benchmarks
