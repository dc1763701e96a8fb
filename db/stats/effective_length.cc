#include "db/stats/effective_length.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/stats/inference.h"

namespace varifocal::stats {
namespace {

std::vector<Cluster> ShiftedClusters(const std::vector<LengthValue>& values, double factor, double shift) {
  std::vector<ClusteredValue> result;
  for (const LengthValue& value : values) result.push_back({value.cluster, factor * value.value + shift});
  return GroupByCluster(result);
}

// Empty unless the shortest length asks all questions of this one.
std::vector<Cluster> PairedWithShortest(const LengthValues& task, int64_t length, double share) {
  const std::vector<LengthValue>&values = task.at(length), &shortest = task.begin()->second;
  std::map<std::string, double> by_question;
  for (const LengthValue& value : shortest) by_question[value.question_id] = value.value;
  std::vector<ClusteredValue> paired;
  for (const LengthValue& value : values) {
    const auto found = by_question.find(value.question_id);
    if (found == by_question.end()) return {};
    paired.push_back({value.cluster, value.value - share * found->second});
  }
  return GroupByCluster(paired);
}

// By task; the mean over tasks and their parts has the sign of score minus threshold. One part a task, or two that are
// independent where a length of some task asks questions that the shortest does not.
std::vector<std::vector<std::vector<Cluster>>> AgainstThreshold(const std::vector<LengthValues>& tasks, int64_t length,
                                                                const EffectiveLengthOptions& options) {
  std::vector<std::vector<std::vector<Cluster>>> parts;
  bool is_paired = true;
  for (const LengthValues& task : tasks) {
    parts.push_back({options.score.has_value() ? ShiftedClusters(task.at(length), 1, -*options.score)
                                               : PairedWithShortest(task, length, options.share)});
    is_paired &= !parts.back()[0].empty();
  }
  if (is_paired) return parts;
  for (size_t i = 0; i < tasks.size(); ++i) {
    parts[i] = {ShiftedClusters(tasks[i].at(length), 1, 0),
                ShiftedClusters(tasks[i].begin()->second, -options.share, 0)};
  }
  return parts;
}

double MeanOf(const std::vector<LengthValue>& values) { return MeanOfClusters(ShiftedClusters(values, 1, 0)).mean; }

}  // namespace

const char* EffectiveLengthProblemName(EffectiveLengthProblem problem) {
  switch (problem) {
    case EffectiveLengthProblem::kUnfinished:
      return "unfinished";
    case EffectiveLengthProblem::kNoInference:
      return "no_inference";
    case EffectiveLengthProblem::kNoScore:
      return "no_score";
    case EffectiveLengthProblem::kNone:
      break;
  }
  return "";
}

EffectiveLength FindEffectiveLength(const std::vector<LengthValues>& tasks, const EffectiveLengthOptions& options) {
  VF_CHECK(!tasks.empty() && !tasks.front().empty(), "an effective length needs a task with a length");
  EffectiveLength result;
  std::vector<std::vector<std::vector<std::vector<Cluster>>>> parts;  // by length, task
  for (const auto& [length, values] : tasks.front()) {
    result.tested.push_back(length);
    parts.push_back(AgainstThreshold(tasks, length, options));
  }
  for (const LengthValues& task : tasks) result.shortest_score += MeanOf(task.begin()->second) / tasks.size();
  result.threshold = options.score.value_or(options.share * result.shortest_score);
  if (!options.score.has_value() && result.shortest_score <= 0) {
    result.problem = EffectiveLengthProblem::kNoScore;
    return result;
  }

  // Pooled over lengths; over all tasks where no value of a task differs.
  std::vector<std::vector<std::vector<Cluster>>> of_task(tasks.size());
  std::vector<std::vector<Cluster>> of_all;
  for (const auto& at_length : parts) {
    for (size_t i = 0; i < tasks.size(); ++i) {
      of_task[i].insert(of_task[i].end(), at_length[i].begin(), at_length[i].end());
      of_all.insert(of_all.end(), at_length[i].begin(), at_length[i].end());
    }
  }
  const std::optional<double> over_tasks = PooledDesignEffect(of_all);
  std::vector<Inference> above;  // by length
  for (const auto& at_length : parts) {
    std::vector<TaskDifferences> differences;
    for (size_t i = 0; i < tasks.size(); ++i) {
      const std::optional<double> own = PooledDesignEffect(of_task[i]);
      for (const std::vector<Cluster>& part : at_length[i]) {
        const double most = std::max(1.0, DesignEffectMax(part));
        differences.push_back({part, 1, std::clamp(own.value_or(over_tasks.value_or(most)), 1.0, most)});
      }
    }
    above.push_back(InferDifference(differences, {.confidence = options.confidence, .with_sign_flip = false}));
    if (!above.back().can_infer) result.problem = EffectiveLengthProblem::kNoInference;
  }

  const size_t count = above.size();
  // A share of the score at the shortest length is below that score, whatever its interval is.
  const size_t known = options.score.has_value() ? 0 : 1;
  const auto reached = [&](const auto& is_reached) {
    size_t i = known;
    while (i < count && is_reached(above[i])) ++i;
    return i == 0 ? std::nullopt : std::optional(result.tested[i - 1]);
  };
  constexpr double kRounding = 1e-12;
  result.length = reached([](const Inference& row) { return row.difference >= -kRounding; });
  if (result.problem != EffectiveLengthProblem::kNone) return result;
  result.low = reached([](const Inference& row) { return row.low > 0; });
  size_t left = count;
  while (left > known && above[left - 1].high < 0) --left;
  if (left > 0) result.high = result.tested[left - 1];
  return result;
}

absl::StatusOr<std::vector<EffectiveLength>> EffectiveLengths(db::Reader& reader, int64_t job_id,
                                                              const EffectiveLengthOptions& options) {
  ASSIGN_OR_RETURN(const TestedLengths tested, TestedLengths::Read(reader, job_id));
  ASSIGN_OR_RETURN(std::vector<std::vector<EffectiveLength>> lengths,
                   EffectiveLengths(reader, job_id, std::vector{options}, tested));
  return std::move(lengths.front());
}

absl::StatusOr<std::vector<std::vector<EffectiveLength>>> EffectiveLengths(
    db::Reader& reader, int64_t job_id, const std::vector<EffectiveLengthOptions>& options,
    const TestedLengths& tested) {
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.QuestionCells(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(job_id));
  std::vector<std::vector<EffectiveLength>> results(options.size());
  for (const db::VariantRecord& variant : variants) {
    struct TaskValues {
      const db::TaskMetricRecord* metric;
      LengthValues values;
      std::map<int64_t, int64_t> missing;  // by length: planned less counted
    };
    std::vector<TaskValues> all;
    for (const db::TaskMetricRecord& metric : metrics) {
      if (metric.metric_index != 0 || !metric.worst_value.has_value() || !metric.best_value.has_value() ||
          *metric.worst_value == *metric.best_value) {
        continue;
      }
      TaskValues& task = all.emplace_back(TaskValues{&metric, {}, {}});
      for (const db::CellRow& cell : cells) {
        if (cell.cell.variant != variant.name || cell.cell.task != metric.task) continue;
        const std::optional<int64_t> length = tested.Of(cell.cell.task, cell.cell.context_length);
        if (!length.has_value()) continue;
        task.missing[*length] = cell.cell.planned_count;
        task.values[*length];
      }
    }
    RETURN_IF_ERROR(reader.EachSampleRow(job_id, variant.name, [&](const db::SampleRow& sample) -> absl::Status {
      for (TaskValues& task : all) {
        const db::TaskMetricRecord& metric = *task.metric;
        if (sample.task != metric.task || sample.metric != metric.metric) continue;
        RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
        const std::optional<double> value = sample.Counted(metric.worst_value);
        const std::optional<int64_t> length = tested.Of(sample.task, sample.context_length);
        if (!value.has_value() || !length.has_value()) continue;
        if (!sample.is_partial) --task.missing[*length];
        task.values[*length].push_back({sample.question_id, sample.cluster,
                                        (*value - *metric.worst_value) / (*metric.best_value - *metric.worst_value)});
      }
      return absl::OkStatus();
    }));
    std::vector<std::string> names;
    std::vector<LengthValues> tasks;
    std::vector<std::set<int64_t>> unfinished;  // by task: lengths with fewer samples than planned
    for (TaskValues& task : all) {
      if (task.values.size() < 2) continue;
      std::set<int64_t>& lengths = unfinished.emplace_back();
      for (const auto& [length, at_length] : task.values) {
        if (task.missing[length] > 0 || at_length.empty()) lengths.insert(length);
      }
      names.push_back(task.metric->task);
      tasks.push_back(std::move(task.values));
    }
    const auto add = [&](const std::string& name, const std::vector<LengthValues>& of, bool is_unfinished) {
      for (size_t i = 0; i < options.size(); ++i) {
        EffectiveLength row;
        if (is_unfinished) {
          row.problem = EffectiveLengthProblem::kUnfinished;
          for (const auto& [length, values] : of.front()) row.tested.push_back(length);
        } else {
          row = FindEffectiveLength(of, options[i]);
        }
        row.variant = variant.name;
        row.task = name;
        results[i].push_back(std::move(row));
      }
    };
    for (size_t i = 0; i < tasks.size(); ++i) add(names[i], {tasks[i]}, !unfinished[i].empty());
    if (tasks.size() < 2) continue;
    bool is_unfinished = false;
    std::vector<LengthValues> common(tasks.size());
    for (const auto& [length, values] : tasks.front()) {
      const int64_t wanted = length;
      if (!std::all_of(tasks.begin(), tasks.end(), [&](const LengthValues& task) { return task.contains(wanted); }))
        continue;
      for (size_t i = 0; i < tasks.size(); ++i) {
        common[i][length] = tasks[i].at(length);
        is_unfinished |= unfinished[i].contains(length);
      }
    }
    if (common.front().size() >= 2) add("", common, is_unfinished);
  }
  return results;
}

}  // namespace varifocal::stats
