// Values grouped by what they share, and the mean of such data with its standard error.
//
// Questions on one context stand and fall together, so the cluster is the unit of evidence: the mean over all values is
// a ratio of cluster sums to cluster sizes, and its variance comes from how far clusters stray from it.
//
// Source: Cochran 1977, Sampling Techniques, section 9.6 (ratio to size, clusters of unequal size); with the C/(C-1)
//         correction for few clusters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace varifocal::stats {

struct Cluster {
  double sum = 0;
  int64_t count = 0;
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
  int64_t value_count = 0;
  int64_t cluster_count = 0;
};

ClusteredMean MeanOfClusters(const std::vector<Cluster>& clusters);  // at least one value

}  // namespace varifocal::stats
