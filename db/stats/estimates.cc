#include "db/stats/estimates.h"

#include <map>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "db/stats/check_value.h"
#include "db/stats/design_effects.h"

namespace varifocal::stats {

absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, double confidence) {
  ASSIGN_OR_RETURN(std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(std::vector<db::CellRow> cells, reader.Cells(job_id));
  std::map<std::string, std::map<std::tuple<std::string, std::string, int64_t>, std::vector<db::SampleRow>>> rows;
  std::vector<Estimate> estimates;
  // Inputs of the intervals, parallel to the estimates.
  std::vector<std::vector<Cluster>> clusters;
  std::vector<ScoreOptions> options;
  std::vector<MetricKey> keys;
  std::map<std::string, DesignEffects> effects;  // by variant
  for (const db::CellRow& cell : cells) {
    const auto [place, is_new] = rows.try_emplace(cell.cell.variant);
    if (is_new) {
      ASSIGN_OR_RETURN(std::vector<db::SampleRow> samples, reader.SampleRows(job_id, cell.cell.variant));
      for (db::SampleRow& sample : samples) {
        std::tuple key{sample.task, sample.metric, sample.context_length};
        place->second[key].push_back(std::move(sample));
      }
    }
    for (const db::TaskMetricRecord& metric : metrics) {
      if (metric.task != cell.cell.task) continue;
      Estimate estimate{cell.cell.variant, metric.task, metric.metric, cell.cell.context_length,
                        cell.cell.planned_count};
      std::vector<ClusteredValue> values, answered;
      for (const db::SampleRow& sample : place->second[{metric.task, metric.metric, cell.cell.context_length}]) {
        RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
        estimate.failed_count += sample.error_code.has_value();
        if (sample.value.has_value()) answered.push_back({sample.cluster, *sample.value});
        const std::optional<double> value = sample.error_code.has_value() ? metric.worst_value : sample.value;
        if (value.has_value()) values.push_back({sample.cluster, *value});
      }
      estimate.answered_count = answered.size();
      estimate.is_incomplete = estimate.answered_count < estimate.planned_count;
      if (!answered.empty()) estimate.mean_answered = MeanOfClusters(GroupByCluster(answered)).mean;
      const bool has_worst = metric.worst_value.has_value();
      if (!has_worst && estimate.failed_count > 0) values.clear();
      clusters.push_back(GroupByCluster(values));
      options.push_back({metric.is_binary, RangeOfValues(metric.worst_value, metric.best_value, values), confidence});
      keys.emplace_back(metric.task, metric.metric_index, metric.metric);
      if (!values.empty()) {
        const bool has_span = has_worst && metric.best_value.has_value() && *metric.best_value != *metric.worst_value;
        effects[estimate.variant].Add(keys.back(), estimate.context_length, clusters.back(),
                                      metric.metric_index == 0 && has_span
                                          ? std::optional(*metric.best_value - *metric.worst_value)
                                          : std::nullopt);
        estimate.mean = MeanOfClusters(clusters.back()).mean;
        estimate.cluster_count = clusters.back().size();
      }
      estimates.push_back(std::move(estimate));
    }
  }
  for (size_t i = 0; i < estimates.size(); ++i) {
    Estimate& estimate = estimates[i];
    if (!estimate.mean.has_value()) continue;
    options[i].borrowed_design_effect = effects[estimate.variant].Of(keys[i], estimate.context_length);
    estimate.interval = ScoreInterval(clusters[i], options[i]);
  }
  return estimates;
}

}  // namespace varifocal::stats
