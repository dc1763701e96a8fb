#include "eval_tasks/metrics/normalize.h"

#include "absl/strings/str_join.h"

namespace varifocal {
namespace {

bool IsArticle(const PythonText& points, size_t begin, size_t end) {
  const size_t length = end - begin;
  if (points[begin] == 'a') return length == 1 || (length == 2 && points[begin + 1] == 'n');
  return length == 3 && points[begin] == 't' && points[begin + 1] == 'h' && points[begin + 2] == 'e';
}

}  // namespace

bool IsAsciiPunctuation(CodePoint point) {
  return (point >= 33 && point <= 47) || (point >= 58 && point <= 64) || (point >= 91 && point <= 96) ||
         (point >= 123 && point <= 126);
}

std::vector<std::string> NormalizedWords(absl::string_view text) {
  PythonText points;
  for (CodePoint point : PythonLower(ToPythonText(text))) {
    if (!IsAsciiPunctuation(point)) points.push_back(point);
  }
  // Articles are runs of word characters inside the runs of non-space that become words.
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && IsPythonWordCharacter(points[end])) ++end;
    if (end > begin && IsArticle(points, begin, end)) {
      for (size_t i = begin; i < end; ++i) points[i] = ' ';
    }
    begin = end > begin ? end : begin + 1;
  }
  std::vector<std::string> words;
  for (size_t begin = 0; begin < points.size();) {
    if (IsPythonSpace(points[begin])) {
      ++begin;
      continue;
    }
    size_t end = begin;
    while (end < points.size() && !IsPythonSpace(points[end])) ++end;
    words.push_back(ToUtf8(points, begin, end));
    begin = end;
  }
  return words;
}

std::string NormalizeAnswer(absl::string_view text) { return absl::StrJoin(NormalizedWords(text), " "); }

int64_t CountCharacters(absl::string_view text) { return ToPythonText(text).size(); }

}  // namespace varifocal
