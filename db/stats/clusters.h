// The mean of clustered data with its standard error.
//
// Questions on one context are correlated, so the cluster is the unit of evidence: the mean over all values is a ratio
// of cluster sums to cluster sizes, and its variance is estimated from the residuals of the cluster sums, with the
// correction for few or unequal clusters known as CR2 and its Satterthwaite degrees of freedom. For C clusters of equal
// size that is the ordinary variance of the cluster means with C - 1 degrees of freedom.
//
// Source: Bell and McCaffrey 2002, Survey Methodology 28, 169-181; Pustejovsky and Tipton 2018, arXiv:1601.01981.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varifocal::stats {

struct Cluster {
  double sum = 0;
  int64_t count = 0;
  double square_sum = 0;  // of the values; needed for DesignEffect() alone
};

struct ClusteredValue {
  std::string cluster;
  double value = 0;
};

// Sums by cluster, in the order of the clusters' names, so that results do not depend on the order of rows.
std::vector<Cluster> GroupByCluster(const std::vector<ClusteredValue>& values);

struct ClusteredMean {
  double mean = 0;
  double standard_error = 0;  // 0 when every cluster has the same mean, and for a single cluster
  double degrees = 0;         // of freedom of standard_error; 0 for a single cluster
  int64_t value_count = 0;
  int64_t cluster_count = 0;
};

ClusteredMean MeanOfClusters(const std::vector<Cluster>& clusters);  // at least one value

// Of two means over the same clusters of the same sizes, by the same CR2: of a mean with itself, its standard error
// squared. 0 for a single cluster.
double CovarianceOfMeans(const std::vector<Cluster>& x, const std::vector<Cluster>& y);

// The number of clusters whose mean is not the most frequent one. Below kSpreadClusterCountMin the variance between
// clusters is not known from this data alone.
int64_t DifferingClusterCount(const std::vector<Cluster>& clusters);
inline constexpr int64_t kSpreadClusterCountMin = 3;
bool HasSpread(const std::vector<Cluster>& clusters);     // enough of them differ, or no two clusters are equal
bool AreMostEqual(const std::vector<Cluster>& clusters);  // more than half of them have the most frequent mean

// The design effect: the clustered variance over the variance of as many independent values, pooled over `samples` (for
// example one per context length) and at least 1. None when all values are equal.
std::optional<double> PooledDesignEffect(const std::vector<std::vector<Cluster>>& samples);

// The design effect of values that are equal within each cluster: sum of squared sizes / number of values.
double DesignEffectMax(const std::vector<Cluster>& clusters);

// Of clusters without spread: `own`, of the same task elsewhere; without it that of `others`; without either the largest.
// Between 1 and the largest.
double BorrowedDesignEffect(const std::vector<Cluster>& clusters, std::optional<double> own,
                            std::optional<double> others);

}  // namespace varifocal::stats
