// 95 % intervals for the mean of one score, from clustered values.
//
// Binary mean: Wilson's interval with the number of values replaced by the effective sample size: values / design
// effect. Where clusters show too little spread to estimate a design effect (a perfect score has none), it is borrowed:
// the caller passes that of the same task, metric and variant at other lengths. With none to borrow a cluster counts as
// one value. Other means: t interval with Satterthwaite's degrees of freedom; without spread the rule of three on the
// effective sample size: at most a share 3 / size of the values may differ, by the whole range. Values without bounds have
// the t interval as it is, and none without spread: how far another value may be is unknown.
//
// Source: Wilson 1927; Korn and Graubard 1998 (effective sample size); Hanley and Lippman-Hand 1983 (rule of three).
#pragma once

#include <cmath>
#include <optional>
#include <vector>

#include "db/stats/clusters.h"

namespace varifocal::stats {

struct Interval {
  double low = 0;
  double high = 0;
};

// Of a single value: worst and best of a metric, in either order; infinite where the metric lacks one of them.
struct Range {
  double low = 0;
  double high = 1;

  double Width() const { return std::abs(high - low); }
};
Range RangeOf(std::optional<double> worst, std::optional<double> best);

// Wilson's interval for a share `mean` of `effective_count` independent values (which need not be whole).
Interval WilsonInterval(double mean, double effective_count, double confidence = 0.95);

// The effective sample size, between 1 and the number of values. Without spread:
// values / borrowed_design_effect, or the number of clusters when nothing was borrowed.
double EffectiveSampleCount(const std::vector<Cluster>& clusters, std::optional<double> borrowed_design_effect = {});

// How the interval of a mean is computed.
struct ScoreOptions {
  bool is_binary = false;
  Range range;
  double confidence = 0.95;
  std::optional<double> borrowed_design_effect;
};

// For a single cluster of a metric that is not binary: the whole range, none without bounds.
std::optional<Interval> ScoreInterval(const std::vector<Cluster>& clusters, const ScoreOptions& options);

// The smallest true difference that a two-sided t test at `level` would find four times out of five.
double DetectableDifference(double standard_error, double degrees, double level = 0.05);

}  // namespace varifocal::stats
