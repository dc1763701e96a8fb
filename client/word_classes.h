// Word classes of tokens, by lists of the closed classes of English (word_classes.txt).
//
// Lists, not a tagger: a word has one class; an unlisted word is a name if it is capitalised inside a sentence, else
// `other`. A token that continues a word is `piece`; the token that starts it has the class of the whole word.
//
// Threads: any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace varifocal::client {

enum class WordClass {
  kDeterminer,
  kPronoun,
  kPreposition,
  kConjunction,
  kAuxiliary,
  kNumber,
  kName,
  kPunctuation,  // white space too
  kPiece,
  kOther,
};
inline constexpr size_t kWordClassCount = 10;

const char* WordClassName(WordClass word_class);

// One per token. `tokens` are consecutive in a text, spaces included; a token that is not valid UTF-8 by itself may be
// given as U+FFFD.
std::vector<WordClass> ClassifyTokens(const std::vector<std::string>& tokens);

}  // namespace varifocal::client
