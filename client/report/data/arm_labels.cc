#include "client/report/data/arm_labels.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/report/data/text_format.h"
#include "db/stats/labels.h"

namespace varifocal::report {

std::vector<std::string> ArmLabels(const stats::ArmComparison& comparison, const stats::ArmRow& row) {
  std::vector<std::string> labels;
  if (!comparison.IsOverSeeds()) {
    const bool one_each = comparison.baseline.runs.size() == 1 && comparison.candidate.runs.size() == 1;
    labels.push_back(one_each ? kOneRunEach : "one training run of an arm: says nothing about other seeds");
  } else if (!row.can_infer && !row.is_unfinished) {
    labels.push_back(stats::kNothingInferred);
  }
  if (row.is_unfinished) {
    labels.push_back(
        absl::StrCat(CountLabel(row.value_count), " of ", CountLabel(row.counts.planned_count), " questions so far"));
  }
  if (row.counts.failed_count > 0) labels.push_back(absl::StrCat(CountLabel(row.counts.failed_count), " failed"));
  if (row.failures_decide) labels.push_back(stats::kFailuresLabel);
  if (row.is_fragile) labels.push_back(stats::kFragileLabel);
  return labels;
}

std::string SeedsLabel(const stats::ArmComparison& comparison) {
  const size_t b = comparison.baseline.runs.size(), c = comparison.candidate.runs.size();
  if (b == 1 && c == 1) return "1 training run each";
  if (comparison.is_paired) return absl::StrCat(c, " seeds, paired");
  return b == c ? absl::StrCat(c, " seeds each") : absl::StrCat(b, " and ", c, " seeds");
}

std::string PointLabel(const stats::ArmComparison& comparison, const std::vector<stats::ArmComparison>& all) {
  std::vector<std::string> parts;
  const auto add = [&](std::optional<int64_t> db::ModelRecord::*fact, const char* unit) {
    std::set<std::optional<int64_t>> values;
    for (const stats::ArmComparison& other : all) values.insert(other.candidate.first.model.*fact);
    const std::optional<int64_t>& own = comparison.candidate.first.model.*fact;
    if (values.size() > 1 && own.has_value()) parts.push_back(absl::StrCat(QuantityLabel(*own), unit));
  };
  add(&db::ModelRecord::training_tokens, " tokens");
  add(&db::ModelRecord::parameter_count, " parameters");
  add(&db::ModelRecord::trained_context_length, " trained length");
  return absl::StrJoin(parts, ", ");
}

std::vector<std::string> ArmNotes(const std::vector<stats::ArmComparison>& comparisons) {
  std::vector<std::string> notes;
  for (const stats::ArmComparison& comparison : comparisons) {
    if (comparison.left_out_seeds.empty()) continue;
    const std::string point = PointLabel(comparison, comparisons);
    notes.push_back(absl::StrCat(comparison.candidate.name, " against ", comparison.baseline.name,
                                 point.empty() ? "" : absl::StrCat(" at ", point),
                                 ": seeds that only one of the two has are left out (",
                                 SeedList(comparison.left_out_seeds), ")."));
  }
  return notes;
}

std::string SeedList(const std::vector<int64_t>& seeds) { return absl::StrJoin(seeds, ", "); }

std::vector<int64_t> SeedsOf(const std::vector<stats::ArmRun>& runs) {
  std::vector<int64_t> seeds;
  for (const stats::ArmRun& run : runs) seeds.push_back(run.seed);
  return seeds;
}

}  // namespace varifocal::report
