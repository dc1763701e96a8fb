#include "eval_tasks/metrics/as_written.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

// A point before digits belongs to the number.
bool IsMarkBefore(CodePoint point) {
  return point < 128 && absl::string_view("\"'`*([{").find(point) != std::string::npos;
}
bool IsMarkAfter(CodePoint point) {
  return point < 128 && absl::string_view("\"'`*)]}.,;:!?").find(point) != std::string::npos;
}

bool IsPunctuation(CodePoint point) { return IsAsciiPunctuation(point) && point != '+' && point != '#'; }

bool IsIgnoredBefore(CodePoint point, AnswerEnds ends) {
  return ends == AnswerEnds::kMarks ? IsMarkBefore(point) : IsPunctuation(point);
}
bool IsIgnoredAfter(CodePoint point, AnswerEnds ends) {
  if (ends == AnswerEnds::kMarks) return IsMarkAfter(point);
  return IsPunctuation(point) && !(point == '-' && ends == AnswerEnds::kPunctuationButMinus);
}

// One space for each run of white space, none at the ends.
PythonText WithSingleSpaces(absl::string_view text) {
  PythonText points;
  for (CodePoint point : PythonStrip(ToPythonText(text))) {
    if (!IsPythonSpace(point)) {
      points.push_back(point);
    } else if (points.back() != ' ') {
      points.push_back(' ');
    }
  }
  return points;
}

PythonText WithoutMarks(const PythonText& text, AnswerEnds ends) {
  size_t begin = 0, end = text.size();
  while (begin < end && (text[begin] == ' ' || IsIgnoredBefore(text[begin], ends))) ++begin;
  while (begin < end && (text[end - 1] == ' ' || IsIgnoredAfter(text[end - 1], ends))) --end;
  return begin == end ? text : PythonText(text.begin() + begin, text.begin() + end);
}

PythonText Bare(absl::string_view text, AnswerEnds ends) { return WithoutMarks(WithSingleSpaces(text), ends); }

// Whether marks alone are between text[at] and white space or the end, going by `step`. A mark that is doubled is
// another one: "!" is not in "!!".
template <typename IsMark>
bool EndsAt(const PythonText& text, std::ptrdiff_t at, std::ptrdiff_t step, IsMark is_mark, CodePoint own) {
  const auto is_inside = [&] { return at >= 0 && at < std::ssize(text) && text[at] != ' '; };
  if (is_inside() && text[at] == own) return false;
  while (is_inside() && is_mark(text[at])) at += step;
  return !is_inside();
}

bool IsWhole(const PythonText& text, std::ptrdiff_t begin, std::ptrdiff_t end, AnswerEnds ends) {
  if (ends == AnswerEnds::kMarks) {
    return EndsAt(text, begin - 1, -1, &IsMarkBefore, text[begin]) && EndsAt(text, end, 1, &IsMarkAfter, text[end - 1]);
  }
  return (begin == 0 || text[begin - 1] == ' ' || IsIgnoredBefore(text[begin - 1], ends)) &&
         (end == std::ssize(text) || text[end] == ' ' || IsIgnoredAfter(text[end], ends));
}

}  // namespace

AnswerEnds EndsOf(absl::string_view gold) {
  if (!std::any_of(gold.begin(), gold.end(), [](char c) { return absl::ascii_isalpha(c); })) return AnswerEnds::kMarks;
  const bool has_minus = Bare(gold, AnswerEnds::kPunctuationButMinus).back() == '-';
  return has_minus ? AnswerEnds::kPunctuationButMinus : AnswerEnds::kPunctuation;
}

bool EqualsAsWritten(absl::string_view prediction, absl::string_view gold, AnswerEnds ends) {
  const PythonText bare = Bare(gold, ends);
  return !bare.empty() && PythonLower(Bare(prediction, ends)) == PythonLower(bare);
}

bool HoldsAsWritten(absl::string_view prediction, absl::string_view gold, AnswerEnds ends) {
  if (EqualsAsWritten(prediction, gold, ends)) return true;
  PythonText wanted = Bare(gold, ends), text = WithSingleSpaces(prediction);
  if (wanted.empty()) return false;
  if (!NormalizedWords(gold).empty()) {
    wanted = PythonLower(wanted);
    text = PythonLower(text);
  }
  for (auto found = text.begin();; ++found) {
    found = std::search(found, text.end(), wanted.begin(), wanted.end());
    if (found == text.end()) return false;
    const std::ptrdiff_t begin = found - text.begin(), end = begin + std::ssize(wanted);
    if (IsWhole(text, begin, end, ends)) return true;
  }
}

std::vector<std::string> WordsAsWritten(absl::string_view text, AnswerEnds ends) {
  std::vector<std::string> words;
  const PythonText points = PythonLower(WithSingleSpaces(text));
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find(begin, points.end(), ' ');
    const PythonText word(begin, end);
    const bool is_left_out = ends != AnswerEnds::kMarks && std::all_of(begin, end, IsPunctuation);
    if (!is_left_out) words.push_back(ToUtf8(WithoutMarks(word, ends)));
    begin = end == points.end() ? end : end + 1;
  }
  return words;
}

}  // namespace varifocal
