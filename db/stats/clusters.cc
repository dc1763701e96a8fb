#include "db/stats/clusters.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/check.h"

namespace varifocal::stats {

std::vector<Cluster> GroupByCluster(const std::vector<ClusteredValue>& values) {
  absl::flat_hash_map<absl::string_view, size_t> places;
  std::vector<std::pair<absl::string_view, std::vector<double>>> groups;
  for (const ClusteredValue& value : values) {
    const auto [place, is_new] = places.try_emplace(value.cluster, groups.size());
    if (is_new) groups.push_back({value.cluster, {}});
    groups[place->second].second.push_back(value.value);
  }
  std::sort(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Cluster> clusters;
  clusters.reserve(groups.size());
  for (auto& [name, members] : groups) {
    // Values are sorted within their cluster as well: addition of doubles depends on the order, results must not.
    std::sort(members.begin(), members.end());
    Cluster cluster;
    for (double value : members) {
      cluster.sum += value;
      cluster.square_sum += value * value;
    }
    cluster.count = members.size();
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
  const double n = result.value_count;
  result.cluster_count = clusters.size();
  result.mean = sum / n;
  if (clusters.size() < 2) return result;
  // With shares a_c = count_c / n of the values: var(mean) = sum_c r_c^2 / (1 - a_c) / n^2, where r_c is the residual
  // sum_c - count_c * mean. Under independent values of variance s^2, E[r_c r_d] = s^2 (count_c [c=d] - count_c count_d
  // / n), and with B_cd = E[r_c r_d] / sqrt((1 - a_c)(1 - a_d)) the degrees of freedom are (trace B)^2 / trace(B B):
  // trace B = n, trace(B B) = sum_c count_c^2 + (sum_c w_c)^2 - sum_c w_c^2, w_c = count_c^2 / (1 - a_c) / n.
  double squares = 0;
  double diagonal = 0, weight_sum = 0, weight_square_sum = 0;
  for (const Cluster& cluster : clusters) {
    const double count = cluster.count;
    const double rest = 1 - count / n;
    const double residual = cluster.sum - count * result.mean;
    squares += residual * residual / rest;
    diagonal += count * count;
    const double weight = count * count / rest / n;
    weight_sum += weight;
    weight_square_sum += weight * weight;
  }
  result.standard_error = std::sqrt(squares) / n;
  result.degrees = n * n / (diagonal + weight_sum * weight_sum - weight_square_sum);
  // Equal clusters differ by rounding only, which must count as zero variance.
  if (result.standard_error * n <= 1e-12 * magnitude) result.standard_error = 0;
  return result;
}

double CovarianceOfMeans(const std::vector<Cluster>& x, const std::vector<Cluster>& y) {
  VF_CHECK(x.size() == y.size(), "a covariance needs the same clusters");
  const ClusteredMean mean_x = MeanOfClusters(x), mean_y = MeanOfClusters(y);
  if (x.size() < 2) return 0;
  const double n = mean_x.value_count;
  double products = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    VF_CHECK(x[i].count == y[i].count, "a covariance needs clusters of the same sizes");
    const double count = x[i].count;
    products += (x[i].sum - count * mean_x.mean) * (y[i].sum - count * mean_y.mean) / (1 - count / n);
  }
  return products / (n * n);
}

int64_t DifferingClusterCount(const std::vector<Cluster>& clusters) {
  std::vector<double> means;
  double magnitude = 0;
  for (const Cluster& cluster : clusters) {
    means.push_back(cluster.sum / cluster.count);
    magnitude = std::max(magnitude, std::abs(means.back()));
  }
  std::sort(means.begin(), means.end());
  int64_t longest = 0;
  for (size_t first = 0, i = 0; i < means.size(); ++i) {
    if (means[i] - means[first] > 1e-12 * magnitude) first = i;
    longest = std::max<int64_t>(longest, i - first + 1);
  }
  return std::ssize(means) - longest;
}

bool HasSpread(const std::vector<Cluster>& clusters) {
  const int64_t count = clusters.size(), differing = DifferingClusterCount(clusters);
  return differing >= kSpreadClusterCountMin || (count > 1 && differing == count - 1);
}

bool AreMostEqual(const std::vector<Cluster>& clusters) {
  return 2 * DifferingClusterCount(clusters) < std::ssize(clusters);
}

std::optional<double> PooledDesignEffect(const std::vector<std::vector<Cluster>>& samples) {
  double clustered = 0, independent = 0;
  for (const std::vector<Cluster>& clusters : samples) {
    if (clusters.size() < 2) continue;
    const ClusteredMean mean = MeanOfClusters(clusters);
    const double n = mean.value_count;
    if (n < 2) continue;
    double square_sum = 0;
    for (const Cluster& cluster : clusters) square_sum += cluster.square_sum;
    clustered += n * mean.standard_error * mean.standard_error;
    independent += n * (square_sum / n - mean.mean * mean.mean) / (n - 1);
  }
  if (!(independent > 1e-12)) return std::nullopt;
  return std::max(1.0, clustered / independent);
}

double DesignEffectMax(const std::vector<Cluster>& clusters) {
  double squares = 0, n = 0;
  for (const Cluster& cluster : clusters) {
    squares += static_cast<double>(cluster.count) * cluster.count;
    n += cluster.count;
  }
  return n > 0 ? squares / n : 1;
}

double BorrowedDesignEffect(const std::vector<Cluster>& clusters, std::optional<double> own,
                            std::optional<double> others) {
  const double most = std::max(1.0, DesignEffectMax(clusters));
  return std::clamp(own.value_or(others.value_or(most)), 1.0, most);
}

}  // namespace varifocal::stats
