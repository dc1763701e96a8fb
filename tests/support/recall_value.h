// The right answer to a question of recall_kv, read out of its prompt: for fakes that answer all of them.
//
// Threads: a pure function.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"

namespace varifocal {
inline namespace testing_support {

// The value of the key that a recall_kv prompt asks for: its last line that begins with a quotation mark is the key, or in a
// chat form what the question has in quotation marks. "" where the prompt is no such question.
inline std::string RecallValue(const std::string& prompt) {
  const std::string before = "value of the key \"";
  const size_t asked = prompt.find(before);
  const size_t line = asked == std::string::npos ? prompt.rfind("\n\"") : asked + before.size() - 2;
  const size_t end = prompt.find(asked == std::string::npos ? ":\"" : "\"?", line);
  const std::string key =
      absl::StrCat(prompt.substr(line + 1, end - line - 1), asked == std::string::npos ? "" : "\"", ":\"");
  const size_t found = prompt.find(key);
  if (found == std::string::npos) return "";
  const size_t at = found + key.size();
  return prompt.substr(at, prompt.find('"', at) - at);
}

}  // namespace testing_support
}  // namespace varifocal
