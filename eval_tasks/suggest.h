// "did you mean": the nearest of the known words to a misspelt one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

// The candidate nearest by edit distance (swaps of neighbours count one); empty when none is near enough to be a slip:
// at most a third of the word, and at most 3.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);
// "; did you mean \"recall_kv\"?" or, when nothing is near, "; known are a, b, c".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace varifocal
