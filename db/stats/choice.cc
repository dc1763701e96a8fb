#include "db/stats/choice.h"

#include <map>
#include <utility>

#include "base/status_macros.h"

namespace varifocal::stats {
namespace {

constexpr double kRounding = 1e-12;  // means that are equal but for the order of their sums

// The means over tasks by length; none for a candidate without answers yet.
absl::StatusOr<std::map<int64_t, SuiteComparison>> SuiteOf(db::Reader& reader, const db::JobVariant& baseline,
                                                           const db::JobVariant& candidate,
                                                           const CompareOptions& options) {
  std::map<int64_t, SuiteComparison> suite;
  absl::StatusOr<ComparisonReport> report = CompareVariants(reader, baseline, candidate, options);
  if (absl::IsFailedPrecondition(report.status())) return suite;
  RETURN_IF_ERROR(report.status());
  for (SuiteComparison& row : report->suite) suite.emplace(row.context_length, std::move(row));
  return suite;
}

}  // namespace

absl::StatusOr<std::vector<Choice>> ChooseAndConfirm(db::Reader& reader, const db::JobVariant& baseline,
                                                     const std::vector<db::JobVariant>& candidates, bool keeps_baseline,
                                                     CompareOptions options) {
  options.with_max_t = false;
  const bool with_sign_flip = std::exchange(options.with_sign_flip, false);
  options.contexts = Contexts::kChoice;
  std::map<int64_t, Choice> best;
  for (const db::JobVariant& candidate : candidates) {
    ASSIGN_OR_RETURN(const auto suite, SuiteOf(reader, baseline, candidate, options));
    for (const auto& [length, row] : suite) {
      const auto known = best.find(length);
      if (known != best.end() && row.difference <= known->second.choice_difference + kRounding) continue;
      best[length] = {candidate, row.difference, row.cluster_count, {}};
    }
  }
  options.with_sign_flip = with_sign_flip;
  options.contexts = Contexts::kConfirmation;
  std::vector<Choice> choices;
  for (auto& [length, choice] : best) {
    if (keeps_baseline && choice.choice_difference <= kRounding) {
      choice.candidate = baseline;
      choice.is_baseline = true;
      choice.choice_difference = 0;
      choice.confirmation.context_length = length;
      choice.confirmation.baseline = choice.confirmation.candidate = baseline.name;
      choices.push_back(std::move(choice));
      continue;
    }
    ASSIGN_OR_RETURN(auto suite, SuiteOf(reader, baseline, choice.candidate, options));
    const auto row = suite.find(length);
    if (row == suite.end()) continue;
    choice.confirmation = std::move(row->second);
    choices.push_back(std::move(choice));
  }
  std::vector<Inference*> family;
  for (Choice& choice : choices) {
    if (!choice.is_baseline) family.push_back(&choice.confirmation);
  }
  AdjustForMultipleTests(family, 0, options.confidence);
  return choices;
}

}  // namespace varifocal::stats
