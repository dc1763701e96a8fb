#include "db/stats/score_intervals.h"

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "db/stats/special.h"

namespace varifocal::stats {

Range RangeOf(std::optional<double> worst, std::optional<double> best) {
  if (worst.has_value() && best.has_value()) return {*worst, *best};
  return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
}

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

double EffectiveSampleCount(const std::vector<Cluster>& clusters, std::optional<double> borrowed_design_effect) {
  const ClusteredMean mean = MeanOfClusters(clusters);
  const double n = mean.value_count;
  // One or two clusters with failures (or successes) do not suffice to estimate how failures cluster.
  int64_t below_one = 0, above_zero = 0;
  for (const Cluster& cluster : clusters) {
    below_one += cluster.sum < cluster.count;
    above_zero += cluster.sum > 0;
  }
  if (std::min(below_one, above_zero) < kSpreadClusterCountMin) {
    const double most = DesignEffectMax(clusters);
    return n / std::clamp(borrowed_design_effect.value_or(most), 1.0, std::max(1.0, most));
  }
  // Both variances unbiased, so that clusters of one value have design effect 1: p(1-p)/(n-1).
  const double independent_variance = mean.mean * (1 - mean.mean) / (n - 1);
  const double design_effect = mean.standard_error * mean.standard_error / independent_variance;
  return n / std::max(1.0, design_effect);
}

namespace {

std::optional<Interval> MeanInterval(const std::vector<Cluster>& clusters, const ScoreOptions& options) {
  const ClusteredMean mean = MeanOfClusters(clusters);
  const double lowest = std::min(options.range.low, options.range.high);
  const double highest = std::max(options.range.low, options.range.high);
  const bool is_bounded = !std::isinf(options.range.Width());
  if (!is_bounded && !(mean.standard_error > 0)) return std::nullopt;
  if (mean.cluster_count < 2) return Interval{lowest, highest};
  double low = mean.mean;
  double high = mean.mean;
  if (mean.standard_error > 0) {
    const double half = StudentTQuantile((1 + options.confidence) / 2, mean.degrees) * mean.standard_error;
    low -= half;
    high += half;
  }
  if (is_bounded && !HasSpread(clusters)) {
    // Rule of three, for any confidence: the share q of other values with (1 - q)^n = 1 - confidence is near
    // -ln(1 - confidence) / n, which is 3/n at 95 %.
    const double count = EffectiveSampleCount(clusters, options.borrowed_design_effect);
    const double share = std::min(1.0, -std::log(1 - options.confidence) / count);
    low = std::min(low, mean.mean - share * (mean.mean - lowest));
    high = std::max(high, mean.mean + share * (highest - mean.mean));
  }
  return Interval{std::max(low, lowest), std::min(high, highest)};
}

}  // namespace

std::optional<Interval> ScoreInterval(const std::vector<Cluster>& clusters, const ScoreOptions& options) {
  if (!options.is_binary) return MeanInterval(clusters, options);
  return WilsonInterval(std::clamp(MeanOfClusters(clusters).mean, 0.0, 1.0),
                        EffectiveSampleCount(clusters, options.borrowed_design_effect), options.confidence);
}

double DetectableDifference(double standard_error, double degrees, double level) {
  VF_CHECK(degrees > 0 && level > 0 && level < 1);
  return (StudentTQuantile(1 - level / 2, degrees) + StudentTQuantile(0.8, degrees)) * standard_error;
}

}  // namespace varifocal::stats
