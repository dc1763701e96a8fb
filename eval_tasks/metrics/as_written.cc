#include "eval_tasks/metrics/as_written.h"

#include <algorithm>
#include <cstddef>

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

PythonText WithoutMarks(const PythonText& text) {
  size_t begin = 0, end = text.size();
  while (begin < end && (text[begin] == ' ' || IsMarkBefore(text[begin]))) ++begin;
  while (begin < end && (text[end - 1] == ' ' || IsMarkAfter(text[end - 1]))) --end;
  return begin == end ? text : PythonText(text.begin() + begin, text.begin() + end);
}

PythonText Bare(absl::string_view text) { return WithoutMarks(WithSingleSpaces(text)); }

// Whether marks alone are between text[at] and white space or the end, going by `step`. A mark that is doubled is
// another one: "!" is not in "!!".
template <typename IsMark>
bool EndsAt(const PythonText& text, std::ptrdiff_t at, std::ptrdiff_t step, IsMark is_mark, CodePoint own) {
  const auto is_inside = [&] { return at >= 0 && at < std::ssize(text) && text[at] != ' '; };
  if (is_inside() && text[at] == own) return false;
  while (is_inside() && is_mark(text[at])) at += step;
  return !is_inside();
}

}  // namespace

bool EqualsAsWritten(absl::string_view prediction, absl::string_view gold) {
  const PythonText bare = Bare(gold);
  return !bare.empty() && PythonLower(Bare(prediction)) == PythonLower(bare);
}

bool HoldsAsWritten(absl::string_view prediction, absl::string_view gold) {
  if (EqualsAsWritten(prediction, gold)) return true;
  PythonText wanted = Bare(gold), text = WithSingleSpaces(prediction);
  if (wanted.empty()) return false;
  if (!NormalizedWords(gold).empty()) {
    wanted = PythonLower(wanted);
    text = PythonLower(text);
  }
  for (auto found = text.begin();; ++found) {
    found = std::search(found, text.end(), wanted.begin(), wanted.end());
    if (found == text.end()) return false;
    const std::ptrdiff_t begin = found - text.begin(), end = begin + std::ssize(wanted);
    if (EndsAt(text, begin - 1, -1, &IsMarkBefore, wanted.front()) &&
        EndsAt(text, end, 1, &IsMarkAfter, wanted.back())) {
      return true;
    }
  }
}

std::vector<std::string> WordsAsWritten(absl::string_view text) {
  std::vector<std::string> words;
  const PythonText points = PythonLower(WithSingleSpaces(text));
  for (auto begin = points.begin(); begin != points.end();) {
    const auto end = std::find(begin, points.end(), ' ');
    words.push_back(ToUtf8(WithoutMarks(PythonText(begin, end))));
    begin = end == points.end() ? end : end + 1;
  }
  return words;
}

}  // namespace varifocal
