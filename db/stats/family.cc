#include "db/stats/family.h"

#include <algorithm>
#include <memory>

#include "base/status_macros.h"
#include "db/stats/adjust_together.h"
#include "db/stats/grouped_pairs.h"

namespace varifocal::stats {
namespace {

bool IsSame(const db::JobVariant& a, const db::JobVariant& b) { return a.job_id == b.job_id && a.name == b.name; }

}  // namespace

absl::StatusOr<std::vector<CandidateReport>> CompareFamily(db::Reader& reader, const db::JobVariant& baseline,
                                                           const std::vector<db::JobVariant>& candidates,
                                                           const CompareOptions& asked) {
  CompareOptions options = asked;
  if (options.source == nullptr) options.source = std::make_shared<PairSource>();
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
                     ReadPairs(reader, baseline.job_id, baseline.name, member.candidate.name, *options.source, unused));
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
