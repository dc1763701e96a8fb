#include "eval_tasks/metrics/normalize.h"

#include <algorithm>
#include <map>

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

std::vector<std::string> NormalizedChineseCharacters(absl::string_view text) {
  static const PythonText marks = ToPythonText(
      "！？｡。＂＃＄％＆＇（）＊＋，－／：；＜＝＞＠［＼］＾＿｀｛｜｝～｟｠｢｣"
      "､、〃》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟〰〾〿–—‘’‛“”„‟…‧﹏");
  std::vector<std::string> characters;
  for (CodePoint point : PythonLower(ToPythonText(text))) {
    if (IsAsciiPunctuation(point) || IsPythonSpace(point) ||
        std::find(marks.begin(), marks.end(), point) != marks.end()) {
      continue;
    }
    characters.push_back(ToUtf8(PythonText{point}));
  }
  return characters;
}

std::string NormalizeAnswer(absl::string_view text) { return absl::StrJoin(NormalizedWords(text), " "); }

double BagF1(const std::vector<std::string>& prediction, const std::vector<std::string>& gold) {
  std::map<std::string, int> left;
  for (const std::string& word : gold) ++left[word];
  int same = 0;
  for (const std::string& word : prediction) {
    const auto found = left.find(word);
    if (found == left.end() || found->second == 0) continue;
    --found->second;
    ++same;
  }
  if (same == 0) return 0;
  const double precision = 1.0 * same / prediction.size(), recall = 1.0 * same / gold.size();
  return 2 * precision * recall / (precision + recall);
}

std::vector<std::string> DigitRuns(absl::string_view text) {
  const PythonText points = ToPythonText(text);
  std::vector<std::string> runs;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && IsPythonDecimal(points[end])) ++end;
    if (end > begin) runs.push_back(ToUtf8(points, begin, end));
    begin = end + 1;
  }
  return runs;
}

int64_t CountCharacters(absl::string_view text) { return ToPythonText(text).size(); }

}  // namespace varifocal
