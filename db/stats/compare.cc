#include "db/stats/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/stats/holm.h"
#include "db/stats/special.h"

namespace varifocal::stats {
namespace {

using db::PairRow;

// The span of a metric: from worst to best; without them, what the values themselves reach to either side.
Range MetricRange(const MetricInfo& info, const std::vector<PairRow>& pairs) {
  if (info.worst_value.has_value() && info.best_value.has_value()) return {*info.worst_value, *info.best_value};
  double reach = 0;
  for (const PairRow& pair : pairs) {
    reach = std::max({reach, std::abs(pair.baseline_value.value_or(0)), std::abs(pair.candidate_value.value_or(0))});
  }
  return {-reach, reach};
}

double Width(Range range) { return std::abs(range.high - range.low); }
Range DifferenceRange(Range range) { return {-Width(range), Width(range)}; }

// Better is +1 when the best value is the high one (or when nothing is known), else -1.
double Direction(const MetricInfo& info) {
  return info.worst_value.has_value() && info.best_value.has_value() && *info.best_value < *info.worst_value ? -1 : 1;
}

// What one task contributes to a mean over tasks: differences by cluster, and how far one can go.
struct TaskDifferences {
  std::vector<Cluster> clusters;
  Range range;
};

struct TestedDifference {
  double difference = 0;
  double standard_error = 0;
  int64_t value_count = 0, cluster_count = 0;
  Interval interval;
  SignFlipResult test;
};

// The mean over tasks of each task's mean difference; tasks are independent, clusters within a task too.
// var = sum_t se_t^2 / T^2, degrees of freedom by Welch and Satterthwaite. With one task: the plain t interval.
TestedDifference TestDifferences(const std::vector<TaskDifferences>& tasks, const CompareOptions& options) {
  TestedDifference result;
  const double task_count = static_cast<double>(tasks.size());
  double variance = 0;
  double degrees_denominator = 0;
  Range range{0, 0};
  std::vector<double> signed_sums;
  bool single_cluster = false;
  for (const TaskDifferences& task : tasks) {
    const ClusteredMean mean = MeanOfClusters(task.clusters);
    result.difference += mean.mean / task_count;
    result.value_count += mean.value_count;
    result.cluster_count += mean.cluster_count;
    const double part = std::pow(mean.standard_error / task_count, 2);
    variance += part;
    if (mean.cluster_count > 1) degrees_denominator += part * part / static_cast<double>(mean.cluster_count - 1);
    single_cluster |= mean.cluster_count < 2;
    range.low += std::min(task.range.low, task.range.high) / task_count;
    range.high += std::max(task.range.low, task.range.high) / task_count;
    for (const Cluster& cluster : task.clusters) {
      signed_sums.push_back(cluster.sum / (task_count * static_cast<double>(mean.value_count)));
    }
  }
  result.standard_error = std::sqrt(variance);
  result.test = SignFlipTest(signed_sums, options.sign_flip);
  if (single_cluster) {
    result.interval = {range.low, range.high};
  } else if (variance > 0) {
    const double degrees = variance * variance / degrees_denominator;
    const double half = StudentTQuantile((1 + options.confidence) / 2, degrees) * result.standard_error;
    result.interval = {std::max(range.low, result.difference - half), std::min(range.high, result.difference + half)};
  } else {
    // No variance in any task: the rule of three over all clusters, through as many equal ones.
    const std::vector<Cluster> equal(result.cluster_count, Cluster{result.difference, 1});
    result.interval = MeanInterval(equal, range, options.confidence);
  }
  return result;
}

bool HasFailure(const PairRow& pair) { return pair.baseline_error.has_value() || pair.candidate_error.has_value(); }

// Differences as a share of the metric's span, better being positive, so that tasks can be averaged.
std::vector<ClusteredValue> ScaledDifferences(const std::vector<PairRow>& pairs, const MetricInfo& info) {
  const double scale = Direction(info) / std::abs(*info.best_value - *info.worst_value);
  std::vector<ClusteredValue> values;
  for (const PairRow& pair : pairs) {
    if (pair.difference.has_value()) values.push_back({pair.cluster, *pair.difference * scale});
  }
  return values;
}

// Long minus short, question by question, in the metric's own unit.
std::vector<PairRow> ContrastPairs(const std::vector<PairRow>& shorter, const std::vector<PairRow>& longer) {
  std::map<std::string, const PairRow*> by_question;
  for (const PairRow& pair : shorter) by_question[pair.question_id] = &pair;
  std::vector<PairRow> result;
  for (const PairRow& pair : longer) {
    auto found = by_question.find(pair.question_id);
    if (found == by_question.end() || !found->second->difference.has_value() || !pair.difference.has_value()) continue;
    PairRow contrast = pair;
    contrast.baseline_value = found->second->difference;
    contrast.candidate_value = pair.difference;
    contrast.difference = *pair.difference - *found->second->difference;
    result.push_back(std::move(contrast));
  }
  return result;
}

double MeanOf(const std::vector<PairRow>& pairs, const std::optional<double> PairRow::*member) {
  std::vector<ClusteredValue> values;
  for (const PairRow& pair : pairs) values.push_back({pair.cluster, *(pair.*member)});
  return MeanOfClusters(GroupByCluster(values)).mean;
}

void Keep(const TestedDifference& tested, double& low, double& high, double& p_value, std::string& test, int64_t& draws,
          uint64_t& seed) {
  low = tested.interval.low;
  high = tested.interval.high;
  p_value = tested.test.p_value;
  test = tested.test.test;
  draws = tested.test.draws;
  seed = tested.test.seed;
}

// Everything that a report compares, grouped: task -> metric -> length -> pairs, with what the metrics mean.
struct Grouped {
  std::map<std::tuple<std::string, int64_t, std::string>, std::map<int64_t, std::vector<PairRow>>> pairs;
  std::map<std::pair<std::string, std::string>, MetricInfo> metrics;
  std::map<std::pair<std::string, int64_t>, int64_t> planned;       // by task and length
  std::map<std::pair<std::string, int64_t>, db::PairedCell> cells;  // across jobs
};

bool CanBeAveraged(const MetricInfo& info) {
  return info.is_primary && info.worst_value.has_value() && info.best_value.has_value() &&
         *info.worst_value != *info.best_value;
}

SuiteComparison CompareSuite(const Grouped& grouped, int64_t length, const std::string& baseline,
                             const std::string& candidate, const CompareOptions& options) {
  SuiteComparison row;
  row.context_length = length;
  row.baseline = baseline;
  row.candidate = candidate;
  std::vector<TaskDifferences> tasks;
  for (const auto& [key, lengths] : grouped.pairs) {
    const auto& [task, metric_index, metric] = key;
    const MetricInfo& info = grouped.metrics.at({task, metric});
    auto found = lengths.find(length);
    if (!CanBeAveraged(info) || found == lengths.end()) continue;
    std::vector<ClusteredValue> values = ScaledDifferences(found->second, info);
    if (values.empty()) continue;
    tasks.push_back({GroupByCluster(values), {-1, 1}});
    const double worst = *info.worst_value;
    const double span = *info.best_value - worst;
    std::vector<PairRow> whole;
    for (const PairRow& pair : found->second) {
      if (pair.difference.has_value()) whole.push_back(pair);
      row.failed_count += HasFailure(pair);
    }
    row.baseline_mean += (MeanOf(whole, &PairRow::baseline_value) - worst) / span;
    row.candidate_mean += (MeanOf(whole, &PairRow::candidate_value) - worst) / span;
    row.is_incomplete |= static_cast<int64_t>(whole.size()) < grouped.planned.at({task, length});
  }
  row.task_count = static_cast<int64_t>(tasks.size());
  if (tasks.empty()) return row;
  row.baseline_mean /= static_cast<double>(tasks.size());
  row.candidate_mean /= static_cast<double>(tasks.size());
  const TestedDifference tested = TestDifferences(tasks, options);
  row.sample_count = tested.value_count;
  row.cluster_count = tested.cluster_count;
  row.difference = tested.difference;
  row.is_incomplete |= row.failed_count > 0;
  Keep(tested, row.low, row.high, row.p_value, row.test, row.draws, row.seed);
  return row;
}

std::vector<LengthContrast> ContrastLengths(const Grouped& grouped, const std::string& baseline,
                                            const std::string& candidate, const CompareOptions& options) {
  std::vector<LengthContrast> contrasts;
  std::vector<TaskDifferences> all_tasks;
  LengthContrast all;
  for (const auto& [key, lengths] : grouped.pairs) {
    const auto& [task, metric_index, metric] = key;
    const MetricInfo& info = grouped.metrics.at({task, metric});
    if (!info.is_primary || lengths.size() < 2) continue;
    const auto& [short_length, shorter] = *lengths.begin();
    const auto& [long_length, longer] = *lengths.rbegin();
    const std::vector<PairRow> pairs = ContrastPairs(shorter, longer);
    if (pairs.empty()) continue;
    LengthContrast row;
    row.task = task;
    row.metric = metric;
    row.short_length = short_length;
    row.long_length = long_length;
    row.baseline = baseline;
    row.candidate = candidate;
    row.short_difference = MeanOf(pairs, &PairRow::baseline_value);
    row.long_difference = MeanOf(pairs, &PairRow::candidate_value);
    std::vector<ClusteredValue> values;
    for (const PairRow& pair : pairs) values.push_back({pair.cluster, *pair.difference});
    const double width = Width(MetricRange(info, shorter));
    const TestedDifference tested = TestDifferences({{GroupByCluster(values), {-2 * width, 2 * width}}}, options);
    row.question_count = tested.value_count;
    row.cluster_count = tested.cluster_count;
    row.contrast = tested.difference;
    Keep(tested, row.low, row.high, row.p_value, row.test, row.draws, row.seed);
    contrasts.push_back(row);

    // Into the mean over tasks, where every task spans the same two lengths.
    if (!CanBeAveraged(info)) continue;
    if (all_tasks.empty()) all = row;
    if (row.short_length != all.short_length || row.long_length != all.long_length) continue;
    const double scale = Direction(info) / width;
    if (all_tasks.empty()) all.short_difference = all.long_difference = 0;
    all.short_difference += row.short_difference * scale;
    all.long_difference += row.long_difference * scale;
    all_tasks.push_back({GroupByCluster(ScaledDifferences(pairs, info)), {-2, 2}});
  }
  if (all_tasks.size() < 2) return contrasts;
  const TestedDifference tested = TestDifferences(all_tasks, options);
  all.task = all.metric = "";
  all.short_difference /= static_cast<double>(all_tasks.size());
  all.long_difference /= static_cast<double>(all_tasks.size());
  all.question_count = tested.value_count;
  all.cluster_count = tested.cluster_count;
  all.contrast = tested.difference;
  Keep(tested, all.low, all.high, all.p_value, all.test, all.draws, all.seed);
  contrasts.push_back(all);
  return contrasts;
}

absl::Status CheckVariants(db::Reader& reader, int64_t job_id, const std::string& baseline,
                           const std::string& candidate) {
  if (baseline == candidate) {
    return absl::InvalidArgumentError(absl::StrCat("baseline and candidate are both \"", baseline, "\""));
  }
  ASSIGN_OR_RETURN(std::vector<db::VariantRecord> variants, reader.Variants(job_id));
  for (const std::string& name : {baseline, candidate}) {
    bool known = std::any_of(variants.begin(), variants.end(), [&](const auto& v) { return v.name == name; });
    if (known) continue;
    return absl::NotFoundError(
        absl::StrCat("job ", job_id, " has no variant \"", name, "\", only ",
                     absl::StrJoin(variants, ", ", [](std::string* out, const auto& v) { out->append(v.name); }),
                     "; a variant of another job is named with it, such as 3/", name));
  }
  return absl::OkStatus();
}

absl::StatusOr<Grouped> GroupPairs(int64_t job_id, const std::vector<db::TaskMetricRecord>& metrics,
                                   std::map<std::pair<std::string, int64_t>, int64_t> planned,
                                   std::vector<PairRow> pairs) {
  Grouped grouped;
  grouped.planned = std::move(planned);
  std::map<std::pair<std::string, std::string>, int64_t> metric_index;
  for (const db::TaskMetricRecord& metric : metrics) {
    grouped.metrics[{metric.task, metric.metric}] = {metric.is_binary, metric.metric_index == 0, 0, metric.worst_value,
                                                     metric.best_value};
    metric_index[{metric.task, metric.metric}] = metric.metric_index;
  }
  for (PairRow& pair : pairs) {
    const auto metric = grouped.metrics.find({pair.task, pair.metric});
    if (metric == grouped.metrics.end() || !grouped.planned.contains({pair.task, pair.context_length})) {
      return absl::DataLossError(absl::StrCat("the database is damaged: job ", job_id, " has answers to task ",
                                              pair.task, " at ", pair.context_length, " tokens and no such cell"));
    }
    const int64_t index = metric_index[{pair.task, pair.metric}];
    for (const std::optional<double>& value : {pair.baseline_value, pair.candidate_value}) {
      RETURN_IF_ERROR(CheckValue(pair.task, pair.metric, value, metric->second.worst_value, metric->second.best_value));
    }
    grouped.pairs[{pair.task, index, pair.metric}][pair.context_length].push_back(std::move(pair));
  }
  return grouped;
}

absl::StatusOr<Grouped> ReadPairs(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                  const std::string& candidate, ComparisonReport& report) {
  ASSIGN_OR_RETURN(report.tokenizers_differ, reader.TokenizersDiffer(job_id, baseline, candidate));
  ASSIGN_OR_RETURN(const std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(const std::vector<db::CellRow> cells, reader.Cells(job_id));
  std::map<std::pair<std::string, int64_t>, int64_t> planned;
  for (const db::CellRow& cell : cells) {
    if (cell.cell.variant != baseline && cell.cell.variant != candidate) continue;
    int64_t& count = planned[{cell.cell.task, cell.cell.context_length}];
    count = std::max(count, cell.cell.planned_count);
  }
  ASSIGN_OR_RETURN(std::vector<PairRow> pairs, reader.Pairs(job_id, baseline, candidate));
  return GroupPairs(job_id, metrics, std::move(planned), std::move(pairs));
}

absl::StatusOr<Grouped> ReadPairsAcrossJobs(db::Reader& reader, const db::JobVariant& baseline,
                                            const db::JobVariant& candidate, ComparisonReport& report) {
  ASSIGN_OR_RETURN(db::CrossPairs cross, db::PairAcrossJobs(reader, baseline, candidate));
  report.is_across_jobs = true;
  report.tokenizers_differ = cross.tokenizers_differ;
  report.tasks_with_other_settings = std::move(cross.tasks_with_other_settings);
  std::map<std::pair<std::string, int64_t>, int64_t> planned;
  for (const db::PairedCell& cell : cross.cells) {
    report.paired_count += cell.paired_count;
    report.baseline_left_out_count += cell.baseline_left_out_count;
    report.candidate_left_out_count += cell.candidate_left_out_count;
    if (cell.planned_count > 0) planned[{cell.task, cell.context_length}] = cell.planned_count;
  }
  ASSIGN_OR_RETURN(Grouped grouped,
                   GroupPairs(baseline.job_id, cross.metrics, std::move(planned), std::move(cross.pairs)));
  for (db::PairedCell& cell : cross.cells) grouped.cells[{cell.task, cell.context_length}] = std::move(cell);
  return grouped;
}

// Fills a report that has nothing but how the pairs were found. `where` is where they come from, for errors.
absl::StatusOr<ComparisonReport> CompareGrouped(const Grouped& grouped, const std::string& where,
                                                const std::string& baseline, const std::string& candidate,
                                                const CompareOptions& options, ComparisonReport report) {
  std::map<int64_t, bool> lengths_seen;
  int64_t group_count = 0;
  for (const auto& [key, lengths] : grouped.pairs) {
    for (const auto& [length, pairs] : lengths) {
      const auto& [task, metric_index, metric] = key;
      MetricInfo info = grouped.metrics.at({task, metric});
      info.planned_count = grouped.planned.at({task, length});
      absl::StatusOr<Comparison> row = ComparePairs(pairs, info, options);
      if (!row.ok()) continue;  // all failed and the metric has no worst value: nothing to compare, and incomplete
      if (const auto cell = grouped.cells.find({task, length}); cell != grouped.cells.end()) {
        row->baseline_left_out_count = cell->second.baseline_left_out_count;
        row->candidate_left_out_count = cell->second.candidate_left_out_count;
      }
      report.is_incomplete |= row->is_incomplete;
      report.comparisons.push_back(*std::move(row));
      lengths_seen[length] = true;
      group_count += metric_index == 0;
    }
  }
  if (report.comparisons.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(where, " has no sample yet that both ", baseline, " and ", candidate, " answered"));
  }
  report.is_incomplete |= group_count < static_cast<int64_t>(grouped.planned.size());
  std::vector<double> p_values;
  for (const auto& [length, seen] : lengths_seen) {
    SuiteComparison row = CompareSuite(grouped, length, baseline, candidate, options);
    if (row.task_count == 0) continue;
    p_values.push_back(row.p_value);
    report.suite.push_back(std::move(row));
  }
  const std::vector<double> adjusted = HolmAdjust(p_values);
  for (size_t i = 0; i < adjusted.size(); ++i) report.suite[i].p_holm = adjusted[i];
  report.contrasts = ContrastLengths(grouped, baseline, candidate, options);
  return report;
}

}  // namespace

absl::StatusOr<Comparison> ComparePairs(const std::vector<PairRow>& pairs, const MetricInfo& info,
                                        const CompareOptions& options) {
  std::vector<ClusteredValue> baseline, candidate, differences;
  Comparison row;
  for (const PairRow& pair : pairs) {
    row.failed_count += HasFailure(pair);
    if (!pair.difference.has_value()) continue;
    baseline.push_back({pair.cluster, *pair.baseline_value});
    candidate.push_back({pair.cluster, *pair.candidate_value});
    differences.push_back({pair.cluster, *pair.difference});
    const double gain = *pair.difference * Direction(info);
    row.gain_count += gain > 0;
    row.loss_count += gain < 0;
  }
  if (differences.empty()) return absl::FailedPreconditionError("no sample has a value on both sides");
  const PairRow& first = pairs.front();
  row.task = first.task;
  row.metric = first.metric;
  row.context_length = first.context_length;
  row.baseline = first.baseline_variant;
  row.candidate = first.candidate_variant;
  row.is_primary_metric = info.is_primary;
  row.planned_count = info.planned_count;
  row.sample_count = static_cast<int64_t>(differences.size());
  row.is_incomplete = row.failed_count > 0 || row.sample_count < row.planned_count;

  const Range range = MetricRange(info, pairs);
  const std::vector<Cluster> baseline_clusters = GroupByCluster(baseline);
  const std::vector<Cluster> candidate_clusters = GroupByCluster(candidate);
  row.baseline_mean = MeanOfClusters(baseline_clusters).mean;
  row.candidate_mean = MeanOfClusters(candidate_clusters).mean;
  row.baseline_interval = ScoreInterval(baseline_clusters, info.is_binary, range, options.confidence);
  row.candidate_interval = ScoreInterval(candidate_clusters, info.is_binary, range, options.confidence);
  const TestedDifference tested = TestDifferences({{GroupByCluster(differences), DifferenceRange(range)}}, options);
  row.cluster_count = tested.cluster_count;
  row.difference = tested.difference;
  Keep(tested, row.low, row.high, row.p_value, row.test, row.draws, row.seed);
  if (tested.standard_error > 0) {
    row.detectable_difference = DetectableDifference(tested.standard_error, tested.cluster_count);
  }
  return row;
}

absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, int64_t job_id, const std::string& baseline,
                                                 const std::string& candidate, const CompareOptions& options) {
  RETURN_IF_ERROR(CheckVariants(reader, job_id, baseline, candidate));
  ComparisonReport report;
  ASSIGN_OR_RETURN(const Grouped grouped, ReadPairs(reader, job_id, baseline, candidate, report));
  return CompareGrouped(grouped, absl::StrCat("job ", job_id), baseline, candidate, options, std::move(report));
}

absl::StatusOr<ComparisonReport> CompareVariants(db::Reader& reader, const db::JobVariant& baseline,
                                                 const db::JobVariant& candidate, const CompareOptions& options) {
  if (baseline.job_id == candidate.job_id)
    return CompareVariants(reader, baseline.job_id, baseline.name, candidate.name, options);
  ComparisonReport report;
  ASSIGN_OR_RETURN(const Grouped grouped, ReadPairsAcrossJobs(reader, baseline, candidate, report));
  return CompareGrouped(grouped, absl::StrCat("the pair of jobs ", baseline.job_id, " and ", candidate.job_id),
                        baseline.name, db::JobVariantLabel(candidate, baseline.job_id), options, std::move(report));
}

}  // namespace varifocal::stats
