#include "db/stats/clusters.h"

#include <cmath>
#include <map>
#include <set>

#include "base/check.h"

namespace varifocal::stats {

std::vector<Cluster> GroupByCluster(const std::vector<ClusteredValue>& values) {
  // Values are sorted within their cluster as well: addition of doubles depends on the order, results must not.
  std::map<std::string, std::multiset<double>> groups;
  for (const ClusteredValue& value : values) groups[value.cluster].insert(value.value);
  std::vector<Cluster> clusters;
  clusters.reserve(groups.size());
  for (const auto& [name, members] : groups) {
    Cluster cluster;
    for (double value : members) cluster.sum += value;
    cluster.count = static_cast<int64_t>(members.size());
    clusters.push_back(cluster);
  }
  return clusters;
}

ClusteredMean MeanOfClusters(const std::vector<Cluster>& clusters) {
  ClusteredMean result;
  double sum = 0;
  double magnitude = 0;
  for (const Cluster& cluster : clusters) {
    sum += cluster.sum;
    magnitude += std::abs(cluster.sum);
    result.value_count += cluster.count;
  }
  VF_CHECK(result.value_count > 0, "a mean needs a value");
  const double n = static_cast<double>(result.value_count);
  const double c = static_cast<double>(clusters.size());
  result.cluster_count = static_cast<int64_t>(clusters.size());
  result.mean = sum / n;
  if (clusters.size() < 2) return result;
  // var(mean) = C/(C-1) * sum_c (sum_c - count_c * mean)^2 / n^2
  double squares = 0;
  for (const Cluster& cluster : clusters) {
    const double stray = cluster.sum - static_cast<double>(cluster.count) * result.mean;
    squares += stray * stray;
  }
  result.standard_error = std::sqrt(c / (c - 1) * squares) / n;
  // Equal clusters stray by rounding only, which must read as "no variance seen".
  if (result.standard_error * n <= 1e-12 * magnitude) result.standard_error = 0;
  return result;
}

}  // namespace varifocal::stats
