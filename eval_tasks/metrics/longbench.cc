// LongBench, v1 and v2.
//
// `first_line` is upstream's rule for four few-shot sets. Code is compared by fuzzywuzzy's ratio, which is difflib's with
// upstream's requirements, and another one where python-Levenshtein happens to be installed: two metrics.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/jieba.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/metrics/sequence_matcher.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

using TextList = std::vector<std::string>;

// Steps back through the table of one pair of sentences before Python's recursion limit of 1,000, from eval.py.
constexpr int kRougeStepsMax = 990;

// One sentence's words, "" among them where it is blank.
std::vector<TextList> Sentences(absl::string_view text) {
  std::vector<TextList> sentences;
  for (absl::string_view sentence : absl::StrSplit(text, '.', absl::SkipEmpty())) {
    TextList words = PythonSplit(sentence);
    if (words.empty()) words.emplace_back();
    sentences.push_back(std::move(words));
  }
  return sentences;
}

size_t DifferentWords(const std::vector<TextList>& sentences) {
  std::set<std::string> words;
  for (const TextList& sentence : sentences) words.insert(sentence.begin(), sentence.end());
  return words.size();
}

// Adds the words of a longest common subsequence; false where the package's recursion would be too deep.
bool AddCommonWords(const TextList& gold, const TextList& answer, int steps_max, std::set<std::string>& common) {
  if (std::min(std::ssize(gold), std::ssize(answer)) > steps_max) return false;
  const size_t width = answer.size() + 1;
  std::vector<int> table((gold.size() + 1) * width, 0);
  for (size_t i = 1; i <= gold.size(); ++i) {
    for (size_t j = 1; j <= answer.size(); ++j) {
      table[i * width + j] = gold[i - 1] == answer[j - 1]
                                 ? table[(i - 1) * width + j - 1] + 1
                                 : std::max(table[(i - 1) * width + j], table[i * width + j - 1]);
    }
  }
  int step_count = 0;
  for (size_t i = gold.size(), j = answer.size(); i > 0 && j > 0; ++step_count) {
    if (gold[i - 1] == answer[j - 1]) {
      common.insert(gold[i - 1]);
      --i;
      --j;
    } else if (table[(i - 1) * width + j] > table[i * width + j - 1]) {
      --i;
    } else {
      --j;
    }
  }
  return step_count <= steps_max;
}

// F of ROUGE-L as the package `rouge` computes it: sentences end at ".", words count as sets. 0 where the package raises,
// which is for a text without words and for a stretch that is too long for its recursion.
double RougeOfSets(absl::string_view prediction, absl::string_view gold, int steps_max = kRougeStepsMax) {
  const std::vector<TextList> answer = Sentences(prediction), reference = Sentences(gold);
  if (answer.empty() || reference.empty()) return 0;
  std::set<std::string> common;
  for (const TextList& sentence : reference) {
    for (const TextList& line : answer) {
      if (!AddCommonWords(sentence, line, steps_max, common)) return 0;
    }
  }
  const double recall = static_cast<double>(common.size()) / DifferentWords(reference);
  const double precision = static_cast<double>(common.size()) / DifferentWords(answer);
  return 2.0 * ((precision * recall) / (precision + recall + 1e-8));
}

absl::StatusOr<double> QaF1(const std::string& prediction, const std::string& gold, const Json&) {
  return BagF1(NormalizedWords(prediction), NormalizedWords(gold));
}

absl::StatusOr<double> RougeOfAnswer(const std::string& prediction, const std::string& gold, const Json&) {
  return RougeOfSets(prediction, gold);
}

// The words of jieba, whose folder is in the reference.
absl::StatusOr<std::shared_ptr<const Jieba>> JiebaOf(const Json& reference) {
  ASSIGN_OR_RETURN(const std::string folder, GetString(reference, "jieba"));
  ASSIGN_OR_RETURN(const std::string sha256, GetString(reference, "jieba_sha256"));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Jieba> jieba, Jieba::Open(folder));
  if (jieba->sha256() == sha256) return jieba;
  return FailedPrecondition(folder, ": dictionary and tables have the SHA-256 ", jieba->sha256(), ", not ", sha256,
                            " as when the rows were imported");
}

absl::StatusOr<double> QaF1Chinese(const std::string& prediction, const std::string& gold, const Json& reference) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Jieba> jieba, JiebaOf(reference));
  const auto words = [&](const std::string& text) {
    TextList normalized;
    for (const std::string& word : jieba->Cut(text)) {
      std::string part = absl::StrJoin(NormalizedChineseCharacters(word), "");
      if (!part.empty()) normalized.push_back(std::move(part));
    }
    return normalized;
  };
  return BagF1(words(prediction), words(gold));
}

absl::StatusOr<double> RougeChinese(const std::string& prediction, const std::string& gold, const Json& reference) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Jieba> jieba, JiebaOf(reference));
  // Upstream is one call deeper here.
  return RougeOfSets(absl::StrJoin(jieba->Cut(prediction), " "), absl::StrJoin(jieba->Cut(gold), " "),
                     kRougeStepsMax - 1);
}

absl::StatusOr<double> ClassifyAnswer(const std::string& prediction, const std::string& gold, const Json& reference) {
  ASSIGN_OR_RETURN(const TextList classes, ReferenceTexts(reference, "all_classes"));
  TextList found;
  for (const std::string& name : classes) {
    if (absl::StrContains(prediction, name)) found.push_back(name);
  }
  // Upstream removes from the list that it walks, so the name after a removed one is not looked at.
  for (size_t i = 0; i < found.size(); ++i) {
    const std::string name = found[i];
    if (!absl::StrContains(gold, name) || name == gold) continue;
    found.erase(std::find(found.begin(), found.end(), name));
  }
  return std::count(found.begin(), found.end(), gold) > 0 ? 1.0 / found.size() : 0.0;
}

double ShareOfNumbers(const std::string& prediction, absl::string_view gold) {
  const TextList numbers = DigitRuns(prediction);
  return numbers.empty() ? 0 : static_cast<double>(std::count(numbers.begin(), numbers.end(), gold)) / numbers.size();
}

absl::StatusOr<double> CountNumbers(const std::string& prediction, const std::string& gold, const Json&) {
  return ShareOfNumbers(prediction, gold);
}

absl::StatusOr<double> RetrievalOf(absl::string_view word, const std::string& prediction, absl::string_view gold) {
  for (size_t at = gold.find(word); at != absl::string_view::npos; at = gold.find(word, at + 1)) {
    const std::string rest(gold.substr(at + word.size()));
    const PythonText points = ToPythonText(rest);
    if (!points.empty() && IsPythonDecimal(points[0])) return ShareOfNumbers(prediction, DigitRuns(rest)[0]);
  }
  return InvalidArgument("the gold answer \"", gold, "\" has no \"", word, "\" with a number");
}

absl::StatusOr<double> Retrieval(const std::string& prediction, const std::string& gold, const Json&) {
  return RetrievalOf("Paragraph ", prediction, gold);
}
absl::StatusOr<double> RetrievalChinese(const std::string& prediction, const std::string& gold, const Json&) {
  return RetrievalOf("段落", prediction, gold);
}

// The first line that is not a comment or a fence.
std::string CodeLine(absl::string_view prediction) {
  while (absl::StartsWith(prediction, "\n")) prediction.remove_prefix(1);
  for (absl::string_view line : absl::StrSplit(prediction, '\n')) {
    if (!absl::StrContains(line, '`') && !absl::StrContains(line, '#') && !absl::StrContains(line, "//")) {
      return std::string(line);
    }
  }
  return "";
}

// fuzz.ratio(..) / 100: whole per cents, rounded as Python rounds.
template <typename Ratio>
absl::StatusOr<double> CodeSimilarity(const std::string& prediction, const std::string& gold, const Ratio& ratio) {
  const std::string line = CodeLine(prediction);
  if (line == gold) return 1;
  if (line.empty() || gold.empty()) return 0;
  ASSIGN_OR_RETURN(const double value, ratio(line, gold));
  return std::nearbyint(100 * value) / 100;
}
absl::StatusOr<double> CodeDifflib(const std::string& prediction, const std::string& gold, const Json&) {
  return CodeSimilarity(prediction, gold, DifflibRatio);
}
absl::StatusOr<double> CodeLevenshtein(const std::string& prediction, const std::string& gold, const Json&) {
  return CodeSimilarity(prediction, gold, LevenshteinRatio);
}

using AnswerMeasure = absl::StatusOr<double> (*)(const std::string& prediction, const std::string& gold,
                                                 const Json& reference);

absl::StatusOr<double> BestAnswer(const MetricInput& input, AnswerMeasure measure) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  ASSIGN_OR_RETURN(const TextList answers, ReferenceTexts(reference, "answers"));
  ASSIGN_OR_RETURN(const std::optional<bool> first_line, FindBool(reference, "first_line"));
  absl::string_view prediction = input.output;
  if (first_line.value_or(false)) {
    while (absl::StartsWith(prediction, "\n")) prediction.remove_prefix(1);
    prediction = prediction.substr(0, prediction.find('\n'));
  }
  double best = 0;
  for (const std::string& gold : answers) {
    ASSIGN_OR_RETURN(const double value, measure(std::string(prediction), gold, reference));
    best = std::max(best, value);
  }
  return best;
}

absl::StatusOr<double> ScoreLetterAfterPhrase(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  ASSIGN_OR_RETURN(const std::string answer, GetString(reference, "answer"));
  const std::string response = absl::StrReplaceAll(PythonStrip(input.output), {{"*", ""}});
  // The first letter after the words in parentheses; only without any, without.
  constexpr char kWords[] = "The correct answer is ";
  for (const bool in_parentheses : {true, false}) {
    for (size_t at = response.find(kWords); at != std::string::npos; at = response.find(kWords, at + 1)) {
      absl::string_view rest = absl::string_view(response).substr(at + std::strlen(kWords));
      if (in_parentheses && !absl::ConsumePrefix(&rest, "(")) continue;
      if (rest.empty() || rest[0] < 'A' || rest[0] > 'D') continue;
      if (in_parentheses && rest.substr(1, 1) != ")") continue;
      return rest.substr(0, 1) == answer;
    }
  }
  return 0;
}

}  // namespace

std::vector<Metric> LongBenchMetrics() {
  const auto best = [](const char* name, const char* summary, AnswerMeasure measure) {
    return BenchmarkMetric(absl::StrCat("longbench/", name), absl::StrCat("LongBench: ", summary), false,
                           [=](const MetricInput& input) { return BestAnswer(input, measure); });
  };
  return {
      best("qa_f1", "word F1", &QaF1),
      best("rouge", "F of ROUGE-L over sets of words", &RougeOfAnswer),
      best("qa_f1_zh", "F1 over the words of jieba", &QaF1Chinese),
      best("rouge_zh", "the same ROUGE-L over the words of jieba", &RougeChinese),
      best("classification", "1 over the number of classes named, if right among them", &ClassifyAnswer),
      best("count", "share of the answer's numbers that are right", &CountNumbers),
      best("retrieval", "share of the answer's numbers that are the paragraph's", &Retrieval),
      best("retrieval_zh", "the same, of a gold answer in Chinese", &RetrievalChinese),
      best("code_sim_difflib", "similarity of the first line of code, by difflib (upstream's requirements)",
           &CodeDifflib),
      best("code_sim_levenshtein", "the same where python-Levenshtein is installed upstream", &CodeLevenshtein),
      BenchmarkMetric("longbench2/choice", "LongBench v2: the letter after upstream's phrase is right", true,
                      &ScoreLetterAfterPhrase),
  };
}

}  // namespace varifocal
