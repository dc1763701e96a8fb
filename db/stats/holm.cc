#include "db/stats/holm.h"

#include <algorithm>
#include <numeric>

namespace varifocal::stats {

std::vector<double> HolmAdjust(const std::vector<double>& p_values) {
  std::vector<size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double running = 0;
  for (size_t rank = 0; rank < order.size(); ++rank) {
    // max over smaller ones of (m - rank) * p
    running = std::max(running, (order.size() - rank) * p_values[order[rank]]);
    adjusted[order[rank]] = std::min(1.0, running);
  }
  return adjusted;
}

}  // namespace varifocal::stats
