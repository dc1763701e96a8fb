// Test fixture: the small synthetic release (testdata/fixture.json), written as files.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/match.h"
#include "base/json.h"

namespace varifocal::helmet {

inline constexpr char kReleaseFolder[] = "eval_tasks/helmet/import/testdata";

// Expands {"$repeat": [text, n]} and {"$concat": [..]}.
inline Json Expanded(const Json& value) {
  if (value.is_object() && value.contains("$repeat")) {
    std::string text;
    for (int i = 0; i < value["$repeat"][1]; ++i) text += value["$repeat"][0].get<std::string>();
    return text;
  }
  if (value.is_object() && value.contains("$concat")) {
    std::string text;
    for (const Json& part : value["$concat"]) text += Expanded(part).get<std::string>();
    return text;
  }
  if (!value.is_structured()) return value;
  Json expanded = value;
  for (auto& item : expanded) item = Expanded(item);
  return expanded;
}

inline void WriteRelease(const std::filesystem::path& root) {
  std::ifstream file(std::string(kReleaseFolder) + "/fixture.json", std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const Json files = ParseJson(text.str()).value();
  for (const auto& [path, content] : files.items()) {
    std::string bytes;
    if (content.is_string()) {
      bytes = content;
    } else if (absl::EndsWith(path, ".jsonl")) {
      for (const Json& row : content) bytes += Expanded(row).dump() + "\n";
    } else {
      bytes = Expanded(content).dump();
    }
    std::filesystem::create_directories((root / path).parent_path());
    std::ofstream(root / path, std::ios::binary) << bytes;
  }
}

}  // namespace varifocal::helmet
