#include "kernels/conformance/covering.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "kernels/conformance/test_harness.h"

namespace varifocal::kernels {
namespace {

// Pairs of levels of each combination as numbers. A single level counts as a pair with itself.
std::vector<std::vector<size_t>> PairsOf(const std::vector<Levels>& combinations) {
  std::unordered_map<std::string, size_t> ids;
  for (const Levels& levels : combinations) {
    for (const std::string& level : levels) ids.try_emplace(level, ids.size());
  }
  std::vector<std::vector<size_t>> pairs;
  for (const Levels& levels : combinations) {
    std::vector<size_t> own, of_combination;
    for (const std::string& level : levels) own.push_back(ids.at(level));
    std::sort(own.begin(), own.end());
    for (size_t i = 0; i < own.size(); ++i) {
      for (size_t j = i; j < own.size(); ++j) of_combination.push_back(own[i] * ids.size() + own[j]);
    }
    pairs.push_back(std::move(of_combination));
  }
  return pairs;
}

}  // namespace

std::vector<size_t> CoveringDesign(const std::vector<Levels>& combinations) {
  const std::vector<std::vector<size_t>> pairs = PairsOf(combinations);
  std::unordered_set<size_t> covered;
  const auto gain_of = [&](size_t index) {
    size_t gain = 0;
    for (const size_t pair : pairs[index]) gain += covered.count(pair) == 0;
    return gain;
  };
  // Gains only fall: one that is still as large as noted is the largest. Equal ones are taken in the order of a hash: in that of
  // their indices one number format would meet one instruction set in every case.
  std::priority_queue<std::tuple<size_t, uint64_t, size_t>> queue;
  for (size_t i = 0; i < combinations.size(); ++i) queue.push({pairs[i].size(), Mix(1, i), i});
  std::vector<size_t> chosen;
  while (!queue.empty()) {
    const auto [noted, order, index] = queue.top();
    queue.pop();
    const size_t gain = gain_of(index);
    if (gain == 0) continue;
    if (gain < noted) {
      queue.push({gain, order, index});
      continue;
    }
    chosen.push_back(index);
    covered.insert(pairs[index].begin(), pairs[index].end());
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

size_t MissingPairs(const std::vector<Levels>& all, const std::vector<size_t>& chosen) {
  std::set<std::pair<std::string, std::string>> missing;
  const auto each = [](const Levels& levels, const auto& visit) {
    for (const std::string& a : levels) {
      for (const std::string& b : levels) visit(std::pair{a, b});
    }
  };
  for (const Levels& levels : all) each(levels, [&](const auto& pair) { missing.insert(pair); });
  for (const size_t index : chosen) each(all[index], [&](const auto& pair) { missing.erase(pair); });
  return missing.size();
}

}  // namespace varifocal::kernels
