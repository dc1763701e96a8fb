#include "base/suggest.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace varifocal {
namespace {

// Optimal string alignment: insertions, deletions, substitutions and adjacent transpositions cost one each.
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) cost[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

constexpr size_t kWordMax = 64;  // longer words are not misspelt names, and the table above is quadratic

}  // namespace

std::string Nearest(absl::string_view word, const std::vector<std::string>& candidates) {
  if (word.size() > kWordMax) return "";
  std::string best;
  for (const std::string& candidate : candidates) {
    const bool is_begun = word.size() >= 3 && absl::StartsWith(candidate, word);
    if (is_begun && (best.empty() || candidate.size() < best.size())) best = candidate;
  }
  if (!best.empty()) return best;
  size_t best_distance = std::min<size_t>(3, std::max<size_t>(1, word.size() / 3)) + 1;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > kWordMax) continue;
    const size_t distance = Distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates) {
  if (candidates.empty()) return "";
  const std::string nearest = Nearest(word, candidates);
  if (!nearest.empty()) return absl::StrCat("; did you mean \"", nearest, "\"?");
  return absl::StrCat("; known are ", absl::StrJoin(candidates, ", "));
}

}  // namespace varifocal
