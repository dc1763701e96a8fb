// LongProc: path_traversal, html_to_tsv and tom_tracking; the other three run programs.
#include <algorithm>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/normalize.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

using TextList = std::vector<std::string>;

absl::StatusOr<std::string> ReferenceOutput(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  return GetString(reference, "reference_output");
}

struct Accuracy {
  double strict = 0, partial = 0;
};

absl::StatusOr<Accuracy> PathTraversal(const MetricInput& input) {
  ASSIGN_OR_RETURN(const std::string written, ReferenceOutput(input));
  const std::string& output = input.output;
  constexpr char kRouteBegin[] = "<Route>", kRouteEnd[] = "</Route>";
  const size_t begin = output.find(kRouteBegin), end = output.find(kRouteEnd);
  if (begin == std::string::npos || end == std::string::npos) return Accuracy();
  const size_t from = begin + sizeof(kRouteBegin) - 1;
  const std::string route = end > from ? PythonStrip(output.substr(from, end - from)) : "";
  const std::string gold = PythonStrip(written);
  if (gold == route) return Accuracy{1, 1};
  const TextList gold_lines = absl::StrSplit(gold, '\n'), lines = absl::StrSplit(route, '\n');
  // Upstream counts the first wrong line in.
  size_t count = 0;
  while (count < std::min(gold_lines.size(), lines.size())) {
    ++count;
    if (gold_lines[count - 1] != lines[count - 1]) break;
  }
  return Accuracy{0, static_cast<double>(count) / gold_lines.size()};
}

// TextList that upstream drops from a belief; only as whole runs of word characters.
std::string NormalizedBelief(absl::string_view text) {
  static const std::set<std::string> kDropped = {"a",    "an",     "the",      "on",       "in",      "at",
                                                 "step", "thinks", "think",    "believes", "believe", "is",
                                                 "are",  "of",     "location", "know",     "knows",   "belief"};
  constexpr CodePoint kApostrophe = 0x2019;
  PythonText points;
  for (CodePoint point : PythonLower(ToPythonText(text))) {
    if (!IsAsciiPunctuation(point) && point != kApostrophe) points.push_back(point);
  }
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && IsPythonWordCharacter(points[end])) ++end;
    if (kDropped.count(ToUtf8(points, begin, end)) > 0) std::fill(points.begin() + begin, points.begin() + end, ' ');
    begin = end + 1;
  }
  return absl::StrJoin(PythonSplit(ToUtf8(points)), " ");
}

TextList Beliefs(absl::string_view text) {
  TextList listed;
  for (const std::string& line : PythonSplitLines(text)) {
    if (absl::StartsWith(PythonStrip(line), "-")) listed.push_back(line);
  }
  TextList beliefs;
  for (const absl::string_view line : absl::StrSplit(PythonStrip(absl::StrJoin(listed, "\n")), '\n')) {
    if (!absl::StartsWith(line, "-")) continue;
    std::string belief = NormalizedBelief(line.substr(1));
    if (!belief.empty()) beliefs.push_back(std::move(belief));
  }
  return beliefs;
}

absl::StatusOr<Accuracy> TomTracking(const MetricInput& input) {
  ASSIGN_OR_RETURN(const std::string written, ReferenceOutput(input));
  const TextList gold = Beliefs(written), beliefs = Beliefs(input.output);
  if (gold == beliefs) return Accuracy{1, 1};
  if (gold.empty()) return InvalidArgument("the reference has no line that begins with \"-\"");
  const size_t shared = std::min(gold.size(), beliefs.size());
  size_t same = 0;
  while (same < shared && gold[same] == beliefs[same]) ++same;
  return Accuracy{0, static_cast<double>(same) / gold.size()};
}

// One record of Python's csv.reader over lines without their ends; a quoted field continues in the next line.
class TabReader {
 public:
  explicit TabReader(absl::string_view text) : lines_(absl::StrSplit(text, '\n')) {}

  // Nothing where the module raises.
  std::optional<std::vector<TextList>> ReadAll() {
    std::vector<TextList> records;
    while (line_ < lines_.size()) {
      fields_.clear();
      do {
        if (line_ == lines_.size()) {
          if (!field_.empty() || state_ == State::kQuoted) Save();
          break;
        }
        for (char c : lines_[line_]) {
          if (!Take(c)) return std::nullopt;
        }
        ++line_;
        EndLine();
      } while (state_ != State::kRecordStart);
      records.push_back(fields_);
    }
    return records;
  }

 private:
  enum class State { kRecordStart, kFieldStart, kField, kQuoted, kQuoteInQuoted, kLineEnd };

  void Save() {
    fields_.push_back(field_);
    field_.clear();
  }
  bool Append(char c) {
    constexpr int64_t kFieldCharactersMax = 131'072;
    character_count_ = field_.empty() ? 0 : character_count_;
    character_count_ += (c & 0xC0) != 0x80;
    field_ += c;
    return character_count_ <= kFieldCharactersMax;
  }
  bool Take(char c) {
    switch (state_) {
      case State::kLineEnd:
        return c == '\r';
      case State::kQuoted:
        if (c != '"') return Append(c);
        state_ = State::kQuoteInQuoted;
        return true;
      case State::kRecordStart:
        if (c == '\r') {
          state_ = State::kLineEnd;
          return true;
        }
        state_ = State::kFieldStart;
        break;
      case State::kQuoteInQuoted:
        if (c == '"') {
          state_ = State::kQuoted;
          return Append(c);
        }
        break;
      default:
        break;
    }
    if (c == '\r' || c == '\t') {
      Save();
      state_ = c == '\t' ? State::kFieldStart : State::kLineEnd;
      return true;
    }
    if (c == '"' && state_ == State::kFieldStart) {
      state_ = State::kQuoted;
      return true;
    }
    state_ = State::kField;
    return Append(c);
  }
  void EndLine() {
    if (state_ == State::kQuoted) return;
    if (state_ != State::kRecordStart && state_ != State::kLineEnd) Save();
    state_ = State::kRecordStart;
  }

  const TextList lines_;
  size_t line_ = 0;
  State state_ = State::kRecordStart;
  std::string field_;
  int64_t character_count_ = 0;
  TextList fields_;
};

struct TsvTable {
  size_t width = 0;
  std::vector<TextList> rows;
};

// The normalised rows after the header; nothing where pandas or csv raise.
std::optional<TsvTable> TsvTableOf(absl::string_view text) {
  std::optional<std::vector<TextList>> records = TabReader(PythonStrip(text)).ReadAll();
  if (!records.has_value() || records->size() < 2) return std::nullopt;
  const TextList header = records->front();
  records->erase(records->begin());
  if (std::set<std::string>(header.begin(), header.end()).size() != header.size()) return std::nullopt;
  if (records->back().size() != header.size()) records->pop_back();
  if (records->empty()) return std::nullopt;
  for (TextList& row : *records) {
    if (row.size() != header.size()) row.assign(header.size(), "N/A");
    for (std::string& cell : row) cell = absl::StrJoin(NormalizedWords(cell), "");
  }
  return TsvTable{header.size(), *std::move(records)};
}

double ShareOfRowsIn(const std::vector<TextList>& rows, const std::vector<TextList>& other) {
  const auto found = std::count_if(rows.begin(), rows.end(), [&](const TextList& row) {
    return std::find(other.begin(), other.end(), row) != other.end();
  });
  return static_cast<double>(found) / rows.size();
}

struct TsvScore {
  double precision = 0, recall = 0, f1 = 0;
};

absl::StatusOr<TsvScore> HtmlToTsv(const MetricInput& input) {
  ASSIGN_OR_RETURN(const std::string written, ReferenceOutput(input));
  absl::string_view answer = input.output;
  constexpr absl::string_view kBegin = "```tsv", kFence = "```";
  if (const size_t begin = answer.find(kBegin); begin != absl::string_view::npos) {
    answer.remove_prefix(begin + kBegin.size());
    answer = answer.substr(0, answer.rfind(kFence));
  }
  const std::optional<TsvTable> gold = TsvTableOf(written), table = TsvTableOf(answer);
  if (!gold.has_value() || !table.has_value() || gold->width != table->width) return TsvScore();
  TsvScore score;
  score.precision = ShareOfRowsIn(table->rows, gold->rows);
  score.recall = ShareOfRowsIn(gold->rows, table->rows);
  const double sum = score.recall + score.precision;
  if (sum > 0) score.f1 = 2 * score.recall * score.precision / sum;
  return score;
}

template <typename Result, absl::StatusOr<Result> (*score)(const MetricInput&), double Result::*value>
absl::StatusOr<double> ValueOf(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Result result, score(input));
  return result.*value;
}

}  // namespace

std::vector<Metric> LongProcMetrics() {
  const auto metric = [](const char* name, const char* summary, bool is_binary, decltype(Metric::score) score) {
    return BenchmarkMetric(absl::StrCat("longproc/", name), absl::StrCat("LongProc: ", summary), is_binary, score);
  };
  return {metric("path_traversal/accuracy", "the route is right", true,
                 &ValueOf<Accuracy, &PathTraversal, &Accuracy::strict>),
          metric("path_traversal/partial_accuracy", "share of the route up to the first wrong line, which counts",
                 false, &ValueOf<Accuracy, &PathTraversal, &Accuracy::partial>),
          metric("tom_tracking/accuracy", "all beliefs are right", true,
                 &ValueOf<Accuracy, &TomTracking, &Accuracy::strict>),
          metric("tom_tracking/partial_accuracy", "share of the beliefs before the first wrong one", false,
                 &ValueOf<Accuracy, &TomTracking, &Accuracy::partial>),
          metric("html_to_tsv/f1", "F1 over the table's rows", false, &ValueOf<TsvScore, &HtmlToTsv, &TsvScore::f1>),
          metric("html_to_tsv/precision", "share of the answer's rows that are right", false,
                 &ValueOf<TsvScore, &HtmlToTsv, &TsvScore::precision>),
          metric("html_to_tsv/recall", "share of the table's rows that are in the answer", false,
                 &ValueOf<TsvScore, &HtmlToTsv, &TsvScore::recall>)};
}

}  // namespace varifocal
