// Word classes of tokens, by lists of the closed classes of English (word_classes.txt).
//
// Lists, not a tagger: a word has one class, and what no list knows is a name where it is capitalised inside a sentence,
// else `other`. A token that goes on with a word is `piece`; the token that begins it has the class of the whole word.
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

// One for each token. `tokens` follow each other in a text, spaces included; one that is not UTF-8 on its own may have
// U+FFFD for it.
std::vector<WordClass> ClassifyTokens(const std::vector<std::string>& tokens);

}  // namespace varifocal::client
