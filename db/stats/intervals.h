// 95 % intervals for means and for paired differences, from clusters.
//
// Binary mean: Wilson's interval with the number of values replaced by the effective sample size: values / design
// effect, where the design effect is the clustered variance over the variance of as many independent values, and at
// least 1. With no failure seen (or no success) nothing is known of how they cluster, and a cluster counts as one
// value. Measured on simulated clusters of 4 (12 and 25 of them, correlation 0 to 0.7, means 0.5 to 0.97): 93 to 97 %
// of these intervals hold the truth, against 70 to 97 % when samples count as independent. Other means and differences:
// t interval with clusters - 1 degrees of freedom. When every cluster has the same mean there is no variance to see,
// and the rule of three speaks: at most a share 3/clusters of clusters may be different, and those as different as the
// range allows.
//
// Source: Wilson 1927; Korn and Graubard 1998 (effective sample size with the t correction for few clusters); Hanley
// and
//         Lippman-Hand 1983 (rule of three).
#pragma once

#include <vector>

#include "db/stats/clusters.h"

namespace varifocal::stats {

struct Interval {
  double low = 0;
  double high = 0;
};

struct Range {  // of a single value: worst and best of a metric, in either order
  double low = 0;
  double high = 1;
};

// Wilson's interval for a share `mean` of `effective_count` independent values (which need not be whole).
Interval WilsonInterval(double mean, double effective_count, double confidence = 0.95);

// The number of independent values that would know as much, between 1 and the number of values.
double EffectiveSampleCount(const std::vector<Cluster>& clusters);

Interval BinaryMeanInterval(const std::vector<Cluster>& clusters, double confidence = 0.95);

// The t interval cut to the range. For a single cluster: the whole range.
Interval MeanInterval(const std::vector<Cluster>& clusters, Range range, double confidence = 0.95);

// Whichever of the two suits the metric.
Interval ScoreInterval(const std::vector<Cluster>& clusters, bool is_binary, Range range, double confidence = 0.95);

// The smallest true difference that a test at level 0.05 would find four times out of five, given this standard error.
double DetectableDifference(double standard_error, int64_t cluster_count);

}  // namespace varifocal::stats
