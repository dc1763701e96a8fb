// The similarity of two texts as Python's difflib and as python-Levenshtein compute it: twice the matched characters
// over all characters.
//
// They differ in what matches. difflib takes the longest common block and recurses to its left and right; of a second
// text of 200 characters or more it first ignores those characters that are above 1 % of it ("autojunk"). Levenshtein's
// ratio takes the longest common subsequence.
//
// Source: CPython 3.11, difflib.SequenceMatcher(None, a, b).ratio(); python-Levenshtein 0.27, ratio().
// Cost:   difflib: for each block the pairs of equal characters; Levenshtein: the product of the lengths over 64.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// INVALID_ARGUMENT for more than kSequenceCharactersMax code points on one side.
inline constexpr int kSequenceCharactersMax = 1 << 18;

absl::StatusOr<double> DifflibRatio(absl::string_view a, absl::string_view b);
absl::StatusOr<double> LevenshteinRatio(absl::string_view a, absl::string_view b);

}  // namespace varifocal
