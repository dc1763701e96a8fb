#include "db/stats/estimates.h"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/stats/design_effects.h"

namespace varifocal::stats {
namespace {

// The values of one cell and metric, in the order of its samples.
struct Values {
  std::vector<ClusteredValue> counted, answered;
  int64_t failed_count = 0;
};

}  // namespace

absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, double confidence) {
  ASSIGN_OR_RETURN(const TestedLengths tested, TestedLengths::Read(reader, job_id));
  return EstimateScores(reader, job_id, tested, confidence);
}

absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, const TestedLengths& tested,
                                                     double confidence) {
  ASSIGN_OR_RETURN(std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(std::vector<db::CellRow> cells, reader.QuestionCells(job_id));
  std::vector<Estimate> estimates;
  // Inputs of the intervals, parallel to the estimates.
  std::vector<std::vector<Cluster>> clusters;
  std::vector<ScoreOptions> options;
  std::vector<const db::TaskMetricRecord*> metric_of;
  std::map<std::tuple<std::string, std::string, std::string, int64_t>, size_t> place_of;
  std::map<std::string, DesignEffects> effects;  // by variant
  std::set<std::string> variants;
  for (const db::CellRow& cell : cells) {
    variants.insert(cell.cell.variant);
    const std::optional<int64_t> length = tested.Of(cell.cell.task, cell.cell.context_length);
    if (!length.has_value()) continue;
    for (const db::TaskMetricRecord& metric : metrics) {
      if (metric.task != cell.cell.task) continue;
      place_of[{cell.cell.variant, metric.task, metric.metric, *length}] = estimates.size();
      estimates.push_back({cell.cell.variant, metric.task, metric.metric, *length, cell.cell.planned_count});
      metric_of.push_back(&metric);
    }
  }
  clusters.resize(estimates.size());
  options.resize(estimates.size());
  const auto key_of = [&](size_t i) {
    return MetricKey(metric_of[i]->task, metric_of[i]->metric_index, metric_of[i]->metric);
  };
  const auto finish = [&](size_t i, Values values) {
    Estimate& estimate = estimates[i];
    const db::TaskMetricRecord& metric = *metric_of[i];
    estimate.failed_count = values.failed_count;
    estimate.answered_count = values.answered.size();
    estimate.is_incomplete = estimate.answered_count < estimate.planned_count;
    if (!values.answered.empty()) estimate.mean_answered = MeanOfClusters(GroupByCluster(values.answered)).mean;
    const bool has_worst = metric.worst_value.has_value();
    if (!has_worst && values.failed_count > 0) values.counted.clear();
    clusters[i] = GroupByCluster(values.counted);
    options[i] = {metric.is_binary, RangeOf(metric.worst_value, metric.best_value), confidence, std::nullopt};
    if (clusters[i].empty()) return;
    const bool has_span = has_worst && metric.best_value.has_value() && *metric.best_value != *metric.worst_value;
    effects[estimate.variant].Add(
        key_of(i), estimate.context_length, clusters[i],
        metric.metric_index == 0 && has_span ? std::optional(*metric.best_value - *metric.worst_value) : std::nullopt);
    estimate.mean = MeanOfClusters(clusters[i]).mean;
    estimate.cluster_count = clusters[i].size();
  };
  for (size_t i = 0; i < estimates.size(); ++i) finish(i, {});  // those without any row
  for (const std::string& variant : variants) {
    std::optional<size_t> place;
    Values values;
    RETURN_IF_ERROR(reader.EachSampleRow(job_id, variant, [&](const db::SampleRow& sample) -> absl::Status {
      const std::optional<int64_t> length = tested.Of(sample.task, sample.context_length);
      if (!length.has_value()) return absl::OkStatus();
      const auto found = place_of.find({variant, sample.task, sample.metric, *length});
      if (found == place_of.end()) return absl::OkStatus();
      if (place != found->second) {  // rows of a cell and metric follow each other
        if (place.has_value()) finish(*place, std::move(values));
        place = found->second;
        values = {};
      }
      const db::TaskMetricRecord& metric = *metric_of[*place];
      RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
      values.failed_count += sample.error_code.has_value();
      if (sample.value.has_value() && !sample.error_code.has_value() && !sample.is_partial)
        values.answered.push_back({sample.cluster, *sample.value});
      const std::optional<double> value = sample.Counted(metric.worst_value);
      if (value.has_value()) values.counted.push_back({sample.cluster, *value});
      return absl::OkStatus();
    }));
    if (place.has_value()) finish(*place, std::move(values));
  }
  for (size_t i = 0; i < estimates.size(); ++i) {
    Estimate& estimate = estimates[i];
    if (!estimate.mean.has_value()) continue;
    options[i].borrowed_design_effect = effects[estimate.variant].Of(key_of(i), estimate.context_length);
    estimate.interval = ScoreInterval(clusters[i], options[i]);
  }
  return estimates;
}

}  // namespace varifocal::stats
