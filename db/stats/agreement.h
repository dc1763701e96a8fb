// How far two raters of the same answers agree: kappa with quadratic weights, and its interval over clusters.
//
// Values are numbers, for example scores from 0 to 1. With x and y of the two raters,
//
//   kappa = 1 - mean((x - y)^2) / (var(x) + var(y) + (mean(x) - mean(y))^2)
//
// with variances over n: for grades on a scale, Cohen's kappa with quadratic weights; for 0 and 1, his first kappa. The
// interval is that of the delete-one-cluster jackknife of atanh(kappa) by Student's t over clusters: answers on one context
// are not independent. Simulated coverage: docs/measuring.md, "Agreement of judges".
//
// Source: Cohen 1968, Psychological Bulletin 70, 213-220; Efron and Stein 1981, Annals of Statistics 9, 586-596.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace varifocal::stats {

struct RatedAnswer {
  std::string cluster;
  double first = 0, second = 0;
};

struct Agreement {
  std::optional<double> kappa;         // none where neither rater's values vary
  std::optional<double> lower, upper;  // none without kappa, for a single cluster, or where a cluster decides it alone
  double equal_share = 0;              // of answers with the same value
  int64_t answer_count = 0;
  int64_t cluster_count = 0;
};

Agreement AgreementOf(const std::vector<RatedAnswer>& answers, double confidence = 0.95);

}  // namespace varifocal::stats
