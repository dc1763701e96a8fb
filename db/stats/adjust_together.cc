#include "db/stats/adjust_together.h"

namespace varifocal::stats {
namespace {

// Empty unless every declared mean over tasks is there, finished, and has its contributions: a test that is still to come
// has no place in a joint distribution.
std::vector<double> MaxTOfSuite(const std::vector<ComparisonReport*>& reports, int64_t declared_count) {
  std::vector<ClusterContributions> tests;
  for (const ComparisonReport* report : reports) {
    for (const SuiteComparison& row : report->suite) {
      if (row.is_unfinished || !row.can_infer || row.contributions.empty()) return {};
      tests.push_back(row.contributions);
    }
  }
  if (std::ssize(tests) < declared_count) return {};
  return MaxTAdjust(tests);
}

}  // namespace

void AdjustTogether(const std::vector<ComparisonReport*>& reports, const DeclaredTests& more, double confidence) {
  std::vector<Inference*> suite, rows[2], contrasts[2][2];
  DeclaredTests declared = more;
  for (ComparisonReport* report : reports) {
    declared.suite += report->declared.suite;
    declared.primary += report->declared.primary;
    declared.secondary += report->declared.secondary;
    for (SuiteComparison& row : report->suite) suite.push_back(&row);
    for (Comparison& row : report->comparisons) rows[row.is_primary_metric ? 0 : 1].push_back(&row);
    for (LengthContrast& row : report->contrasts)
      contrasts[row.kind == LengthContrast::Kind::kSlope][row.task.empty()].push_back(&row);
  }
  AdjustForMultipleTests(suite, declared.suite, confidence, MaxTOfSuite(reports, declared.suite));
  AdjustForMultipleTests(rows[0], declared.primary, confidence);
  AdjustForMultipleTests(rows[1], declared.secondary, confidence);
  for (const auto& of_kind : contrasts) {
    for (const std::vector<Inference*>& family : of_kind) AdjustForMultipleTests(family, 0, confidence);
  }
}

}  // namespace varifocal::stats
