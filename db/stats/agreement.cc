#include "db/stats/agreement.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

struct Sums {
  double count = 0, x = 0, y = 0, xx = 0, yy = 0, difference = 0;  // the last of (x - y)^2

  void Add(const Sums& other, double sign) {
    count += sign * other.count;
    x += sign * other.x;
    y += sign * other.y;
    xx += sign * other.xx;
    yy += sign * other.yy;
    difference += sign * other.difference;
  }
};

std::optional<double> KappaOf(const Sums& sums) {
  if (sums.count <= 0) return std::nullopt;
  const double x = sums.x / sums.count, y = sums.y / sums.count;
  const double chance =
      std::max(0.0, sums.xx / sums.count - x * x) + std::max(0.0, sums.yy / sums.count - y * y) + (x - y) * (x - y);
  if (chance < 1e-12) return std::nullopt;
  return 1 - sums.difference / sums.count / chance;
}

}  // namespace

Agreement AgreementOf(const std::vector<RatedAnswer>& answers, double confidence) {
  Agreement agreement;
  std::map<std::string, Sums> clusters;
  Sums all;
  int64_t equal_count = 0;
  for (const RatedAnswer& answer : answers) {
    const double x = answer.first, y = answer.second;
    const Sums one{1, x, y, x * x, y * y, (x - y) * (x - y)};
    clusters[answer.cluster].Add(one, 1);
    all.Add(one, 1);
    equal_count += x == y;
  }
  agreement.answer_count = std::ssize(answers);
  agreement.cluster_count = std::ssize(clusters);
  if (answers.empty()) return agreement;
  agreement.equal_share = static_cast<double>(equal_count) / agreement.answer_count;
  agreement.kappa = KappaOf(all);
  if (!agreement.kappa.has_value() || clusters.size() < 2) return agreement;
  const double at_most = 1 - 1e-12;  // atanh(1) is infinite
  std::vector<double> without;       // of each cluster, atanh(kappa)
  double mean = 0;
  for (const auto& [name, cluster] : clusters) {
    Sums rest = all;
    rest.Add(cluster, -1);
    const std::optional<double> kappa = KappaOf(rest);
    if (!kappa.has_value()) return agreement;
    without.push_back(std::atanh(std::clamp(*kappa, -at_most, at_most)));
    mean += without.back() / agreement.cluster_count;
  }
  double squares = 0;
  for (const double value : without) squares += (value - mean) * (value - mean);
  const double degrees = agreement.cluster_count - 1;
  const double error = std::sqrt(degrees / agreement.cluster_count * squares);
  const double reach = error * StudentTQuantile(0.5 + confidence / 2, degrees);
  const double middle = std::atanh(std::clamp(*agreement.kappa, -at_most, at_most));
  if (!(reach > 0)) return agreement;  // every cluster agrees alike: nothing is known of its spread
  agreement.lower = std::tanh(middle - reach);
  agreement.upper = std::tanh(middle + reach);
  return agreement;
}

}  // namespace varifocal::stats
