// Perplexity: e to the minus mean log-likelihood of one continuation per question (LAMBADA's last word), or of each token
// of a text.
//
// Everything is estimated on the log scale, where questions add up, and then carried over: an interval of the mean
// turns into an interval of the perplexity with its ends exchanged, and a difference of two models into the ratio of
// their perplexities, below 1 when the candidate is the better one.
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "db/stats/compare.h"
#include "db/stats/score_intervals.h"

namespace varifocal::report {

// Whether exp(-mean) of the metric is a perplexity.
bool IsLogLikelihood(absl::string_view metric);

double Perplexity(double mean_log_likelihood);
stats::Interval PerplexityInterval(const stats::Interval& of_mean);

std::string PerplexityLabel(double perplexity);  // four digits: "27.36", "5.313e+10"

struct PerplexityRow {
  std::string baseline, baseline_range, candidate, candidate_range;  // "27.36", "25.1 to 29.9"
  std::string ratio, low, high;  // "×0.96", "×0.91", "×1.01"; no ends without inference

  std::string Range() const { return low.empty() ? "" : low + " to " + high; }
};
PerplexityRow PerplexityOf(const stats::Comparison& row);  // of a metric that IsLogLikelihood

}  // namespace varifocal::report
