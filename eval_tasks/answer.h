// Extracts the scored answer from a model's output: the text before the first stop string, stripped of white space.
//
// Both are stored, so that a change here affects scoring only, not inference.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

// The stop string that begins earliest wins, as in an engine that stops there.
absl::string_view BeforeStop(absl::string_view text, const std::vector<std::string>& stop_strings);
// The same without ASCII white space at either end.
std::string ProcessAnswer(absl::string_view text, const std::vector<std::string>& stop_strings);

}  // namespace varifocal
