// InfiniteBench's twelve tasks.
//
// Where upstream's program ends with an error, the answer is wrong here: a first number with a point where the label of
// math_find is a whole number.
#include <algorithm>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/metrics/rouge.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

using TextList = std::vector<std::string>;

absl::StatusOr<Json> BenchLabelOf(const MetricInput& input) {
  ASSIGN_OR_RETURN(Json reference, ReferenceOf(input));
  const auto label = reference.find("label");
  if (label == reference.end()) return InvalidArgument("the reference has no \"label\"");
  return *label;
}

// label[0] of a list or a text.
Json FirstOfLabel(const Json& label) {
  if (label.is_array() && !label.empty()) return label[0];
  if (!label.is_string()) return Json();
  const PythonText points = ToPythonText(label.get<std::string>());
  return points.empty() ? Json() : Json(ToUtf8(points, 0, 1));
}

bool IsText(const Json& label, absl::string_view text) { return label.is_string() && label.get<std::string>() == text; }

bool HoldsText(const Json& label, absl::string_view text) {
  if (label.is_string()) return absl::StrContains(label.get<std::string>(), text);
  return std::any_of(label.begin(), label.end(), [&](const Json& item) { return IsText(item, text); });
}

std::string WithBlanks(std::string text, const TextList& marks) {
  for (const std::string& mark : marks) text = absl::StrReplaceAll(text, {{mark, " "}});
  return text;
}

std::string OneBlank(std::string text) {
  while (absl::StrContains(text, "  ")) text = absl::StrReplaceAll(text, {{"  ", " "}});
  return text;
}

// Without the first character.
absl::string_view AfterOne(absl::string_view text) {
  size_t size = std::min<size_t>(1, text.size());
  while (size < text.size() && (text[size] & 0xC0) == 0x80) ++size;
  return text.substr(size);
}

TextList AsciiDigitRuns(absl::string_view text) {
  TextList runs(1);
  for (char c : text) {
    if (c >= '0' && c <= '9') {
      runs.back() += c;
    } else if (!runs.back().empty()) {
      runs.emplace_back();
    }
  }
  if (runs.back().empty()) runs.pop_back();
  return runs;
}

// Decimal digits of any script in ASCII, without zeros in front.
std::string Canonical(absl::string_view digits) {
  std::string ascii;
  for (CodePoint point : ToPythonText(digits)) {
    // Ten digits of a script follow each other, and of the mathematical alphabets five times ten.
    constexpr CodePoint kMathematicalZero = 0x1D7CE, kMathematicalLast = 0x1D7FF;
    int value = 0;
    if (point >= kMathematicalZero && point <= kMathematicalLast) {
      value = (point - kMathematicalZero) % 10;
    } else {
      while (value < 9 && IsPythonDecimal(point - value - 1)) ++value;
    }
    ascii += static_cast<char>('0' + value);
  }
  ascii.erase(0, std::min(ascii.find_first_not_of('0'), ascii.size() - 1));
  return ascii;
}

// Python's int(text) as decimal text; "" where it raises.
std::string PythonInt(absl::string_view text) {
  const bool is_negative = absl::ConsumePrefix(&text, "-");
  if (!is_negative) absl::ConsumePrefix(&text, "+");
  std::string digits;
  bool digit_before = false;
  for (CodePoint point : ToPythonText(text)) {
    const bool is_digit = IsPythonDecimal(point);
    if (!is_digit && (point != '_' || !digit_before)) return "";
    if (is_digit) digits += ToUtf8(PythonText{point});
    digit_before = is_digit;
  }
  if (!digit_before) return "";
  const std::string value = Canonical(digits);
  return is_negative && value != "0" ? absl::StrCat("-", value) : value;
}

bool EqualsNumber(const Json& label, const std::string& decimal) {
  if (label.is_boolean()) return decimal == (label.get<bool>() ? "1" : "0");
  if (label.is_number_integer()) return label.dump() == decimal;
  double value = 0;
  return label.is_number() && absl::SimpleAtod(decimal, &value) && value == label.get<double>();
}

absl::StatusOr<double> ScoreFirstDigits(const MetricInput& input) {
  ASSIGN_OR_RETURN(Json label, BenchLabelOf(input));
  if (label.is_array()) label = FirstOfLabel(label);
  const TextList runs = AsciiDigitRuns(input.output);
  return IsText(label, runs.empty() ? "" : runs[0]);
}

TextList WordsBetweenMarks(absl::string_view text) {
  return PythonSplit(WithBlanks(std::string(text), {"\n", ":", "\"", "'", ".", ",", "?", "!", "{", "}"}));
}

absl::StatusOr<double> ScoreKeyValue(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json label, BenchLabelOf(input));
  const TextList words = WordsBetweenMarks(input.output);
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) { return IsText(label, word); });
}

absl::StatusOr<double> ScoreDialogue(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json label, BenchLabelOf(input));
  const TextList words = WordsBetweenMarks(input.output);
  return std::any_of(words.begin(), words.end(),
                     [&](const std::string& word) { return IsText(FirstOfLabel(label), PythonUpper(word)); });
}

absl::StatusOr<double> ScoreCodeRun(const MetricInput& input) {
  ASSIGN_OR_RETURN(Json label, BenchLabelOf(input));
  if (label.is_array()) label = FirstOfLabel(label);
  const TextList words = PythonSplit(WithBlanks(input.output, {"\n", ".", "`", "'", "\"", ":"}));
  if (words.empty()) return 0;
  const std::string value = PythonInt(words.back());
  return !value.empty() && EqualsNumber(label, value);
}

// Text after the first of the phrases that occurs, and one character more; nothing where none does. Upstream drops that
// character, which is the blank after a colon, also where there is none.
struct AfterPhrase {
  bool found = false;
  absl::string_view text;  // empty as well where the phrase ends the answer
};
AfterPhrase FindAnswer(absl::string_view text, const std::vector<absl::string_view>& phrases) {
  for (absl::string_view phrase : phrases) {
    const size_t at = text.find(phrase);
    if (at != absl::string_view::npos) return {true, AfterOne(text.substr(at + phrase.size()))};
  }
  return {};
}

absl::StatusOr<double> ScoreCodeDebug(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  ASSIGN_OR_RETURN(const TextList label, ReferenceTexts(reference, "label"));
  if (label.size() < 2) return InvalidArgument("the reference's \"label\" has no function and letter");
  const std::string answer = PythonStrip(input.output);
  if (absl::StartsWith(answer, label[1] + ".") || absl::StartsWith(answer, label[1] + ":")) return 1;
  const std::string plain = OneBlank(WithBlanks(answer, {"\n", "`", "'", "\"", "-", "*", "Option", "option"}));
  const AfterPhrase after = FindAnswer(plain, {"answer is:", "is:", "answer:", "correct option is:"});
  return !after.text.empty() && (absl::StartsWith(after.text, label[1]) || absl::StartsWith(after.text, label[0]));
}

absl::StatusOr<double> ScoreOption(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json label, BenchLabelOf(input));
  const std::string answer = PythonStrip(input.output);
  if (answer.empty()) return 0;
  if (answer[0] >= 'A' && answer[0] <= 'D') return HoldsText(label, answer.substr(0, 1));
  if (HoldsText(label, answer)) return 1;
  const std::string plain = OneBlank(WithBlanks(answer, {"\n", "\"", "'", ".", ",", "?", "!", "{", "}"}));
  const AfterPhrase after = FindAnswer(plain, {"answer is:", "answer:", "answer is", "option is"});
  if (after.found) {
    if (after.text.empty()) return 0;
    return std::any_of(label.begin(), label.end(), [&](const Json& item) {
      return item.is_string() && absl::StartsWith(after.text, item.get<std::string>());
    });
  }
  for (const std::string& word : PythonSplit(plain)) {
    if (absl::StrContains("ABCD", word)) return HoldsText(label, word);
  }
  return 0;
}

absl::StatusOr<double> ScoreMathFind(const MetricInput& input) {
  ASSIGN_OR_RETURN(Json label, BenchLabelOf(input));
  if (label.is_array()) label = FirstOfLabel(label);
  if (!label.is_number() && !label.is_boolean()) {
    return InvalidArgument("the label ", label.dump(), " of math_find is not a number");
  }
  const PythonText text = ToPythonText(input.output);
  size_t begin = 0;
  while (begin < text.size() && !IsPythonDecimal(text[begin])) ++begin;
  if (begin == text.size()) return 0;
  const auto end_of_digits = [&](size_t at) {
    while (at < text.size() && IsPythonDecimal(text[at])) ++at;
    return at;
  };
  const size_t end = end_of_digits(begin);
  std::string number = Canonical(ToUtf8(text, begin, end));
  if (end + 1 < text.size() && text[end] == '.' && IsPythonDecimal(text[end + 1])) {
    if (!label.is_number_float()) return 0;
    std::string fraction;
    for (size_t i = end + 1; i < end_of_digits(end + 1); ++i) fraction += Canonical(ToUtf8(text, i, i + 1));
    absl::StrAppend(&number, ".", fraction);
  }
  return EqualsNumber(label, number);
}

absl::StatusOr<double> ScoreMathCalc(const MetricInput& input) {
  ASSIGN_OR_RETURN(Json label, BenchLabelOf(input));
  if (label.is_array() && !label.empty() && label[0].is_array()) label = Json(label[0]);
  if (!label.is_array() || label.empty()) return InvalidArgument("the label of math_calc is not a list");
  const TextList numbers = AsciiDigitRuns(input.output);
  size_t right = 0;
  while (right < label.size() && right < numbers.size() && EqualsNumber(label[right], Canonical(numbers[right]))) {
    ++right;
  }
  return static_cast<double>(right) / label.size();
}

// The gold answers of a list; of one text its characters, as upstream's loop takes them.
absl::StatusOr<TextList> GoldsOf(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  const auto label = reference.find("label");
  if (label == reference.end() || !label->is_string()) return ReferenceTexts(reference, "label");
  TextList characters;
  for (CodePoint point : ToPythonText(label->get<std::string>())) characters.push_back(ToUtf8(PythonText{point}));
  return characters;
}

template <typename Tokens>
absl::StatusOr<double> BestF1(const MetricInput& input, const Tokens& tokens) {
  ASSIGN_OR_RETURN(const TextList golds, GoldsOf(input));
  double best = 0;
  for (const std::string& gold : golds) best = std::max(best, BagF1(tokens(input.output), tokens(gold)));
  return best;
}

absl::StatusOr<double> ScoreQaEnglish(const MetricInput& input) {
  return BestF1(input, [](absl::string_view text) { return NormalizedWords(text); });
}

absl::StatusOr<double> ScoreQaChinese(const MetricInput& input) { return BestF1(input, NormalizedChineseCharacters); }

absl::StatusOr<double> ScoreSummary(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json label, BenchLabelOf(input));
  const Json golds = label.is_string() ? Json::array({label}) : label;
  ASSIGN_OR_RETURN(const TextList texts, ReferenceTexts({{"label", golds}}, "label"));
  double best = 0;
  for (const std::string& gold : texts) best = std::max(best, RougeLsum(gold, input.output, Stemming::kNone).f1);
  return best;
}

}  // namespace

std::vector<Metric> InfiniteBenchMetrics() {
  const auto metric = [](const char* name, const char* summary, bool is_binary, decltype(Metric::score) score) {
    return BenchmarkMetric(absl::StrCat("infinitebench/", name), absl::StrCat("InfiniteBench: ", summary), is_binary,
                           score);
  };
  return {metric("passkey", "the first digits are right", true, &ScoreFirstDigits),
          metric("number_string", "the first digits are right", true, &ScoreFirstDigits),
          metric("kv_retrieval", "the value is among the words", true, &ScoreKeyValue),
          metric("longdialogue_qa_eng", "the name is among the words", true, &ScoreDialogue),
          metric("code_run", "the last word is the number", true, &ScoreCodeRun),
          metric("code_debug", "letter or function, at the start or after a phrase", true, &ScoreCodeDebug),
          metric("longbook_choice_eng", "the letter, at the start or after a phrase", true, &ScoreOption),
          metric("longbook_qa_eng", "word F1", false, &ScoreQaEnglish),
          metric("longbook_qa_chn", "F1 over characters", false, &ScoreQaChinese),
          metric("longbook_sum_eng", "ROUGE-Lsum without stemming", false, &ScoreSummary),
          metric("math_find", "the first number is right", true, &ScoreMathFind),
          metric("math_calc", "share of the numbers that are right before the first wrong one", false, &ScoreMathCalc)};
}

}  // namespace varifocal
