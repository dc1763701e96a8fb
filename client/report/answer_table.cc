#include "client/report/answer_table.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/report/text_format.h"

namespace varifocal::report {

absl::Status AnswerTable::Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels) {
  ASSIGN_OR_RETURN(std::vector<db::AnswerCounts> counts, reader.CountAnswers(job_id));
  for (db::AnswerCounts& cell : counts) {
    const auto label = labels.find(cell.variant);
    if (label == labels.end()) continue;
    cell.variant = label->second;
    std::tuple key{cell.variant, cell.context_length, cell.task};
    cells_[std::move(key)] = std::move(cell);
  }
  return absl::OkStatus();
}

db::AnswerCounts AnswerTable::Of(const std::string& variant, const std::string& task, int64_t context_length) const {
  db::AnswerCounts sum{variant, task, context_length};
  for (auto cell = cells_.lower_bound({variant, context_length, ""}); cell != cells_.end(); ++cell) {
    const auto& [cell_variant, cell_length, cell_task] = cell->first;
    if (cell_variant != variant || cell_length != context_length) break;
    if (!task.empty() && task != cell_task) continue;
    sum.answered_count += cell->second.answered_count;
    sum.failed_count += cell->second.failed_count;
    sum.empty_count += cell->second.empty_count;
    sum.refused_count += cell->second.refused_count;
    sum.cut_count += cell->second.cut_count;
    sum.extrapolated_count += cell->second.extrapolated_count;
    sum.truncated_count += cell->second.truncated_count;
  }
  return sum;
}

std::string CountsNote(const db::AnswerCounts& counts, bool with_failed) {
  std::vector<std::string> parts;
  if (with_failed && counts.failed_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.failed_count), " failed"));
  if (counts.empty_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.empty_count), " empty"));
  if (counts.refused_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.refused_count), " refused"));
  if (counts.cut_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.cut_count), " cut"));
  if (counts.truncated_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.truncated_count), " truncated"));
  return absl::StrJoin(parts, ", ");
}

bool AnswerTable::IsExtrapolated(const std::string& variant, const std::string& task, int64_t context_length) const {
  return Of(variant, task, context_length).extrapolated_count > 0;
}

bool AnswerTable::IsExtrapolated(const std::string& variant) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const auto& cell) {
    return cell.second.variant == variant && cell.second.extrapolated_count > 0;
  });
}

}  // namespace varifocal::report
