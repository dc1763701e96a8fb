#include "db/stats/equal_loss.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "db/stats/clusters.h"
#include "db/stats/special.h"

namespace varifocal::stats {

const char* EqualLossProblemName(EqualLossProblem problem) {
  switch (problem) {
    case EqualLossProblem::kOneSeed:
      return "one_seed";
    case EqualLossProblem::kCensored:
      return "censored";
    case EqualLossProblem::kNoSpread:
      return "no_spread";
    case EqualLossProblem::kNone:
      break;
  }
  return "";
}

Reach FirstReach(const std::vector<AxisValue>& curve, double value, bool up) {
  const auto gap = [&](const AxisValue& point) { return up ? point.value - value : value - point.value; };
  if (gap(curve.front()) > 0) return {-1, curve.front().x};
  for (size_t i = 0; i < curve.size(); ++i) {
    const double after = gap(curve[i]);
    if (after < 0) continue;
    if (i == 0 || after == 0) return {0, curve[i].x};
    const double before = gap(curve[i - 1]);  // below 0: no earlier point was as good
    const double share = -before / (after - before);
    return {0, std::exp(std::log(curve[i - 1].x) + share * std::log(curve[i].x / curve[i - 1].x))};
  }
  return {1, curve.back().x};
}

EqualLossRatio InferEqualLoss(const std::vector<EqualLossSeed>& seeds, double x, bool up, double confidence) {
  VF_CHECK(!seeds.empty() && x > 0);
  EqualLossRatio result;
  result.seed_count = std::ssize(seeds);
  std::vector<double> logs;
  std::vector<Cluster> clusters;
  bool is_bounded_below = true, is_bounded_above = true;
  for (const EqualLossSeed& seed : seeds) {
    const Reach reach = FirstReach(seed.baseline, seed.candidate, up);
    const double log = std::log(reach.x / x);
    logs.push_back(log);
    clusters.push_back({log, 1, log * log});
    result.above_count += reach.side > 0;
    result.below_count += reach.side < 0;
    is_bounded_below &= reach.side >= 0;
    is_bounded_above &= reach.side <= 0;
  }
  const auto [least, most] = std::minmax_element(logs.begin(), logs.end());
  if (is_bounded_below) result.at_least = std::exp(*least);
  if (is_bounded_above) result.at_most = std::exp(*most);
  if (result.above_count + result.below_count > 0) {
    result.problem = EqualLossProblem::kCensored;
    return result;
  }
  const ClusteredMean mean = MeanOfClusters(clusters);
  result.ratio = std::exp(mean.mean);
  result.problem = seeds.size() < 2           ? EqualLossProblem::kOneSeed
                   : mean.standard_error == 0 ? EqualLossProblem::kNoSpread
                                              : EqualLossProblem::kNone;
  if (result.problem != EqualLossProblem::kNone) return result;
  const double half = StudentTQuantile((1 + confidence) / 2, mean.degrees) * mean.standard_error;
  result.low = std::exp(mean.mean - half);
  result.high = std::exp(mean.mean + half);
  result.p_value = std::min(1.0, 2 * StudentTCdf(-std::abs(mean.mean) / mean.standard_error, mean.degrees));
  result.sign_flip = SignFlipTest(logs);
  return result;
}

}  // namespace varifocal::stats
