#include "db/stats/adjust_together.h"

namespace varifocal::stats {
namespace {

// Empty unless every declared mean over tasks is there, finished, and has its contributions: a test that is still to come
// has no place in a joint distribution.
MaxTValues MaxTOfSuite(const std::vector<ComparisonReport*>& reports, int64_t declared_count) {
  std::vector<ClusterContributions> all, answered;
  bool has_failures = false;
  for (const ComparisonReport* report : reports) {
    for (const SuiteComparison& row : report->suite) {
      if (row.is_unfinished || !row.can_infer || row.contributions.empty()) return {};
      all.push_back(row.contributions);
      answered.push_back(row.answered ? row.answered_contributions : row.contributions);
      has_failures |= row.answered.has_value();
    }
  }
  if (std::ssize(all) < declared_count) return {};
  MaxTValues values{MaxTAdjust(all), {}};
  values.answered = has_failures ? MaxTAdjust(answered) : values.all;
  return values;
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
