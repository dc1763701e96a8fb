#include "eval_tasks/answer.h"

#include <algorithm>

#include "absl/strings/ascii.h"

namespace varifocal {

absl::string_view BeforeStop(absl::string_view text, const std::vector<std::string>& stop_strings) {
  size_t end = text.size();
  for (const std::string& stop : stop_strings) {
    if (!stop.empty()) end = std::min(end, text.find(stop));
  }
  return text.substr(0, end);
}

std::string ProcessAnswer(absl::string_view text, const std::vector<std::string>& stop_strings) {
  return std::string(absl::StripAsciiWhitespace(BeforeStop(text, stop_strings)));
}

}  // namespace varifocal
