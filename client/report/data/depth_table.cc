#include "client/report/data/depth_table.h"

#include <algorithm>

#include "base/json.h"

namespace varifocal::report {

std::optional<double> DepthOf(const db::SampleRecord& sample) {
  if (!sample.evidence_json.has_value() || sample.prompt_token_count.value_or(0) <= 0) return std::nullopt;
  const auto spans = ParseJson(*sample.evidence_json);
  if (!spans.ok() || !spans->is_array() || spans->empty()) return std::nullopt;
  const Json& first = spans->front();
  if (!first.is_object() || !first.contains("token_begin") || !first["token_begin"].is_number()) return std::nullopt;
  return first["token_begin"].get<double>() / *sample.prompt_token_count;
}

void DepthTable::Add(size_t variant_index, const db::SampleRecord& sample, double value) {
  const std::optional<double> depth = DepthOf(sample);
  if (!depth.has_value()) return;
  const int quarter = std::clamp<int>(*depth * kQuarterCount, 0, kQuarterCount - 1);
  Mean& cell = cells_[{variant_index, sample.context_length, quarter, sample.task}];
  cell.sum += value;
  ++cell.count;
}

std::optional<double> DepthTable::MeanOf(size_t variant_index, const std::string& task, int64_t length,
                                         int quarter) const {
  double sum = 0;
  int64_t task_count = 0;
  for (auto cell = cells_.lower_bound({variant_index, length, quarter, task}); cell != cells_.end(); ++cell) {
    const auto& [cell_variant, cell_length, cell_quarter, cell_task] = cell->first;
    if (cell_variant != variant_index || cell_length != length || cell_quarter != quarter) break;
    if (!task.empty() && cell_task != task) break;
    sum += cell->second.sum / cell->second.count;
    ++task_count;
  }
  return task_count > 0 ? std::optional(sum / task_count) : std::nullopt;
}

int64_t DepthTable::CountOf(size_t variant_index, const std::string& task, int64_t length, int quarter) const {
  int64_t count = 0;
  for (auto cell = cells_.lower_bound({variant_index, length, quarter, task}); cell != cells_.end(); ++cell) {
    const auto& [cell_variant, cell_length, cell_quarter, cell_task] = cell->first;
    if (cell_variant != variant_index || cell_length != length || cell_quarter != quarter) break;
    if (!task.empty() && cell_task != task) break;
    count += cell->second.count;
  }
  return count;
}

std::set<std::string> DepthTable::TasksOf(size_t variant_index, int64_t length, int quarter) const {
  std::set<std::string> tasks;
  for (const auto& [cell, mean] : cells_) {
    const auto& [cell_variant, cell_length, cell_quarter, cell_task] = cell;
    if (cell_variant == variant_index && cell_length == length && cell_quarter == quarter) tasks.insert(cell_task);
  }
  return tasks;
}

bool DepthTable::HasTask(const std::string& task) const {
  return std::any_of(cells_.begin(), cells_.end(), [&](const auto& cell) { return std::get<3>(cell.first) == task; });
}

}  // namespace varifocal::report
