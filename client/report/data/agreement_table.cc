#include "client/report/data/agreement_table.h"

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {
namespace {

bool IsFromElsewhere(const std::string& metric) { return absl::StartsWith(metric, db::kImportedPrefix); }

}  // namespace

absl::Status AgreementTable::Read(db::Reader& reader, const db::JobVariant& variant) {
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(variant.job_id));
  std::map<std::string, db::TaskMetricRecord> own;         // of each task, its first
  std::set<std::pair<std::string, std::string>> compared;  // task and metric
  bool any = false;
  for (const db::TaskMetricRecord& metric : metrics) {
    if (IsFromElsewhere(metric.metric)) {
      any = true;
      compared.insert({metric.task, metric.metric});
    } else if (const auto [first, is_new] = own.emplace(metric.task, metric);
               !is_new && metric.metric_index < first->second.metric_index) {
      first->second = metric;
    }
  }
  if (!any) return absl::OkStatus();
  for (const auto& [task, metric] : own) compared.insert({task, metric.metric});
  return reader.EachAnswerScore(variant.job_id, variant.name, [&](const db::SampleRow& row) {
    if (row.value.has_value() && !row.error_code.has_value() && compared.contains({row.task, row.metric})) {
      scores_[row.metric][{variant.job_id, variant.name, row.task, row.context_length, row.sample_index}] = {
          absl::StrCat(variant.job_id, "/", row.cluster), *row.value};
    }
    return absl::OkStatus();
  });
}

const std::vector<std::string>& AgreementTable::Titles() {
  static const auto* const titles =
      new std::vector<std::string>{"Scores", "Answers", "Contexts", "Kappa", "Interval", "Equal, %"};
  return *titles;
}

std::vector<std::vector<std::string>> AgreementTable::Rows(double confidence) const {
  std::vector<std::vector<std::string>> rows;
  for (auto first = scores_.begin(); first != scores_.end(); ++first) {
    for (auto second = scores_.begin(); second != scores_.end(); ++second) {
      // Of two imported ones each pair once, of others the imported one first.
      if (!IsFromElsewhere(first->first)) continue;
      if (IsFromElsewhere(second->first) && second->first <= first->first) continue;
      std::vector<stats::RatedAnswer> rated;
      for (const auto& [answer, score] : first->second) {
        const auto other = second->second.find(answer);
        if (other != second->second.end()) rated.push_back({score.cluster, score.value, other->second.value});
      }
      if (rated.empty()) continue;
      const stats::Agreement agreement = stats::AgreementOf(rated, confidence);
      rows.push_back({absl::StrCat(first->first, " and ", second->first), CountLabel(agreement.answer_count),
                      CountLabel(agreement.cluster_count),
                      agreement.kappa.has_value() ? absl::StrFormat("%.3f", *agreement.kappa) : "none, no score varies",
                      agreement.lower.has_value() ? absl::StrFormat("%.3f to %.3f", *agreement.lower, *agreement.upper)
                                                  : std::string(),
                      absl::StrFormat("%.1f", 100 * agreement.equal_share)});
    }
  }
  return rows;
}

}  // namespace varifocal::report
