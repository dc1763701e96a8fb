#include "db/stats/family.h"

#include <algorithm>

#include "base/status_macros.h"
#include "db/stats/grouped_pairs.h"
#include "db/stats/max_t.h"

namespace varifocal::stats {
namespace {

bool IsSame(const db::JobVariant& a, const db::JobVariant& b) { return a.job_id == b.job_id && a.name == b.name; }

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

absl::StatusOr<std::vector<CandidateReport>> CompareFamily(db::Reader& reader, const db::JobVariant& baseline,
                                                           const std::vector<db::JobVariant>& candidates,
                                                           const CompareOptions& options) {
  std::vector<CandidateReport> family;
  for (const db::JobVariant& candidate : candidates) family.push_back({candidate, {}, ""});
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(baseline.job_id));
  for (const db::VariantRecord& variant : variants) {
    const db::JobVariant member{baseline.job_id, variant.name};
    const bool is_known = std::any_of(candidates.begin(), candidates.end(),
                                      [&](const db::JobVariant& candidate) { return IsSame(candidate, member); });
    if (!is_known && !IsSame(baseline, member)) family.push_back({member, {}, ""});
  }
  DeclaredTests unanswered;  // of candidates without any pair yet
  std::vector<ComparisonReport*> reports;
  for (size_t i = 0; i < family.size(); ++i) {
    CandidateReport& member = family[i];
    CompareOptions own = options;
    own.with_sign_flip = options.with_sign_flip && i < candidates.size();
    auto report = CompareVariants(reader, baseline, member.candidate, own);
    if (report.ok()) {
      member.report = *std::move(report);
      reports.push_back(&member.report);
      continue;
    }
    if (!absl::IsFailedPrecondition(report.status())) return report.status();
    member.problem = std::string(report.status().message());
    if (member.candidate.job_id != baseline.job_id) continue;
    ComparisonReport unused;
    ASSIGN_OR_RETURN(const GroupedPairs planned,
                     ReadPairs(reader, baseline.job_id, baseline.name, member.candidate.name, unused));
    const DeclaredTests declared = planned.Declared();
    unanswered.suite += declared.suite;
    unanswered.primary += declared.primary;
    unanswered.secondary += declared.secondary;
  }
  AdjustTogether(reports, unanswered, options.confidence);
  family.resize(candidates.size());
  return family;
}

}  // namespace varifocal::stats
