// What the rules read of a source: its lines, its kind, its includes.
#pragma once

#include <string>
#include <vector>

#include "tests/tidy/rules.h"

namespace varifocal::tidy {

using Complaints = std::vector<Complaint>;

std::vector<std::string> Lines(const std::string& text);
bool StartsWith(const std::string& text, const std::string& prefix);
bool EndsWith(const std::string& text, const std::string& suffix);
bool IsCpp(const std::string& path);

// Parses an include line; false for other lines.
bool ParseInclude(const std::string& line, std::string* target, bool* quoted);

struct Include {
  const SourceFile* file;
  std::string target;
};
std::vector<Include> AllIncludes(const std::vector<SourceFile>& files);

}  // namespace varifocal::tidy
