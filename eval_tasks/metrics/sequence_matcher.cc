#include "eval_tasks/metrics/sequence_matcher.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "eval_tasks/python/text.h"

namespace varifocal {
namespace {

struct Block {
  int a = 0, b = 0, size = 0;
};

class DifflibMatcher {
 public:
  DifflibMatcher(const PythonText& a, const PythonText& b) : a_(a), b_(b), ending_(b.size() + 1), next_(b.size() + 1) {
    for (int j = 0; j < std::ssize(b_); ++j) places_[b_[j]].push_back(j);
    constexpr size_t kAutoJunkSize = 200;
    if (b_.size() < kAutoJunkSize) return;
    const size_t popular = b_.size() / 100 + 1;
    for (auto& [point, places] : places_) {
      if (places.size() > popular) places.clear();
    }
  }

  int64_t MatchedCharacters() {
    int64_t matched = 0;
    struct Range {
      int a_low, a_high, b_low, b_high;
    };
    std::vector<Range> queue = {{0, static_cast<int>(a_.size()), 0, static_cast<int>(b_.size())}};
    while (!queue.empty()) {
      const Range range = queue.back();
      queue.pop_back();
      const Block block = Longest(range.a_low, range.a_high, range.b_low, range.b_high);
      if (block.size == 0) continue;
      matched += block.size;
      if (range.a_low < block.a && range.b_low < block.b) queue.push_back({range.a_low, block.a, range.b_low, block.b});
      const int a_end = block.a + block.size, b_end = block.b + block.size;
      if (a_end < range.a_high && b_end < range.b_high) queue.push_back({a_end, range.a_high, b_end, range.b_high});
    }
    return matched;
  }

 private:
  // find_longest_match: the first of the longest blocks of characters that count, then extended over those that do not.
  Block Longest(int a_low, int a_high, int b_low, int b_high) {
    Block best = {a_low, b_low, 0};
    for (int i = a_low; i < a_high; ++i) {
      const auto places = places_.find(a_[i]);
      if (places != places_.end()) {
        const std::vector<int>& of = places->second;
        for (auto j = std::lower_bound(of.begin(), of.end(), b_low); j != of.end() && *j < b_high; ++j) {
          // ending_[j]: size of the block that ends before a_[i] and b_[j]
          const int size = ending_[*j] + 1;
          next_[*j + 1] = size;
          touched_next_.push_back(*j + 1);
          if (size > best.size) best = {i - size + 1, *j - size + 1, size};
        }
      }
      for (int j : touched_) ending_[j] = 0;
      std::swap(ending_, next_);
      std::swap(touched_, touched_next_);
      touched_next_.clear();
    }
    for (int j : touched_) ending_[j] = 0;
    touched_.clear();
    while (best.a > a_low && best.b > b_low && a_[best.a - 1] == b_[best.b - 1])
      best = {best.a - 1, best.b - 1, best.size + 1};
    while (best.a + best.size < a_high && best.b + best.size < b_high &&
           a_[best.a + best.size] == b_[best.b + best.size]) {
      ++best.size;
    }
    return best;
  }

  const PythonText& a_;
  const PythonText& b_;
  std::unordered_map<CodePoint, std::vector<int>> places_;  // in b; none of popular characters
  std::vector<int> ending_, next_;
  std::vector<int> touched_, touched_next_;  // where they are not zero
};

// Length of the longest common subsequence, 64 characters of `a` at a time (Hyyrö 2004).
int64_t CommonSubsequence(const PythonText& a, const PythonText& b) {
  const size_t word_count = (a.size() + 63) / 64;
  std::unordered_map<CodePoint, std::vector<uint64_t>> masks;
  for (size_t i = 0; i < a.size(); ++i) {
    std::vector<uint64_t>& mask = masks[a[i]];
    mask.resize(word_count);
    mask[i / 64] |= uint64_t{1} << (i % 64);
  }
  std::vector<uint64_t> unmatched(word_count, ~uint64_t{0});
  for (CodePoint point : b) {
    const auto mask = masks.find(point);
    if (mask == masks.end()) continue;
    uint64_t carry = 0;
    for (size_t word = 0; word < word_count; ++word) {
      const uint64_t row = unmatched[word];
      const uint64_t match = row & mask->second[word];
      uint64_t sum = row + match;
      const uint64_t overflow = sum < row;
      sum += carry;
      carry = overflow | (sum < carry);
      unmatched[word] = sum | (row & ~match);
    }
  }
  int64_t length = 0;
  for (size_t i = 0; i < a.size(); ++i) length += (unmatched[i / 64] >> (i % 64) & 1) == 0;
  return length;
}

absl::Status CheckSize(const PythonText& a, const PythonText& b) {
  const size_t size = std::max(a.size(), b.size());
  if (size <= kSequenceCharactersMax) return absl::OkStatus();
  return InvalidArgument("a text of ", size, " characters is to be aligned; at most ", kSequenceCharactersMax, " are");
}

double Ratio(int64_t matched, const PythonText& a, const PythonText& b) {
  const size_t characters = a.size() + b.size();
  return characters == 0 ? 1 : 2.0 * matched / characters;
}

}  // namespace

absl::StatusOr<double> DifflibRatio(absl::string_view a, absl::string_view b) {
  const PythonText first = ToPythonText(a), second = ToPythonText(b);
  RETURN_IF_ERROR(CheckSize(first, second));
  return Ratio(DifflibMatcher(first, second).MatchedCharacters(), first, second);
}

absl::StatusOr<double> LevenshteinRatio(absl::string_view a, absl::string_view b) {
  const PythonText first = ToPythonText(a), second = ToPythonText(b);
  RETURN_IF_ERROR(CheckSize(first, second));
  return Ratio(CommonSubsequence(first, second), first, second);
}

}  // namespace varifocal
