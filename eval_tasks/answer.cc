#include "eval_tasks/answer.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace varifocal {

std::string ProcessAnswer(absl::string_view text, const std::vector<std::string>& stop_strings) {
  size_t end = text.size();
  for (const std::string& stop : stop_strings) {
    if (!stop.empty()) end = std::min(end, text.find(stop));
  }
  return std::string(absl::StripAsciiWhitespace(text.substr(0, end)));
}

}  // namespace varifocal
