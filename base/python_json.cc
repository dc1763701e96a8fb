#include "base/python_json.h"

#include <string>

#include "absl/strings/match.h"

namespace varifocal {

absl::StatusOr<Json> ParsePythonJson(absl::string_view text) {
  constexpr absl::string_view kWord = "Infinity";
  if (!absl::StrContains(text, kWord)) return ParseJson(text);
  std::string standard;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') in_string = !in_string;
    const char before = i == 0 ? ' ' : text[i - 1];
    if (!in_string && text.substr(i, kWord.size()) == kWord && absl::StrContains(" \t\r\n[,:", before)) {
      standard += R"({"__float__":"Infinity"})";
      i += kWord.size() - 1;
      continue;
    }
    standard += text[i];
    if (in_string && text[i] == '\\' && i + 1 < text.size()) standard += text[++i];
  }
  return ParseJson(standard);
}

}  // namespace varifocal
