#include "db/stats/intervals.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "db/stats/special.h"

namespace varifocal::stats {

Interval WilsonInterval(double mean, double effective_count, double confidence) {
  VF_CHECK(mean >= 0 && mean <= 1 && effective_count > 0);
  // (p + z^2/2n +- z sqrt(p(1-p)/n + z^2/4n^2)) / (1 + z^2/n)
  const double z = NormalQuantile((1 + confidence) / 2);
  const double z2n = z * z / effective_count;
  const double centre = mean + z2n / 2;
  const double half = std::sqrt(z2n * (mean * (1 - mean) + z2n / 4));
  // At 0 and 1 the formula gives the bound exactly but for rounding.
  return {mean == 0 ? 0 : std::max(0.0, (centre - half) / (1 + z2n)),
          mean == 1 ? 1 : std::min(1.0, (centre + half) / (1 + z2n))};
}

double EffectiveSampleCount(const std::vector<Cluster>& clusters) {
  const ClusteredMean mean = MeanOfClusters(clusters);
  const double n = static_cast<double>(mean.value_count);
  const double c = static_cast<double>(mean.cluster_count);
  if (mean.cluster_count < 2) return 1;
  // Both variances unbiased, so that clusters of one value have design effect 1: p(1-p)/(n-1).
  const double independent_variance = mean.mean * (1 - mean.mean) / (n - 1);
  if (!(independent_variance > 0)) return c;
  const double design_effect = mean.standard_error * mean.standard_error / independent_variance;
  return n / std::max(1.0, design_effect);
}

Interval BinaryMeanInterval(const std::vector<Cluster>& clusters, double confidence) {
  return WilsonInterval(std::clamp(MeanOfClusters(clusters).mean, 0.0, 1.0), EffectiveSampleCount(clusters),
                        confidence);
}

Interval MeanInterval(const std::vector<Cluster>& clusters, Range range, double confidence) {
  const ClusteredMean mean = MeanOfClusters(clusters);
  const double lowest = std::min(range.low, range.high);
  const double highest = std::max(range.low, range.high);
  const double c = static_cast<double>(mean.cluster_count);
  if (mean.cluster_count < 2) return {lowest, highest};
  double low = 0;
  double high = 0;
  if (mean.standard_error > 0) {
    const double half = StudentTQuantile((1 + confidence) / 2, c - 1) * mean.standard_error;
    low = mean.mean - half;
    high = mean.mean + half;
  } else {
    // Rule of three, for any confidence: the share q of other clusters with (1 - q)^C = 1 - confidence is near
    // -ln(1 - confidence) / C, which is 3/C at 95 %.
    const double share = std::min(1.0, -std::log(1 - confidence) / c);
    low = mean.mean - share * (mean.mean - lowest);
    high = mean.mean + share * (highest - mean.mean);
  }
  return {std::max(low, lowest), std::min(high, highest)};
}

Interval ScoreInterval(const std::vector<Cluster>& clusters, bool is_binary, Range range, double confidence) {
  return is_binary ? BinaryMeanInterval(clusters, confidence) : MeanInterval(clusters, range, confidence);
}

double DetectableDifference(double standard_error, int64_t cluster_count) {
  VF_CHECK(cluster_count >= 2);
  const double degrees = static_cast<double>(cluster_count - 1);
  return (StudentTQuantile(0.975, degrees) + StudentTQuantile(0.8, degrees)) * standard_error;
}

}  // namespace varifocal::stats
