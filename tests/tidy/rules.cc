#include "tests/tidy/rules.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/tidy/source_text.h"

namespace varifocal::tidy {

std::vector<SourceFile> ReadTree(const std::string& root) {
  static const std::vector<std::string> kEndings = {".h",  ".cc", ".cu", ".cuh",  ".sql",  ".proto",
                                                    ".py", ".sh", ".md", ".yaml", ".cmake"};
  static const std::vector<std::string> kSkipped = {"build", ".git", "demo", ".venv", "goldens"};
  std::vector<SourceFile> files;
  for (auto it = std::filesystem::recursive_directory_iterator(root); it != std::filesystem::end(it); ++it) {
    const std::string name = it->path().filename().string();
    if (it->is_directory() && std::count(kSkipped.begin(), kSkipped.end(), name) > 0 &&
        !(name == "goldens" && EndsWith(it->path().parent_path().string(), "recipes"))) {
      it.disable_recursion_pending();
      continue;
    }
    const bool wanted =
        name == "CMakeLists.txt" ||
        std::any_of(kEndings.begin(), kEndings.end(), [&](const std::string& e) { return EndsWith(name, e); });
    if (!it->is_regular_file() || !wanted) continue;
    std::ifstream stream(it->path(), std::ios::binary);
    std::ostringstream text;
    text << stream.rdbuf();
    files.push_back({std::filesystem::relative(it->path(), root).generic_string(), text.str()});
  }
  std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

Complaints CheckFile(const SourceFile& file) {
  Complaints all;
  for (const auto& rule :
       {CheckIncludeEdges, CheckThirdPartyHomes, CheckHeaderOpening, CheckLeftovers, CheckBannedCalls, CheckLocks,
        CheckSql, CheckLineLength, CheckWording, CheckPipes, CheckPinnedProse}) {
    const Complaints found = rule(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

Complaints CheckTree(const std::vector<SourceFile>& files) {
  Complaints all;
  for (const SourceFile& file : files) {
    const Complaints found = CheckFile(file);
    all.insert(all.end(), found.begin(), found.end());
  }
  for (const auto& rule : {CheckDeadFiles, CheckDeadNames, CheckRulesAreUsed}) {
    const Complaints found = rule(files);
    all.insert(all.end(), found.begin(), found.end());
  }
  return all;
}

}  // namespace varifocal::tidy
