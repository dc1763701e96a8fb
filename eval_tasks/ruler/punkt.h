// NLTK's sentence splitter (Punkt) with the user's parameters: sent_tokenize(text), as ranges of the text.
//
// From NLTK 3.10 on, curly quotes and guillemets close a sentence as straight ones do; before, they are letters of words.
//
// Threads: immutable.
// Cost:    linear in the text.
// Source:  Kiss and Strunk 2006; NLTK 3.9.1 and 3.10.4, nltk/tokenize/punkt.py.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal::ruler {

enum class CurlyQuotes { kLetters, kClosing };  // NLTK to 3.9; from 3.10 on

class Punkt {
 public:
  // The texts of punkt_tab's four files. INVALID_ARGUMENT for a line of another form.
  static absl::StatusOr<Punkt> Parse(absl::string_view abbreviations, absl::string_view collocations,
                                     absl::string_view starters, absl::string_view contexts, CurlyQuotes quotes);

  // Of text in UTF-8 without line ends, stripped.
  std::vector<absl::string_view> Sentences(absl::string_view text) const;

 private:
  struct Token;

  std::vector<Token> Tokens(absl::string_view text) const;
  bool HasBreak(absl::string_view context) const;
  void Decide(Token& token, const Token& next) const;
  enum class Start { kYes, kNo, kUnknown };
  Start StartsSentence(const Token& token) const;
  int ContextOf(const std::string& type) const;

  std::set<std::string> abbreviations_, starters_;
  std::set<std::pair<std::string, std::string>> collocations_;
  std::map<std::string, int> contexts_;
  CurlyQuotes quotes_ = CurlyQuotes::kLetters;
};

}  // namespace varifocal::ruler
