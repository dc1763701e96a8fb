#include "eval_tasks/metrics/jieba.h"

#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/files.h"
#include "base/json.h"
#include "base/mutex.h"
#include "base/sha256.h"
#include "base/status_macros.h"
#include "eval_tasks/python/literals.h"

namespace varifocal {
namespace {

constexpr char kStates[] = "BEMS";    // in the order of Python's characters, which decides ties
constexpr double kNoWay = -3.14e100;  // log-probability of what the tables do not have

bool IsHan(CodePoint point) { return point >= 0x4E00 && point <= 0x9FD5; }
bool IsAsciiAlnum(CodePoint point) {
  return (point >= '0' && point <= '9') || (point >= 'a' && point <= 'z') || (point >= 'A' && point <= 'Z');
}
// What the dictionary's words consist of.
bool IsWordPart(CodePoint point) {
  return IsHan(point) || IsAsciiAlnum(point) ||
         (point > 0 && point < 128 &&
          absl::string_view("+#&._%-").find(static_cast<char>(point)) != absl::string_view::npos);
}

absl::StatusOr<Json> Table(const std::string& folder, const char* file, Sha256Stream& hash) {
  const std::string path = absl::StrCat(folder, "/finalseg/", file);
  ASSIGN_OR_RETURN(const std::string source, ReadFile(path, kDataFile));
  hash.Update(source);
  absl::StatusOr<Json> table = PythonConstant(source, "P");
  if (!table.ok()) return Annotate(table.status(), path);
  if (!table->is_object()) return InvalidArgument(path, ": P is not a dictionary");
  return table;
}

double NumberOr(const Json& object, const std::string& key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Jieba>> Jieba::Open(const std::string& folder) {
  static Mutex mutex;
  static auto* const loaded VF_PT_GUARDED_BY(mutex) = new std::map<std::string, std::shared_ptr<const Jieba>>();
  const MutexLock lock(mutex);
  std::shared_ptr<const Jieba>& kept = (*loaded)[folder];
  if (kept != nullptr) return kept;
  auto jieba = std::make_shared<Jieba>();
  RETURN_IF_ERROR(jieba->Load(folder));
  kept = std::move(jieba);
  return kept;
}

absl::Status Jieba::Load(const std::string& folder) {
  Sha256Stream hash;
  const std::string path = absl::StrCat(folder, "/dict.txt");
  ASSIGN_OR_RETURN(const std::string dictionary, ReadFile(path, kDataFile));
  hash.Update(dictionary);
  const absl::Status read = LoadDictionary(dictionary);
  if (!read.ok()) return Annotate(read, path);
  ASSIGN_OR_RETURN(const Json start, Table(folder, "prob_start.py", hash));
  ASSIGN_OR_RETURN(const Json transition, Table(folder, "prob_trans.py", hash));
  ASSIGN_OR_RETURN(const Json emission, Table(folder, "prob_emit.py", hash));
  for (int from = 0; from < kStateCount; ++from) {
    const std::string state(1, kStates[from]);
    start_[from] = NumberOr(start, state, kNoWay);
    const Json row = transition.value(state, Json::object());
    for (int to = 0; to < kStateCount; ++to) transition_[from][to] = NumberOr(row, std::string(1, kStates[to]), kNoWay);
    const Json emitted = emission.value(state, Json::object());
    for (const auto& [character, value] : emitted.items()) {
      const PythonText points = ToPythonText(character);
      if (points.size() == 1 && value.is_number()) emission_[from][points[0]] = value.get<double>();
    }
  }
  sha256_ = ToHex(hash.Finish());
  return absl::OkStatus();
}

absl::Status Jieba::LoadDictionary(absl::string_view text) {
  int64_t total = 0;
  int line_number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++line_number;
    const std::vector<std::string> parts = absl::StrSplit(PythonStrip(line), ' ');
    if (parts.size() == 1 && parts[0].empty()) continue;
    int64_t frequency = 0;
    if (parts.size() < 2 || !absl::SimpleAtoi(parts[1], &frequency)) {
      return InvalidArgument("line ", line_number, " is not a word and its frequency");
    }
    frequencies_[parts[0]] = frequency;
    total += frequency;
    const PythonText points = ToPythonText(parts[0]);
    for (size_t end = 1; end <= points.size(); ++end) frequencies_.try_emplace(ToUtf8(points, 0, end), 0);
  }
  if (total <= 0) return InvalidArgument("has no words");
  log_total_ = std::log(static_cast<double>(total));
  return absl::OkStatus();
}

int64_t Jieba::Frequency(const PythonText& text, size_t begin, size_t end) const {
  const auto found = frequencies_.find(ToUtf8(text, begin, end));
  return found == frequencies_.end() ? -1 : found->second;
}

std::vector<std::string> Jieba::Cut(absl::string_view text) const {
  const PythonText points = ToPythonText(text);
  std::vector<std::string> words;
  for (size_t begin = 0; begin < points.size();) {
    size_t end = begin;
    while (end < points.size() && IsWordPart(points[end])) ++end;
    if (end > begin) {
      CutBlock(PythonText(points.begin() + begin, points.begin() + end), words);
    } else {
      end = begin + 1;
      if (points[begin] == '\r' && end < points.size() && points[end] == '\n') ++end;
      words.push_back(ToUtf8(points, begin, end));
    }
    begin = end;
  }
  return words;
}

// The likeliest words of the dictionary; of single characters in a row, what the model makes of them.
void Jieba::CutBlock(const PythonText& block, std::vector<std::string>& words) const {
  const size_t size = block.size();
  std::vector<double> best(size + 1, 0);
  std::vector<size_t> end_of(size + 1, 0);
  for (size_t begin = size; begin-- > 0;) {
    bool any = false;
    const auto consider = [&](size_t end, int64_t frequency) {
      const double score = std::log(static_cast<double>(frequency)) - log_total_ + best[end];
      if (any && score < best[begin]) return;
      best[begin] = score;
      end_of[begin] = end;
      any = true;
    };
    for (size_t end = begin + 1; end <= size; ++end) {
      const int64_t frequency = Frequency(block, begin, end);
      if (frequency < 0) break;
      if (frequency > 0) consider(end, frequency);
    }
    if (!any) consider(begin + 1, 1);
  }
  PythonText single;
  const auto flush = [&] {
    if (single.size() > 1 && Frequency(single, 0, single.size()) <= 0) {
      CutUnknown(single, words);
    } else {
      for (CodePoint point : single) words.push_back(ToUtf8(PythonText{point}));
    }
    single.clear();
  };
  for (size_t begin = 0; begin < size; begin = end_of[begin]) {
    if (end_of[begin] == begin + 1) {
      single.push_back(block[begin]);
    } else {
      flush();
      words.push_back(ToUtf8(block, begin, end_of[begin]));
    }
  }
  flush();
}

// Runs of Chinese characters by the model; else runs of letters and digits, "3.5%" among them, and what is between.
void Jieba::CutUnknown(const PythonText& text, std::vector<std::string>& words) const {
  size_t between = 0;
  const auto finish = [&](size_t end) {
    if (end > between) words.push_back(ToUtf8(text, between, end));
  };
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin;
    if (IsHan(text[begin])) {
      while (end < text.size() && IsHan(text[end])) ++end;
      finish(begin);
      CutByModel(PythonText(text.begin() + begin, text.begin() + end), words);
    } else if (IsAsciiAlnum(text[begin])) {
      while (end < text.size() && IsAsciiAlnum(text[end])) ++end;
      size_t digits = end + 1;
      while (end < text.size() && text[end] == '.' && digits < text.size() && text[digits] >= '0' &&
             text[digits] <= '9') {
        ++digits;
      }
      if (digits > end + 1) end = digits;
      if (end < text.size() && text[end] == '%') ++end;
      finish(begin);
      words.push_back(ToUtf8(text, begin, end));
    } else {
      ++begin;
      continue;
    }
    between = begin = end;
  }
  finish(text.size());
}

void Jieba::CutByModel(const PythonText& text, std::vector<std::string>& words) const {
  // The states that may come before B, E, M, S.
  static constexpr int kBefore[kStateCount][2] = {{1, 3}, {0, 2}, {0, 2}, {1, 3}};
  constexpr int kBegin = 0, kEnd = 1, kSingle = 3;
  const auto emission = [&](int state, CodePoint point) {
    const auto found = emission_[state].find(point);
    return found == emission_[state].end() ? kNoWay : found->second;
  };
  const size_t size = text.size();
  std::vector<std::array<double, kStateCount>> score(size);
  std::vector<std::array<int, kStateCount>> before(size);
  for (size_t t = 0; t < size; ++t) {
    for (int state = 0; state < kStateCount; ++state) {
      if (t == 0) {
        score[t][state] = start_[state] + emission(state, text[t]);
        continue;
      }
      bool any = false;
      for (int previous : kBefore[state]) {  // in the order of their letters: of equal scores the later one counts
        const double value = score[t - 1][previous] + transition_[previous][state] + emission(state, text[t]);
        if (any && value < score[t][state]) continue;
        score[t][state] = value;
        before[t][state] = previous;
        any = true;
      }
    }
  }
  std::vector<int> states(size);
  states[size - 1] = score[size - 1][kSingle] >= score[size - 1][kEnd] ? kSingle : kEnd;
  for (size_t t = size - 1; t > 0; --t) states[t - 1] = before[t][states[t]];
  size_t begin = 0, next = 0;
  for (size_t t = 0; t < size; ++t) {
    if (states[t] == kBegin) begin = t;
    if (states[t] == kEnd) words.push_back(ToUtf8(text, begin, t + 1));
    if (states[t] == kSingle) words.push_back(ToUtf8(text, t, t + 1));
    if (states[t] == kEnd || states[t] == kSingle) next = t + 1;
  }
  if (next < size) words.push_back(ToUtf8(text, next, size));
}

}  // namespace varifocal
