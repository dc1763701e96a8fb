// "did you mean": the known word nearest to a misspelt one.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

// The shortest candidate that a word of at least three letters begins; else the nearest by edit distance (adjacent
// transpositions count one); empty when none is within a third of the word's length and within 3.
std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates);
// "; did you mean \"recall_kv\"?" or, when nothing is near, "; known are a, b, c".
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

// Of rows that have a `name`.
template <typename Rows>
std::vector<std::string> NamesOf(const Rows& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) names.emplace_back(row.name);
  return names;
}

}  // namespace varifocal
