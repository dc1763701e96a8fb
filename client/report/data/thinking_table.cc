#include "client/report/data/thinking_table.h"

#include <cmath>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/report/data/length_label.h"
#include "client/report/data/text_format.h"

namespace varifocal::report {

absl::Status ThinkingTable::Read(db::Reader& reader, int64_t job_id, const std::map<std::string, std::string>& labels,
                                 const stats::TestedLengths& tested) {
  tested_ = tested;
  ASSIGN_OR_RETURN(std::vector<db::ThinkingCostRow> rows, reader.ThinkingCosts(job_id));
  for (db::ThinkingCostRow& row : rows) {
    const auto label = labels.find(row.variant);
    const std::optional<int64_t> length = tested.Of(row.task, row.context_length);
    if (label == labels.end() || !length.has_value()) continue;
    row.variant = label->second;
    row.context_length = *length;
    cells_[label->second].push_back(std::move(row));
  }
  return absl::OkStatus();
}

std::optional<db::ThinkingCostRow> ThinkingTable::Of(const std::string& variant, const std::string& task,
                                                     int64_t context_length) const {
  const auto found = cells_.find(variant);
  if (found == cells_.end()) return std::nullopt;
  db::ThinkingCostRow sum{variant, task, context_length};
  for (const db::ThinkingCostRow& cell : found->second) {
    if (cell.context_length != context_length || (!task.empty() && cell.task != task)) continue;
    const auto count = static_cast<double>(cell.answer_count);
    sum.answer_count += cell.answer_count;
    sum.thinking_tokens += count * cell.thinking_tokens;
    sum.answer_tokens += count * cell.answer_tokens;
    sum.right_count += cell.right_count;
  }
  if (sum.answer_count == 0) return std::nullopt;
  if (sum.right_count > 0) sum.tokens_per_right = (sum.thinking_tokens + sum.answer_tokens) / sum.right_count;
  sum.thinking_tokens /= static_cast<double>(sum.answer_count);
  sum.answer_tokens /= static_cast<double>(sum.answer_count);
  return sum;
}

const std::vector<std::string>& ThinkingTable::Titles() {
  static const std::vector<std::string>* const titles = new std::vector<std::string>{
      "Variant", "Length", "Right", "Tokens per right", "Thinking tokens", "Answer tokens"};
  return *titles;
}

std::vector<std::vector<std::string>> ThinkingTable::Rows(const std::vector<std::string>& variants) const {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& name : variants) {
    const auto found = cells_.find(name);
    if (found == cells_.end()) continue;
    std::set<int64_t> lengths;
    for (const db::ThinkingCostRow& cell : found->second) lengths.insert(cell.context_length);
    for (const int64_t length : lengths) {
      const db::ThinkingCostRow row = *Of(name, "", length);
      const bool is_whole = row.right_count == std::floor(row.right_count);  // no answer is right in part
      rows.push_back({name, LengthLabel(tested_, "", length),
                      absl::StrCat(Unsigned(row.right_count, is_whole ? 0 : 1), " of ", CountLabel(row.answer_count)),
                      row.tokens_per_right.has_value() ? Unsigned(*row.tokens_per_right, 1) : kNoValue,
                      Unsigned(row.thinking_tokens, 1), Unsigned(row.answer_tokens, 1)});
    }
  }
  return rows;
}

}  // namespace varifocal::report
