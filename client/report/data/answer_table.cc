#include "client/report/data/answer_table.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/report/data/text_format.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

namespace varifocal::report {

absl::Status AnswerTable::Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                               const stats::TestedLengths& tested) {
  ASSIGN_OR_RETURN(std::vector<db::AnswerCounts> counts, reader.CountAnswers(job_id));
  for (db::AnswerCounts& cell : counts) {
    const auto label = labels.find(cell.variant);
    const std::optional<int64_t> length = tested.Of(cell.task, cell.context_length);
    if (label == labels.end() || !length.has_value()) continue;
    cell.variant = label->second;
    cell.context_length = *length;
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
    for (int64_t db::AnswerCounts::*count :
         {&db::AnswerCounts::extrapolated_count, &db::AnswerCounts::empty_block_count, &db::AnswerCounts::nested_count,
          &db::AnswerCounts::repeated_count, &db::AnswerCounts::forced_count}) {
      sum.*count += cell->second.*count;
    }
    for (const db::AnswerKind& kind : db::kAnswerKinds) sum.*kind.count += cell->second.*kind.count;
  }
  return sum;
}

std::set<int64_t> AnswerTable::Lengths(const std::string& task) const {
  std::set<int64_t> lengths;
  for (const auto& [key, counts] : cells_) {
    if (task.empty() || std::get<2>(key) == task) lengths.insert(std::get<1>(key));
  }
  return lengths;
}

std::string CountsNote(const db::AnswerCounts& counts, bool with_failed) {
  std::vector<std::string> parts;
  if (with_failed && counts.failed_count > 0) parts.push_back(absl::StrCat(CountLabel(counts.failed_count), " failed"));
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    if (counts.*kind.count > 0) parts.push_back(absl::StrCat(CountLabel(counts.*kind.count), " ", kind.name));
  }
  return absl::StrJoin(parts, ", ");
}

std::string PointLabels(bool is_extrapolated, bool is_incomplete) {
  return absl::StrCat(is_extrapolated ? absl::StrCat(", ", stats::kExtrapolatedLabel) : "",
                      is_incomplete ? absl::StrCat(", ", stats::kIncompleteLabel) : "");
}

void AddCountKeys(const std::string& prefix, std::vector<std::string>& keys) {
  for (const db::AnswerKind& kind : db::kAnswerKinds) {
    std::string key = absl::StrCat(prefix, kind.name, "_count");
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(std::move(key));
  }
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
