#include "eval_tasks/ruler/punkt.h"

#include <algorithm>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal::ruler {
namespace {

constexpr absl::string_view kNumber = "##number##";
constexpr int kMiddleUpper = 4, kUpper = 2 | 4 | 8, kBeginLower = 16, kLower = 16 | 32 | 64;
constexpr absl::string_view kCurly[] = {"\u2018", "\u2019", "\u201c", "\u201d", "\u00ab", "\u00bb"};

bool IsOf(absl::string_view characters, absl::string_view text, size_t at) {
  return at < text.size() && characters.find(text[at]) != absl::string_view::npos;
}

// Bytes of the curly quote or guillemet at `at`; 0 where there is none or it is a letter.
size_t CurlyAt(absl::string_view text, size_t at, CurlyQuotes quotes) {
  if (quotes == CurlyQuotes::kLetters || at >= text.size()) return 0;
  for (const absl::string_view mark : kCurly) {
    if (absl::StartsWith(text.substr(at), mark)) return mark.size();
  }
  return 0;
}

// A character that is in no word.
size_t NonWordAt(absl::string_view text, size_t at, CurlyQuotes quotes) {
  return IsOf(")\";}]*:@'({[?!", text, at) ? 1 : CurlyAt(text, at, quotes);
}
size_t ClosingAt(absl::string_view text, size_t at, CurlyQuotes quotes) {
  return IsOf("\"')]}", text, at) ? 1 : CurlyAt(text, at, quotes);
}

// "--", "..", ". . .": the whole run, or 0.
size_t RunAt(absl::string_view text, size_t at) {
  if (!IsOf("-.", text, at)) return 0;
  const size_t end = std::min(text.find_first_not_of(text[at], at), text.size());
  if (end - at >= 2) return end - at;
  size_t spaced = at;
  int count = 0;
  while (absl::StartsWith(text.substr(spaced), ". ")) {
    spaced += 2;
    ++count;
  }
  if (!IsOf(".", text, spaced)) {  // the last pair gives its point back
    spaced -= 2;
    --count;
  }
  return count >= 2 ? spaced + 1 - at : 0;
}

bool EndsWord(absl::string_view text, size_t at, CurlyQuotes quotes) {
  const auto ends = [&](size_t i) {
    return i >= text.size() || text[i] == ' ' || NonWordAt(text, i, quotes) > 0 || RunAt(text, i) > 0;
  };
  return ends(at) || (text[at] == ',' && ends(at + 1));
}

bool IsNumber(const PythonText& text) {
  size_t at = !text.empty() && text[0] == '-' ? 1 : 0;
  if (at < text.size() && (text[at] == '.' || text[at] == ',')) ++at;
  return at < text.size() && IsPythonDecimal(text[at]) && std::all_of(text.begin() + at, text.end(), [](CodePoint c) {
           return IsPythonDecimal(c) || c == ',' || c == '.' || c == '-';
         });
}

std::vector<absl::string_view> Lines(absl::string_view text) {
  std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  for (absl::string_view& line : lines) absl::ConsumeSuffix(&line, "\r");
  return lines;
}

}  // namespace

struct Punkt::Token {
  Token(absl::string_view written, const Punkt& punkt) : text(written) {
    const PythonText points = ToPythonText(text);
    const PythonText lower = PythonLower(points);
    type = IsNumber(lower) ? std::string(kNumber) : ToUtf8(lower);
    is_upper = IsPythonUpper(points[0]);
    is_lower = IsPythonLower(points[0]);
    is_initial =
        points.size() == 2 && points[1] == '.' && IsPythonWordCharacter(points[0]) && !IsPythonDecimal(points[0]);
    ends_in_period = absl::EndsWith(text, ".");
    if (text == "." || text == "?" || text == "!") {
      is_break = true;
    } else if (text.find_first_not_of('.') == absl::string_view::npos) {
      is_ellipsis = true;
    } else if (ends_in_period && !absl::EndsWith(text, "..")) {
      const std::string word = PythonLower(text.substr(0, text.size() - 1));
      const size_t hyphen = word.rfind('-');
      is_abbreviation = punkt.abbreviations_.count(word) > 0 ||
                        (hyphen != std::string::npos && punkt.abbreviations_.count(word.substr(hyphen + 1)) > 0);
      is_break = !is_abbreviation;
    }
  }

  std::string TypeWithoutPeriod() const {
    return type.size() > 1 && type.back() == '.' ? type.substr(0, type.size() - 1) : type;
  }
  std::string TypeWithoutBreak() const { return is_break ? TypeWithoutPeriod() : type; }

  absl::string_view text;
  std::string type;  // in lower case; numbers are one type
  bool is_upper = false, is_lower = false, is_initial = false, ends_in_period = false;
  bool is_break = false, is_abbreviation = false, is_ellipsis = false;
};

absl::StatusOr<Punkt> Punkt::Parse(absl::string_view abbreviations, absl::string_view collocations,
                                   absl::string_view starters, absl::string_view contexts, CurlyQuotes quotes) {
  Punkt punkt;
  punkt.quotes_ = quotes;
  for (const absl::string_view line : Lines(abbreviations)) punkt.abbreviations_.emplace(line);
  for (const absl::string_view line : Lines(starters)) punkt.starters_.emplace(line);
  for (const absl::string_view line : Lines(collocations)) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    if (words.size() != 2) {
      return InvalidArgument("collocations.tab: the line \"", line, "\" has ", words.size(), " words, not 2");
    }
    punkt.collocations_.emplace(words[0], words[1]);
  }
  for (const absl::string_view line : Lines(contexts)) {
    const std::vector<std::string> words = absl::StrSplit(line, '\t');
    int context = 0;
    if (words.size() != 2 || !absl::SimpleAtoi(words[1], &context)) {
      return InvalidArgument("ortho_context.tab: the line \"", line, "\" is not a word and a number");
    }
    punkt.contexts_[words[0]] = context;
  }
  return punkt;
}

int Punkt::ContextOf(const std::string& type) const {
  const auto found = contexts_.find(type);
  return found == contexts_.end() ? 0 : found->second;
}

std::vector<Punkt::Token> Punkt::Tokens(absl::string_view text) const {
  std::vector<Token> tokens;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == ' ') {
      ++at;
      continue;
    }
    size_t size = RunAt(text, at);
    if (size == 0) {
      size = 1;
      if (!IsOf("(\"`{[:;&#*@)}]-,", text, at)) {
        while (!EndsWord(text, at + size, quotes_)) ++size;
      }
    }
    tokens.emplace_back(text.substr(at, size), *this);
    at += size;
  }
  return tokens;
}

Punkt::Start Punkt::StartsSentence(const Token& token) const {
  if (token.text.size() == 1 && IsOf(";:,.!?", token.text, 0)) return Start::kNo;
  const int context = ContextOf(token.TypeWithoutBreak());
  if (token.is_upper && (context & kLower) != 0 && (context & kMiddleUpper) == 0) return Start::kYes;
  if (token.is_lower && ((context & kUpper) != 0 || (context & kBeginLower) == 0)) return Start::kNo;
  return Start::kUnknown;
}

void Punkt::Decide(Token& token, const Token& next) const {
  if (!token.ends_in_period) return;
  const std::string type = token.TypeWithoutPeriod(), next_type = next.TypeWithoutBreak();
  if (collocations_.count({type, next_type}) > 0) {
    token.is_break = false;
    token.is_abbreviation = true;
    return;
  }
  const Start start = StartsSentence(next);
  if ((token.is_abbreviation || token.is_ellipsis) && !token.is_initial) {
    if (start == Start::kYes || (next.is_upper && starters_.count(next_type) > 0)) {
      token.is_break = true;
      return;
    }
  }
  if (!token.is_initial && type != kNumber) return;
  const bool is_name =
      start == Start::kUnknown && token.is_initial && next.is_upper && (ContextOf(next_type) & kLower) == 0;
  if (start == Start::kNo || is_name) {
    token.is_break = false;
    token.is_abbreviation = true;
  }
}

bool Punkt::HasBreak(absl::string_view context) const {
  std::vector<Token> tokens = Tokens(context);
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    Decide(tokens[i], tokens[i + 1]);
    if (tokens[i].is_break) return true;
  }
  return false;
}

std::vector<absl::string_view> Punkt::Sentences(absl::string_view text) const {
  struct Range {
    size_t begin = 0, end = 0;
  };
  // A possible end of a sentence: the word before it, the mark, and what follows.
  struct Candidate {
    Range word;
    size_t after = 0;  // end of the following character or word
    std::optional<size_t> next_word;
  };
  std::vector<Range> slices;
  size_t last_break = 0;
  const auto decide = [&](const Candidate& candidate) {
    if (!HasBreak(text.substr(candidate.word.begin, candidate.after - candidate.word.begin))) return;
    slices.push_back({last_break, candidate.word.end + 1});
    last_break = candidate.next_word.value_or(candidate.word.end + 1);
  };
  std::optional<Candidate> previous;
  for (size_t at = text.find_first_of(".?!"); at != absl::string_view::npos; at = text.find_first_of(".?!", at + 1)) {
    Candidate candidate;
    const size_t non_word = NonWordAt(text, at + 1, quotes_);
    candidate.after = at + 1 + non_word;
    if (non_word == 0) {
      const size_t next = text.find_first_not_of(' ', at + 1);
      if (next == at + 1 || next == absl::string_view::npos) continue;
      candidate.next_word = next;
      candidate.after = std::min(text.find(' ', next), text.size());
    }
    const Range before = previous.has_value() ? previous->word : Range();
    const size_t space = text.substr(before.end, at - before.end).rfind(' ');
    const bool is_new = space != absl::string_view::npos && space > 0;
    candidate.word = {is_new ? before.end + space + 1 : before.begin, at};
    if (previous.has_value() && before.end <= candidate.word.begin) decide(*previous);
    previous = candidate;
  }
  if (previous.has_value()) decide(*previous);
  slices.push_back({last_break, text.size()});

  // Closing marks belong to the sentence before them.
  std::vector<absl::string_view> sentences;
  const auto add = [&](size_t begin, size_t end) {
    sentences.push_back(begin < end ? text.substr(begin, end - begin) : "");
  };
  size_t moved = 0;
  for (size_t i = 0; i < slices.size(); ++i) {
    const size_t begin = slices[i].begin + moved;
    if (i + 1 == slices.size()) {
      if (begin < slices[i].end) add(begin, slices[i].end);
      break;
    }
    const absl::string_view next = text.substr(slices[i + 1].begin, slices[i + 1].end - slices[i + 1].begin);
    size_t marks = 0;
    bool is_closed = false;
    for (size_t size = ClosingAt(next, 0, quotes_); size > 0 && !is_closed; size = ClosingAt(next, marks, quotes_)) {
      marks += size;
      is_closed = marks == next.size() || next[marks] == ' ' || absl::StartsWith(next.substr(marks), "--");
    }
    if (is_closed) {
      add(begin, slices[i + 1].begin + marks);
      moved = std::min(next.find_first_not_of(' ', marks), next.size());
    } else {
      moved = 0;
      if (begin < slices[i].end) add(begin, slices[i].end);
    }
  }
  return sentences;
}

}  // namespace varifocal::ruler
