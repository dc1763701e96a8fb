// HELMET's normalisation of answers: lower case, no ASCII punctuation, no articles, single spaces.
//
// The reference is a line of Python, so its Unicode rules are Python's: str.lower() with the final sigma and the dotted
// capital I, `\b` between letters or digits and everything else (a combining accent is not a letter), str.split().
// Note that the answer "A" normalises to "", which every text contains; text_metrics.h treats such gold answers apart.
//
// Bytes that are not UTF-8 count as U+FFFD each.
// Source: SQuAD's evaluation script as HELMET uses it (normalize_answer).
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "eval_tasks/python/text.h"

namespace varifocal {

std::string NormalizeAnswer(absl::string_view text);
std::vector<std::string> NormalizedWords(absl::string_view text);  // the words that NormalizeAnswer joins by spaces
// The characters in lower case without ASCII and Chinese punctuation and white space, as LongBench and InfiniteBench
// normalise Chinese.
std::vector<std::string> NormalizedChineseCharacters(absl::string_view text);
// Harmonic mean of precision and recall over two multisets of words; 0 where they share none.
double BagF1(const std::vector<std::string>& prediction, const std::vector<std::string>& gold);

// Runs of decimal digits of any script: re.findall(r"\d+", text).
std::vector<std::string> DigitRuns(absl::string_view text);

int64_t CountCharacters(absl::string_view text);  // code points

bool IsAsciiPunctuation(CodePoint point);  // what normalisation drops

}  // namespace varifocal
