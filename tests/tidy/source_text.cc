#include "tests/tidy/source_text.h"

#include <regex>
#include <sstream>

namespace varifocal::tidy {

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool StartsWith(const std::string& text, const std::string& prefix) { return text.rfind(prefix, 0) == 0; }

bool EndsWith(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool IsCpp(const std::string& path) {
  return EndsWith(path, ".h") || EndsWith(path, ".cc") || EndsWith(path, ".cu") || EndsWith(path, ".cuh");
}

bool ParseInclude(const std::string& line, std::string* target, bool* quoted) {
  static const std::regex include(R"(^\s*#\s*include\s+([<"])([^>"]+)[>"])");
  std::smatch match;
  if (!std::regex_search(line, match, include)) return false;
  *target = match[2];
  *quoted = match[1] == "\"";
  return true;
}

std::vector<Include> AllIncludes(const std::vector<SourceFile>& files) {
  std::vector<Include> includes;
  for (const SourceFile& file : files) {
    if (!IsCpp(file.path)) continue;
    for (const std::string& line : Lines(file.text)) {
      std::string target;
      bool quoted;
      if (ParseInclude(line, &target, &quoted)) includes.push_back({&file, target});
    }
  }
  return includes;
}

}  // namespace varifocal::tidy
