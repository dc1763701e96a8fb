// Comparison of an answer with a gold answer as both are written: digits, points, signs and articles count.
//
// Ignored are case, the amount of white space, and marks at the ends (AnswerEnds). A text of marks alone keeps them.
//
// Two uses: gold answers of which normalisation (normalize.h) leaves nothing, such as "A" and "+"; and the metrics
// written_match and written_substring.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal {

enum class AnswerEnds {
  kMarks,                // quotation marks, brackets and asterisks on either side, and . , ; : ! ? after the text
  kPunctuation,          // ASCII punctuation but + and #
  kPunctuationButMinus,  // the same, and no minus after the text: of the gold answer "A-"
};

// Of a gold answer that normalises to nothing: an answer "A" is freed of what normalisation frees an answer "B" of.
AnswerEnds EndsOf(absl::string_view gold);

// False for a blank gold answer; so for the others.
bool EqualsAsWritten(absl::string_view prediction, absl::string_view gold, AnswerEnds ends = AnswerEnds::kMarks);

// Whether the prediction equals the gold answer, or has it in it as whole words: between white space, with marks between
// at most, or where the ends are punctuation, between any of it. Inside a longer text, an article or a sign has to have
// the gold answer's case: "a" is in most of them.
bool HoldsAsWritten(absl::string_view prediction, absl::string_view gold, AnswerEnds ends = AnswerEnds::kMarks);

// The words between white space, each compared likewise; none of punctuation alone where the ends are punctuation.
std::vector<std::string> WordsAsWritten(absl::string_view text, AnswerEnds ends);

}  // namespace varifocal
