#include "db/stats/arm_table.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/stats/grouped_pairs.h"

namespace varifocal::stats {
namespace {

MetricInfo InfoOf(const db::TaskMetricRecord& metric) {
  MetricInfo info;
  info.is_binary = metric.is_binary;
  info.is_primary = metric.metric_index == 0;
  info.worst_value = metric.worst_value;
  info.best_value = metric.best_value;
  return info;
}

std::vector<ArmMeasure> MeasuresOf(const std::vector<db::TaskMetricRecord>& metrics) {
  ArmMeasure suite{"", "", true, {}};
  std::vector<ArmMeasure> single, unbounded;
  for (const db::TaskMetricRecord& metric : metrics) {
    const MetricInfo info = InfoOf(metric);
    if (CanBeAveraged(info)) suite.parts.push_back(metric);
    single.push_back({metric.task, metric.metric, info.is_primary, {metric}});
    if (info.worst_value.has_value()) continue;
    auto known = std::find_if(unbounded.begin(), unbounded.end(),
                              [&](const ArmMeasure& e) { return e.metric == metric.metric; });
    if (known == unbounded.end()) known = unbounded.insert(known, {"", metric.metric, false, {}});
    known->parts.push_back(metric);
  }
  std::vector<ArmMeasure> measures;
  if (!suite.parts.empty()) measures.push_back(std::move(suite));
  for (ArmMeasure& measure : unbounded) {
    if (measure.parts.size() > 1) measures.push_back(std::move(measure));
  }
  measures.insert(measures.end(), single.begin(), single.end());
  return measures;
}

// Of a part of a mean as a share of its span, better being positive; other values are as they are.
double Scaled(double value, const ArmMeasure& measure, const db::TaskMetricRecord& metric) {
  return measure.IsSuite() ? (value - *metric.worst_value) / (*metric.best_value - *metric.worst_value) : value;
}

void Subtract(const std::vector<std::vector<double>>& from, std::vector<std::vector<double>>& values) {
  for (size_t t = 0; t < values.size(); ++t) {
    for (size_t q = 0; q < values[t].size(); ++q) values[t][q] -= from[t][q];
  }
}

double MeanOfRuns(const std::vector<std::vector<std::vector<double>>>& runs) {
  double sum = 0;
  for (const auto& run : runs) {
    for (const std::vector<double>& values : run) {
      double of_task = 0;
      for (double value : values) of_task += value;
      sum += of_task / (values.size() * run.size());
    }
  }
  return sum / runs.size();
}

// The largest size that a difference, or a value, of the measure's task can have; infinite where the metric has no bounds.
double SizeMax(size_t task, const ArmMeasure& measure, bool of_difference) {
  if (measure.IsSuite()) return 1;
  const db::TaskMetricRecord& metric = measure.parts[task];
  const Range range = RangeOf(metric.worst_value, metric.best_value);
  return of_difference ? range.Width() : std::max(std::abs(range.low), std::abs(range.high));
}

// What the inference must know of each selected task.
template <typename Selection>
void SetSpreads(const ArmMeasure& measure, const std::vector<double>& design_effects, bool of_difference,
                Selection& selection) {
  for (size_t t = 0; t < selection.tasks.size(); ++t) {
    selection.tasks[t].difference_max = SizeMax(selection.parts[t], measure, of_difference);
    selection.tasks[t].design_effect = design_effects[selection.parts[t]];
  }
}

// Of each question, the groups' means over seeds, signed and added.
std::vector<Cluster> ClustersOfTask(const std::vector<ReplicateGroup>& groups, const ReplicatedTask& task, size_t t) {
  std::vector<ClusteredValue> values;
  for (size_t q = 0; q < task.clusters.size(); ++q) {
    double value = 0;
    for (const ReplicateGroup& group : groups) {
      for (const auto& run : group.values) value += group.sign * run[t][q] / group.values.size();
    }
    values.push_back({task.clusters[q], value});
  }
  return GroupByCluster(values);
}

MetricKey KeyOf(const db::TaskMetricRecord& metric) { return {metric.task, metric.metric_index, metric.metric}; }

std::string NamesOf(const std::vector<ArmRun>& runs) {
  return absl::StrJoin(runs, "\n", [](std::string* out, const ArmRun& run) { out->append(run.variant); });
}

}  // namespace

absl::StatusOr<ArmTable> ArmTable::Read(db::Reader& reader, int64_t job_id) {
  ArmTable table;
  ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(job_id));
  table.arms_ = FindArms(variants);
  if (table.arms_.arms.empty()) return table;
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  table.measures_ = MeasuresOf(metrics);
  std::map<std::pair<std::string, std::string>, db::TaskMetricRecord> metric_of;
  for (const db::TaskMetricRecord& metric : metrics) metric_of[{metric.task, metric.metric}] = metric;
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.QuestionCells(job_id));
  ASSIGN_OR_RETURN(table.tested_, TestedLengths::Read(reader, job_id));
  std::set<int64_t> lengths;
  for (const db::CellRow& row : cells) {
    const std::optional<int64_t> length = table.tested_.Of(row.cell.task, row.cell.context_length);
    if (!length.has_value()) continue;  // asked with the same prompts at a shorter length
    lengths.insert(*length);
    table.planned_[{row.cell.variant, row.cell.task, *length}] = row.cell.planned_count;
  }
  table.lengths_.assign(lengths.begin(), lengths.end());
  for (const Arm& arm : table.arms_.arms) {
    for (const ArmRun& run : arm.runs) {
      Values& values = table.values_[run.variant];
      RETURN_IF_ERROR(reader.EachSampleRow(job_id, run.variant, [&](const db::SampleRow& sample) -> absl::Status {
        const db::TaskMetricRecord& metric = metric_of[{sample.task, sample.metric}];
        RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
        const std::optional<int64_t> length = table.tested_.Of(sample.task, sample.context_length);
        if (!length.has_value()) return absl::OkStatus();
        values[{sample.task, sample.metric, *length}][{sample.sample_index, sample.question_id}] = {
            sample.cluster, sample.Counted(metric.worst_value), sample.error_code.has_value(), sample.is_partial};
        return absl::OkStatus();
      }));
    }
  }
  for (const Arm& arm : table.arms_.arms) table.effects_[NamesOf(arm.runs)] = table.EffectsOf(arm.runs, 0, false);
  return table;
}

ArmTable::Selection ArmTable::Select(const std::vector<ArmRun>& runs, const ArmMeasure& measure, int64_t length,
                                     bool answered_only) const {
  Selection selection;
  selection.values.resize(runs.size());
  for (size_t part = 0; part < measure.parts.size(); ++part) {
    const db::TaskMetricRecord& metric = measure.parts[part];
    int64_t planned = 0;
    std::vector<const std::map<Question, Value>*> of_runs;
    static const std::map<Question, Value> kNothing;
    for (const ArmRun& run : runs) {
      const auto cell = planned_.find({run.variant, metric.task, length});
      if (cell != planned_.end()) planned = std::max(planned, cell->second);
      const Values& values = values_.at(run.variant);
      const auto found = values.find({metric.task, metric.metric, length});
      of_runs.push_back(found == values.end() ? &kNothing : &found->second);
    }
    if (planned == 0) continue;  // a task without this length
    selection.counts.planned_count += planned;
    for (const auto* answers : of_runs) {
      selection.counts.is_unfinished |= std::ssize(*answers) < planned;
      for (const auto& [question, value] : *answers) {
        selection.counts.failed_count += value.is_failed;
        selection.counts.is_unfinished |= value.is_partial;
      }
    }
    ReplicatedTask task;
    std::vector<std::vector<double>> columns(runs.size());
    for (const auto& [question, first] : *of_runs.front()) {
      std::vector<double> row;
      for (const auto* answers : of_runs) {
        const auto found = answers->find(question);
        const bool is_there =
            found != answers->end() && found->second.value.has_value() && !(answered_only && found->second.is_failed);
        if (is_there) row.push_back(Scaled(*found->second.value, measure, metric));
      }
      if (row.size() < runs.size()) continue;
      task.clusters.push_back(first.cluster);
      for (size_t r = 0; r < runs.size(); ++r) columns[r].push_back(row[r]);
    }
    if (task.clusters.empty()) continue;
    selection.tasks.push_back(std::move(task));
    selection.parts.push_back(part);
    for (size_t r = 0; r < runs.size(); ++r) selection.values[r].push_back(std::move(columns[r]));
  }
  return selection;
}

std::vector<ReplicateGroup> ArmTable::GroupsOf(const Selection& selection, int64_t baseline_count, bool is_paired) {
  ReplicateGroup lower{-1, {selection.values.begin(), selection.values.begin() + baseline_count}};
  ReplicateGroup upper{1, {selection.values.begin() + baseline_count, selection.values.end()}};
  if (baseline_count == 0) return {std::move(upper)};
  if (!is_paired) return {std::move(upper), std::move(lower)};
  for (size_t s = 0; s < upper.values.size(); ++s) Subtract(lower.values[s], upper.values[s]);
  return {std::move(upper)};
}

DesignEffects ArmTable::EffectsOf(const std::vector<ArmRun>& runs, int64_t baseline_count, bool is_paired) const {
  DesignEffects effects;
  for (const ArmMeasure& measure : measures_) {
    if (measure.task.empty()) continue;  // a mean has those of its tasks
    for (int64_t length : lengths_) {
      const Selection selection = Select(runs, measure, length);
      if (selection.tasks.empty()) continue;
      const std::vector<ReplicateGroup> groups = GroupsOf(selection, baseline_count, is_paired);
      const db::TaskMetricRecord& metric = measure.parts.front();
      effects.Add(
          KeyOf(metric), length, ClustersOfTask(groups, selection.tasks[0], 0),
          CanBeAveraged(InfoOf(metric)) ? std::optional(*metric.best_value - *metric.worst_value) : std::nullopt);
    }
  }
  return effects;
}

std::vector<double> ArmTable::DesignEffectsAt(const DesignEffects& effects, const ArmMeasure& measure,
                                              const Selection& selection, int64_t length) {
  std::vector<double> of_parts(measure.parts.size(), 1);
  for (size_t part : selection.parts) of_parts[part] = effects.Of(KeyOf(measure.parts[part]), length);
  return of_parts;
}

ArmRow ArmTable::InferAt(Selection selection, const ArmMeasure& measure, int64_t baseline_count, bool is_paired,
                         const std::vector<double>& design_effects, const CompareOptions& options) {
  ArmRow row;
  const auto middle = selection.values.begin() + baseline_count;
  const double baseline_mean = MeanOfRuns({selection.values.begin(), middle});
  const double candidate_mean = MeanOfRuns({middle, selection.values.end()});
  SetSpreads(measure, design_effects, /*of_difference=*/true, selection);
  const std::vector<ReplicateGroup> groups = GroupsOf(selection, baseline_count, is_paired);
  InferenceOptions inference{options.confidence, std::nullopt, 1, options.with_sign_flip, options.sign_flip};
  const db::TaskMetricRecord& metric = measure.parts.front();
  if (metric.worst_value.has_value() && metric.best_value.has_value()) {
    const double span = measure.IsSuite() ? 1 : *metric.best_value - *metric.worst_value;
    inference.margin = options.margin * std::abs(span);
    inference.direction = span < 0 ? -1 : 1;
  }
  static_cast<ReplicatedInference&>(row) = InferReplicates(selection.tasks, groups, inference);
  row.can_infer &= row.is_over_seeds;  // one run an arm has nothing to say about other seeds
  row.baseline_mean = baseline_mean;
  row.candidate_mean = candidate_mean;
  return row;
}

ArmComparison ArmTable::CompareAt(const Arm& baseline, const Arm& candidate, const CompareOptions& options) const {
  ArmComparison result{baseline, candidate, false, {}, {}};
  std::vector<ArmRun> paired[2];
  for (const ArmRun& b : baseline.runs) {
    for (const ArmRun& c : candidate.runs) {
      if (b.seed != c.seed) continue;
      paired[0].push_back(b);
      paired[1].push_back(c);
    }
  }
  if (paired[0].size() >= 2 || (baseline.runs.size() == 1 && candidate.runs.size() == 1 && !paired[0].empty())) {
    result.is_paired = true;
    for (const auto& [arm, runs] : {std::pair(&baseline, &paired[0]), std::pair(&candidate, &paired[1])}) {
      for (const ArmRun& run : arm->runs) {
        if (std::none_of(runs->begin(), runs->end(), [&](const ArmRun& kept) { return kept.seed == run.seed; }))
          result.left_out_seeds.push_back(run.seed);
      }
    }
    result.baseline.runs = paired[0];
    result.candidate.runs = paired[1];
  }
  std::vector<ArmRun> all = result.baseline.runs;
  all.insert(all.end(), result.candidate.runs.begin(), result.candidate.runs.end());
  const auto baseline_count = std::ssize(result.baseline.runs);
  const DesignEffects effects = EffectsOf(all, baseline_count, result.is_paired);
  for (const ArmMeasure& measure : measures_) {
    for (int64_t length : lengths_) {
      Selection selection = Select(all, measure, length);
      if (selection.counts.planned_count == 0) continue;
      const ArmCounts counts = selection.counts;
      const bool has_values = !selection.tasks.empty();
      ArmRow row;
      const std::vector<double> design_effects = DesignEffectsAt(effects, measure, selection, length);
      const auto infer = [&](Selection of, const CompareOptions& own) {
        return InferAt(std::move(of), measure, baseline_count, result.is_paired, design_effects, own);
      };
      if (has_values) row = infer(std::move(selection), options);
      if (has_values && counts.failed_count > 0) {
        row.answered.emplace();
        Selection answered = Select(all, measure, length, /*answered_only=*/true);
        CompareOptions unchecked = options;
        unchecked.with_sign_flip = false;
        if (!answered.tasks.empty()) {
          const ArmRow other = infer(std::move(answered), unchecked);
          row.answered = {other.difference, other.low,           other.high,     other.value_count,
                          other.p_value,    other.p_equivalence, other.can_infer};
        }
      }
      row.measure = measure;
      row.context_length = length;
      row.counts = counts;
      row.is_unfinished = counts.is_unfinished || !has_values;
      result.rows.push_back(std::move(row));
    }
  }
  return result;
}

absl::StatusOr<std::vector<ArmComparison>> ArmTable::ComparePoints(const std::string& baseline,
                                                                   const std::string& candidate,
                                                                   const CompareOptions& options) const {
  std::vector<ArmComparison> comparisons;
  for (const Arm& b : arms_.arms) {
    if (b.name != baseline) continue;
    const Arm* found = nullptr;
    for (const Arm& c : arms_.arms) {
      if (c.name != candidate || !IsComparable(b, c)) continue;
      if (found != nullptr) {
        return InvalidArgument("the arm ", candidate, " has two points that fit ", b.Label(), ": ",
                               found->runs.front().variant, " and ", c.runs.front().variant, "; give them two arms");
      }
      found = &c;
    }
    if (found == nullptr) continue;
    for (const ArmComparison& known : comparisons) {
      if (known.candidate.runs.front().variant != found->runs.front().variant) continue;
      return InvalidArgument("the arm ", baseline, " has two points that fit ", found->Label(), ": ",
                             known.baseline.runs.front().variant, " and ", b.runs.front().variant,
                             "; give them two arms");
    }
    comparisons.push_back(CompareAt(b, *found, options));
  }
  return comparisons;
}

absl::StatusOr<std::vector<ArmComparison>> ArmTable::Compare(const std::string& baseline, const std::string& candidate,
                                                             const CompareOptions& options) const {
  const std::vector<std::string> names = arms_.Names();
  for (const std::string& name : {baseline, candidate}) {
    if (std::find(names.begin(), names.end(), name) == names.end())
      return NotFound("the job has no arm \"", name, "\"; ",
                      names.empty() ? "its checkpoints state no training arm and seed"
                                    : absl::StrCat("it has ", absl::StrJoin(names, ", ")));
  }
  if (baseline == candidate) return InvalidArgument("the arm ", baseline, " cannot be compared with itself");
  std::vector<ArmComparison> wanted, others;
  for (const std::string& name : names) {
    if (name == baseline) continue;
    CompareOptions own = options;
    own.with_sign_flip &= name == candidate;
    auto comparisons = ComparePoints(baseline, name, own);
    if (name == candidate) {
      RETURN_IF_ERROR(comparisons.status());
      wanted = *std::move(comparisons);
    } else if (comparisons.ok()) {
      others.insert(others.end(), comparisons->begin(), comparisons->end());
    }
  }
  if (wanted.empty()) {
    std::vector<std::string> points;
    for (const Arm& arm : arms_.arms) {
      if (arm.name == baseline || arm.name == candidate) points.push_back(arm.Label());
    }
    return FailedPrecondition(
        baseline, " and ", candidate,
        " have no point with equal tokens, trained length and parameters in common: ", absl::StrJoin(points, "; "));
  }
  std::vector<Inference*> suite, other_means, primary, secondary;
  for (std::vector<ArmComparison>* comparisons : {&wanted, &others}) {
    for (ArmComparison& comparison : *comparisons) {
      if (!comparison.IsOverSeeds()) continue;  // no tests
      for (ArmRow& row : comparison.rows) {
        if (!row.can_infer && !row.is_unfinished) continue;  // the same value everywhere is no test
        (row.measure.IsSuite()      ? suite
         : row.measure.task.empty() ? other_means
         : row.measure.is_primary   ? primary
                                    : secondary)
            .push_back(&row);
      }
    }
  }
  for (const std::vector<Inference*>& family : {suite, other_means, primary, secondary})
    AdjustForMultipleTests(family, std::ssize(family), options.confidence);
  return wanted;
}

std::optional<ArmMean> ArmTable::MeanOf(const Arm& arm, const ArmMeasure& measure, int64_t length,
                                        double confidence) const {
  Selection selection = Select(arm.runs, measure, length);
  if (selection.tasks.empty()) return std::nullopt;
  const std::vector<ReplicateGroup> groups = GroupsOf(selection, /*baseline_count=*/0, /*is_paired=*/false);
  const auto known = effects_.find(NamesOf(arm.runs));
  VF_CHECK(known != effects_.end(), "the arm is one of the table's");
  SetSpreads(measure, DesignEffectsAt(known->second, measure, selection, length), /*of_difference=*/false, selection);
  InferenceOptions options;
  options.confidence = confidence;
  options.with_sign_flip = false;
  ArmMean mean;
  static_cast<ReplicatedInference&>(mean) = InferReplicates(selection.tasks, groups, options);
  mean.counts = selection.counts;
  mean.is_unfinished = selection.counts.is_unfinished;
  const db::TaskMetricRecord& metric = measure.parts.front();
  if (metric.worst_value.has_value() && metric.best_value.has_value()) {
    const double worst = measure.IsSuite() ? 0 : *metric.worst_value, best = measure.IsSuite() ? 1 : *metric.best_value;
    mean.low = std::max(mean.low, std::min(worst, best));
    mean.high = std::min(mean.high, std::max(worst, best));
  }
  return mean;
}

std::vector<double> ArmTable::RunMeans(const std::vector<ArmRun>& runs, const ArmMeasure& measure,
                                       int64_t length) const {
  std::vector<double> means;
  const Selection selection = Select(runs, measure, length);
  for (const auto& values : selection.values) {
    if (!values.empty()) means.push_back(MeanOfRuns({values}));
  }
  return means;
}

}  // namespace varifocal::stats
