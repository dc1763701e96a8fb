#include "eval_tasks/metrics/rouge.h"

#include <algorithm>
#include <unordered_map>

#include "absl/strings/str_split.h"
#include "eval_tasks/metrics/porter_stemmer.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

using WordIds = std::vector<int>;

RougeScore FromShares(double precision, double recall) {
  return {precision, recall, precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0.0};
}

// Maps words to numbers, consistently on both sides.
class Vocabulary {
 public:
  WordIds Ids(const std::vector<std::string>& words) {
    WordIds ids;
    for (const std::string& word : words)
      ids.push_back(ids_.emplace(word, static_cast<int>(ids_.size())).first->second);
    return ids;
  }
  size_t size() const { return ids_.size(); }

 private:
  std::unordered_map<std::string, int> ids_;
};

int LongestCommonSubsequence(const WordIds& a, const WordIds& b) {
  std::vector<int> row(b.size() + 1, 0);
  for (int word : a) {
    int diagonal = 0;
    for (size_t j = 1; j <= b.size(); ++j) {
      const int above = row[j];
      row[j] = word == b[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  return row[b.size()];
}

// Marks the places of `gold` on one longest common subsequence with `line`: walking back from the end, a step in `line`
// is taken only where it keeps strictly more, else a step in `gold`.
void MarkCommon(const WordIds& gold, const WordIds& line, std::vector<bool>& marked) {
  const size_t width = line.size() + 1;
  std::vector<bool> left_is_larger((gold.size() + 1) * width, false);
  std::vector<int> row(width, 0);
  for (size_t i = 1; i <= gold.size(); ++i) {
    int diagonal = 0;
    for (size_t j = 1; j <= line.size(); ++j) {
      const int above = row[j];
      left_is_larger[i * width + j] = row[j - 1] > above;
      row[j] = gold[i - 1] == line[j - 1] ? diagonal + 1 : std::max(above, row[j - 1]);
      diagonal = above;
    }
  }
  for (size_t i = gold.size(), j = line.size(); i > 0 && j > 0;) {
    if (gold[i - 1] == line[j - 1]) {
      marked[i - 1] = true;
      --i;
      --j;
    } else if (left_is_larger[i * width + j]) {
      --j;
    } else {
      --i;
    }
  }
}

std::vector<WordIds> Lines(absl::string_view text, Stemming stemming, Vocabulary& vocabulary) {
  std::vector<WordIds> lines;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!line.empty()) lines.push_back(vocabulary.Ids(RougeWords(line, stemming)));
  }
  return lines;
}

std::vector<int> Counts(const std::vector<WordIds>& lines, size_t vocabulary_size) {
  std::vector<int> counts(vocabulary_size, 0);
  for (const WordIds& line : lines) {
    for (int word : line) ++counts[word];
  }
  return counts;
}

size_t TotalSize(const std::vector<WordIds>& lines) {
  size_t size = 0;
  for (const WordIds& line : lines) size += line.size();
  return size;
}

}  // namespace

std::vector<std::string> RougeWords(absl::string_view text, Stemming stemming) {
  std::vector<std::string> words;
  std::string word;
  auto finish = [&] {
    if (!word.empty()) words.push_back(word.size() > 3 && stemming == Stemming::kPorter ? PorterStem(word) : word);
    word.clear();
  };
  for (CodePoint point : PythonLower(ToPythonText(text))) {
    if ((point >= 'a' && point <= 'z') || (point >= '0' && point <= '9')) {
      word += static_cast<char>(point);
    } else {
      finish();
    }
  }
  finish();
  return words;
}

RougeScore RougeL(absl::string_view gold, absl::string_view prediction) {
  Vocabulary vocabulary;
  const WordIds a = vocabulary.Ids(RougeWords(gold));
  const WordIds b = vocabulary.Ids(RougeWords(prediction));
  if (a.empty() || b.empty()) return {};
  const double common = LongestCommonSubsequence(a, b);
  return FromShares(common / b.size(), common / a.size());
}

RougeScore RougeLsum(absl::string_view gold, absl::string_view prediction, Stemming stemming) {
  Vocabulary vocabulary;
  const std::vector<WordIds> gold_lines = Lines(gold, stemming, vocabulary);
  const std::vector<WordIds> lines = Lines(prediction, stemming, vocabulary);
  const size_t gold_size = TotalSize(gold_lines), size = TotalSize(lines);
  if (gold_size == 0 || size == 0) return {};
  std::vector<int> gold_left = Counts(gold_lines, vocabulary.size()), left = Counts(lines, vocabulary.size());
  int hits = 0;
  for (const WordIds& gold_line : gold_lines) {
    std::vector<bool> marked(gold_line.size(), false);
    for (const WordIds& line : lines) MarkCommon(gold_line, line, marked);
    for (size_t i = 0; i < gold_line.size(); ++i) {
      const int word = gold_line[i];
      if (!marked[i] || gold_left[word] == 0 || left[word] == 0) continue;
      --gold_left[word];
      --left[word];
      ++hits;
    }
  }
  return FromShares(hits / static_cast<double>(size), hits / static_cast<double>(gold_size));
}

}  // namespace varifocal
