#include "client/report/data/perplexity.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace varifocal::report {

bool IsLogLikelihood(absl::string_view metric) {
  return metric == "continuation_log_likelihood" || metric == "long_context_log_likelihood";
}

double Perplexity(double mean_log_likelihood) { return std::exp(-mean_log_likelihood); }

stats::Interval PerplexityInterval(const stats::Interval& of_mean) {
  return {Perplexity(of_mean.high), Perplexity(of_mean.low)};
}

std::string PerplexityLabel(double perplexity) { return absl::StrFormat("%.4g", perplexity); }

PerplexityRow PerplexityOf(const stats::Comparison& row) {
  const auto range = [](const std::optional<stats::Interval>& of_mean) -> std::string {
    if (!of_mean.has_value()) return "";
    const stats::Interval interval = PerplexityInterval(*of_mean);
    return absl::StrCat(PerplexityLabel(interval.low), " to ", PerplexityLabel(interval.high));
  };
  const auto times = [](double log_ratio) { return absl::StrCat("\u00D7", PerplexityLabel(std::exp(log_ratio))); };
  return {PerplexityLabel(Perplexity(row.baseline_mean)),
          range(row.baseline_interval),
          PerplexityLabel(Perplexity(row.candidate_mean)),
          range(row.candidate_interval),
          times(-row.difference),
          row.HasInterval() ? times(-row.adjusted_high) : "",
          row.HasInterval() ? times(-row.adjusted_low) : ""};
}

}  // namespace varifocal::report
