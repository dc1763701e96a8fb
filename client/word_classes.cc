#include "client/word_classes.h"

#include <array>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/check.h"
#include "base/embedded.h"

namespace varifocal {

EmbeddedFiles Embedded_WordClasses();

namespace client {
namespace {

constexpr std::array<const char*, kWordClassCount> kNames = {"determiner", "pronoun", "preposition", "conjunction",
                                                             "auxiliary",  "number",  "name",        "punctuation",
                                                             "piece",      "other"};
constexpr char kAbbreviation[] = "abbreviation";

// The section of each word.
const std::map<std::string, std::string>& Sections() {
  static const auto* const sections = [] {
    auto* words = new std::map<std::string, std::string>;
    std::string section;
    const EmbeddedFile& file = *Embedded_WordClasses().begin();
    for (absl::string_view line : absl::StrSplit(absl::string_view(file.data, file.size), '\n')) {
      if (line.empty() || line[0] == '#') continue;
      if (line[0] == '[') {
        section = std::string(line.substr(1, line.size() - 2));
        continue;
      }
      for (absl::string_view word : absl::StrSplit(line, ' ', absl::SkipEmpty())) {
        const bool is_new = words->emplace(word, section).second;
        VF_CHECK(is_new, "no word is in two sections of word_classes.txt");
      }
    }
    return words;
  }();
  return *sections;
}

std::string SectionOf(const std::string& word) {
  const auto found = Sections().find(word);
  return found == Sections().end() ? "" : found->second;
}

bool IsLetter(char c) { return absl::ascii_isalpha(c) || static_cast<unsigned char>(c) >= 0x80; }
bool IsDigit(char c) { return absl::ascii_isdigit(c); }
bool IsSpace(char c) { return absl::ascii_isspace(c); }

// Replaces typographic marks, whose bytes would count as letters, by ASCII.
std::string Plain(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\u2018", "'"},
                                    {"\u2019", "'"},
                                    {"\u201c", "\""},
                                    {"\u201d", "\""},
                                    {"\u2013", "-"},
                                    {"\u2014", "-"},
                                    {"\u2026", "."}});
}

// Position of a token in the text.
struct Place {
  char before = ' ';  // the last byte before it
  bool begins_sentence = true;
  int newline_count = 0;  // since the last visible byte
  std::string last_word;

  void Pass(const std::string& token) {
    for (const char c : token) {
      before = c;
      if (c == '\n' && ++newline_count > 1) begins_sentence = true;
      if (IsSpace(c) || c == '"' || c == '\'' || c == '(' || c == '_') continue;
      newline_count = 0;
      begins_sentence = c == '!' || c == '?' || (c == '.' && SectionOf(last_word) != kAbbreviation);
    }
  }
};

// A letter that follows a letter continues its word.
bool GoesOn(const std::string& token, char before) {
  return !token.empty() && IsLetter(token[0]) && (IsLetter(before) || IsDigit(before));
}

WordClass ClassOf(const std::string& word, bool begins_sentence) {
  const std::string section = SectionOf(absl::AsciiStrToLower(word));
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (section == kNames[i]) return static_cast<WordClass>(i);
  }
  const bool is_capital = absl::ascii_isupper(word[0]);
  return is_capital && !begins_sentence ? WordClass::kName : WordClass::kOther;
}

// The leading letters of `text`.
std::string Letters(absl::string_view text) {
  size_t end = 0;
  while (end < text.size() && IsLetter(text[end])) ++end;
  return std::string(text.substr(0, end));
}

}  // namespace

const char* WordClassName(WordClass word_class) { return kNames[static_cast<size_t>(word_class)]; }

std::vector<WordClass> ClassifyTokens(const std::vector<std::string>& tokens) {
  std::vector<std::string> plain;
  for (const std::string& token : tokens) plain.push_back(Plain(token));
  std::vector<WordClass> classes;
  Place place;
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string& token = plain[i];
    size_t first = 0;  // the first letter or digit
    while (first < token.size() && !IsLetter(token[first]) && !IsDigit(token[first])) ++first;
    WordClass found = WordClass::kPunctuation;
    if (first < token.size() && IsDigit(token[first])) {
      found = WordClass::kNumber;
    } else if (GoesOn(token, place.before)) {
      found = WordClass::kPiece;
    } else if (first < token.size()) {
      std::string word = Letters(absl::string_view(token).substr(first));
      if (first + word.size() == token.size()) {
        for (size_t next = i + 1; next < plain.size() && GoesOn(plain[next], 'a'); ++next) {
          const std::string more = Letters(plain[next]);
          word += more;
          if (more.size() < plain[next].size()) break;
        }
      }
      Place at = place;
      at.Pass(token.substr(0, first));
      found = ClassOf(word, at.begins_sentence);
      place.last_word = absl::AsciiStrToLower(word);
    }
    classes.push_back(found);
    place.Pass(token);
  }
  return classes;
}

}  // namespace client
}  // namespace varifocal
