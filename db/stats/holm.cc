#include "db/stats/holm.h"

#include <algorithm>
#include <numeric>

namespace varifocal::stats {

namespace {

// Calls use(i, product, tests_left) for each p value from the smallest: the product is the largest of (m - rank) p so far.
template <typename Use>
void StepDown(const std::vector<double>& p_values, Use use) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  double running = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    const size_t tests_left = order.size() - rank;
    running = std::max(running, tests_left * p_values[order[rank]]);
    use(order[rank], running, tests_left);
  }
}

}  // namespace

std::vector<double> HolmAdjust(const std::vector<double>& p_values) {
  std::vector<double> adjusted(p_values.size());
  StepDown(p_values, [&](size_t i, double product, size_t) { adjusted[i] = std::min(1.0, product); });
  return adjusted;
}

std::vector<double> HolmFactors(const std::vector<double>& p_values) {
  std::vector<double> factors(p_values.size());
  StepDown(p_values, [&](size_t i, double product, size_t tests_left) {
    factors[i] = p_values[i] > 0 ? product / p_values[i] : tests_left;
  });
  return factors;
}

}  // namespace varifocal::stats
