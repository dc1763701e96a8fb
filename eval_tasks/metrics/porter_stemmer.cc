#include "eval_tasks/metrics/porter_stemmer.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace varifocal {
namespace {

using absl::EndsWith;
using absl::string_view;

bool IsConsonant(string_view word, size_t i) {
  switch (word[i]) {
    case 'a':
    case 'e':
    case 'i':
    case 'o':
    case 'u':
      return false;
    case 'y':
      return i == 0 || !IsConsonant(word, i - 1);
    default:
      return true;
  }
}

// Times a vowel is followed by a consonant.
int Measure(string_view stem) {
  int count = 0;
  bool after_vowel = false;
  bool is_consonant = false;
  for (size_t i = 0; i < stem.size(); ++i) {
    is_consonant = stem[i] == 'y' ? i == 0 || !is_consonant : IsConsonant(stem, i);
    if (is_consonant && after_vowel) ++count;
    after_vowel = !is_consonant;
  }
  return count;
}

bool HasVowel(string_view stem) {
  for (size_t i = 0; i < stem.size(); ++i) {
    if (!IsConsonant(stem, i)) return true;
  }
  return false;
}

bool EndsInDoubleConsonant(string_view word) {
  const size_t n = word.size();
  return n >= 2 && word[n - 1] == word[n - 2] && IsConsonant(word, n - 1);
}

// Consonant, vowel, consonant other than w, x, y; or a whole word of vowel and consonant.
bool EndsInShortSyllable(string_view word) {
  const size_t n = word.size();
  if (n == 2) return !IsConsonant(word, 0) && IsConsonant(word, 1);
  return n >= 3 && IsConsonant(word, n - 3) && !IsConsonant(word, n - 2) && IsConsonant(word, n - 1) &&
         word[n - 1] != 'w' && word[n - 1] != 'x' && word[n - 1] != 'y';
}

bool Always(string_view) { return true; }
bool AboveZero(string_view stem) { return Measure(stem) > 0; }
bool AboveOne(string_view stem) { return Measure(stem) > 1; }
bool AboveOneAfterSOrT(string_view stem) { return Measure(stem) > 1 && (stem.back() == 's' || stem.back() == 't'); }
bool AboveZeroWithItsL(string_view stem) { return Measure(absl::StrCat(stem, "l")) > 0; }
bool AfterLongConsonant(string_view stem) { return stem.size() > 1 && IsConsonant(stem, stem.size() - 1); }

struct Rule {
  string_view suffix;
  string_view replacement;
  bool (*condition)(string_view stem);
};

// Only the first rule with a matching suffix is tried, also when its condition fails.
std::string Apply(string_view word, absl::Span<const Rule> rules) {
  for (const Rule& rule : rules) {
    if (!EndsWith(word, rule.suffix)) continue;
    const string_view stem = word.substr(0, word.size() - rule.suffix.size());
    return rule.condition(stem) ? absl::StrCat(stem, rule.replacement) : std::string(word);
  }
  return std::string(word);
}

std::string Without(string_view word, size_t count, string_view added = "") {
  return absl::StrCat(word.substr(0, word.size() - count), added);
}

std::string RemovePlural(string_view word) {
  static constexpr Rule kRules[] = {
      {"sses", "ss", Always}, {"ies", "i", Always}, {"ss", "ss", Always}, {"s", "", Always}};
  if (word.size() == 4 && EndsWith(word, "ies")) return Without(word, 1);
  return Apply(word, kRules);
}

std::string RemovePast(string_view word) {
  static constexpr Rule kEndings[] = {{"at", "ate", Always}, {"bl", "ble", Always}, {"iz", "ize", Always}};
  if (EndsWith(word, "ied")) return Without(word, word.size() == 4 ? 1 : 2);
  if (EndsWith(word, "eed")) return AboveZero(word.substr(0, word.size() - 3)) ? Without(word, 1) : std::string(word);
  for (string_view suffix : {"ed", "ing"}) {
    if (!EndsWith(word, suffix) || !HasVowel(word.substr(0, word.size() - suffix.size()))) continue;
    const std::string stem = Without(word, suffix.size());
    for (const Rule& rule : kEndings) {
      if (EndsWith(stem, rule.suffix)) return absl::StrCat(stem, "e");
    }
    if (EndsInDoubleConsonant(stem)) {
      const char last = stem.back();
      return last == 'l' || last == 's' || last == 'z' ? stem : Without(stem, 1);
    }
    return Measure(stem) == 1 && EndsInShortSyllable(stem) ? absl::StrCat(stem, "e") : stem;
  }
  return std::string(word);
}

std::string ShortenDoubleSuffix(string_view word) {
  static constexpr Rule kRules[] = {
      {"ational", "ate", AboveZero},      {"tional", "tion", AboveZero}, {"enci", "ence", AboveZero},
      {"anci", "ance", AboveZero},        {"izer", "ize", AboveZero},    {"bli", "ble", AboveZero},
      {"alli", "al", AboveZero},          {"entli", "ent", AboveZero},   {"eli", "e", AboveZero},
      {"ousli", "ous", AboveZero},        {"ization", "ize", AboveZero}, {"ation", "ate", AboveZero},
      {"ator", "ate", AboveZero},         {"alism", "al", AboveZero},    {"iveness", "ive", AboveZero},
      {"fulness", "ful", AboveZero},      {"ousness", "ous", AboveZero}, {"aliti", "al", AboveZero},
      {"iviti", "ive", AboveZero},        {"biliti", "ble", AboveZero},  {"fulli", "ful", AboveZero},
      {"logi", "log", AboveZeroWithItsL},
  };
  if (EndsWith(word, "alli") && AboveZero(word.substr(0, word.size() - 4))) {
    return ShortenDoubleSuffix(Without(word, 2));
  }
  return Apply(word, kRules);
}

std::string ShortenSuffix(string_view word) {
  static constexpr Rule kRules[] = {{"icate", "ic", AboveZero}, {"ative", "", AboveZero},  {"alize", "al", AboveZero},
                                    {"iciti", "ic", AboveZero}, {"ical", "ic", AboveZero}, {"ful", "", AboveZero},
                                    {"ness", "", AboveZero}};
  return Apply(word, kRules);
}

std::string RemoveSuffix(string_view word) {
  static constexpr Rule kRules[] = {
      {"al", "", AboveOne},    {"ance", "", AboveOne}, {"ence", "", AboveOne}, {"er", "", AboveOne},
      {"ic", "", AboveOne},    {"able", "", AboveOne}, {"ible", "", AboveOne}, {"ant", "", AboveOne},
      {"ement", "", AboveOne}, {"ment", "", AboveOne}, {"ent", "", AboveOne},  {"ion", "", AboveOneAfterSOrT},
      {"ou", "", AboveOne},    {"ism", "", AboveOne},  {"ate", "", AboveOne},  {"iti", "", AboveOne},
      {"ous", "", AboveOne},   {"ive", "", AboveOne},  {"ize", "", AboveOne},
  };
  return Apply(word, kRules);
}

std::string RemoveLastLetter(std::string word) {
  if (EndsWith(word, "e")) {
    const string_view stem = string_view(word).substr(0, word.size() - 1);
    const int measure = Measure(stem);
    if (measure > 1 || (measure == 1 && !EndsInShortSyllable(stem))) word.pop_back();
  }
  if (EndsWith(word, "ll") && AboveOne(string_view(word).substr(0, word.size() - 1))) word.pop_back();
  return word;
}

const char* IrregularStem(string_view word) {
  static constexpr std::pair<string_view, const char*> kStems[] = {
      {"sky", "sky"},        {"skies", "sky"},       {"dying", "die"},        {"lying", "lie"},
      {"tying", "tie"},      {"news", "news"},       {"innings", "inning"},   {"inning", "inning"},
      {"outings", "outing"}, {"outing", "outing"},   {"cannings", "canning"}, {"canning", "canning"},
      {"howe", "howe"},      {"proceed", "proceed"}, {"exceed", "exceed"},    {"succeed", "succeed"},
  };
  for (const auto& [irregular, stem] : kStems) {
    if (word == irregular) return stem;
  }
  return nullptr;
}

}  // namespace

std::string PorterStem(string_view word) {
  static constexpr Rule kFinalY[] = {{"y", "i", AfterLongConsonant}};
  if (const char* stem = IrregularStem(word); stem != nullptr) return stem;
  if (word.size() <= 2) return std::string(word);
  std::string stem = RemovePast(RemovePlural(word));
  stem = ShortenDoubleSuffix(Apply(stem, kFinalY));
  return RemoveLastLetter(RemoveSuffix(ShortenSuffix(stem)));
}

}  // namespace varifocal
