// MRCR: similarity to the asked-for text, 0 without the prefix that the answer must begin with.
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "eval_tasks/metrics/benchmarks.h"
#include "eval_tasks/metrics/reference.h"
#include "eval_tasks/metrics/sequence_matcher.h"

namespace varifocal {
namespace {

absl::StatusOr<double> ScoreRatio(const MetricInput& input) {
  ASSIGN_OR_RETURN(const Json reference, ReferenceOf(input));
  ASSIGN_OR_RETURN(const std::string answer, GetString(reference, "answer"));
  ASSIGN_OR_RETURN(const std::string prefix, GetString(reference, "prefix"));
  if (!absl::StartsWith(input.output, prefix)) return 0;
  return DifflibRatio(absl::StripPrefix(input.output, prefix), absl::StripPrefix(answer, prefix));
}

}  // namespace

std::vector<Metric> MrcrMetrics() {
  return {BenchmarkMetric("mrcr/ratio", "MRCR: difflib's ratio to the text asked for, after the required prefix", false,
                          &ScoreRatio)};
}

}  // namespace varifocal
