#include "db/stats/permutation.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/random.h"

namespace varifocal::stats {
namespace {

double DivisionCount(size_t a_count, size_t b_count) {
  double count = 1;
  for (size_t i = 1; i <= a_count; ++i) count *= static_cast<double>(b_count + i) / i;
  return std::round(count);
}

}  // namespace

double SmallestPermutationP(size_t a_count, size_t b_count) {
  return std::min(1.0, (a_count == b_count ? 2 : 1) / DivisionCount(a_count, b_count));
}

SignFlipResult PermutationTest(const std::vector<double>& a, const std::vector<double>& b,
                               const SignFlipOptions& options) {
  VF_CHECK(!a.empty() && !b.empty() && options.draws > 0);
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  double total = 0, magnitude = 0;
  for (double value : all) {
    total += value;
    magnitude += std::abs(value);
  }
  // The difference of means is a linear function of the sum of the first group: n sum(a) - n_a total, over n_a n_b.
  const double n = all.size(), a_count = a.size();
  const auto distance = [&](double sum) { return std::abs(n * sum - a_count * total); };
  double sum = 0;
  for (double value : a) sum += value;
  const double threshold = distance(sum) - 1e-10 * n * magnitude;  // for rounding, as in SignFlipTest

  SignFlipResult result;
  int64_t extreme_count = 0;
  const double divisions = DivisionCount(a.size(), b.size());
  if (divisions <= kExactDivisionCountMax) {
    result.test = "permutation_exact";
    result.draws = static_cast<int64_t>(divisions);
    std::vector<bool> is_first(all.size());
    std::fill(is_first.begin(), is_first.begin() + std::ssize(a), true);
    do {
      double first = 0;
      for (size_t i = 0; i < all.size(); ++i) first += is_first[i] ? all[i] : 0;
      extreme_count += distance(first) >= threshold;
    } while (std::prev_permutation(is_first.begin(), is_first.end()));
    result.p_value = extreme_count / divisions;
    return result;
  }
  result.test = "permutation_sampled";
  result.draws = options.draws;
  result.seed = options.seed;
  Random random(absl::StrCat("permutation ", options.seed));
  for (int64_t draw = 0; draw < options.draws; ++draw) {
    double first = 0;
    for (size_t i : random.Sample(all.size(), a.size())) first += all[i];
    extreme_count += distance(first) >= threshold;
  }
  result.p_value = static_cast<double>(extreme_count + 1) / (options.draws + 1);
  return result;
}

}  // namespace varifocal::stats
