#include "db/stats/estimates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/status_macros.h"
#include "db/stats/check_value.h"

namespace varifocal::stats {

absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, double confidence) {
  ASSIGN_OR_RETURN(std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(std::vector<db::CellRow> cells, reader.Cells(job_id));
  std::map<std::string, std::map<std::tuple<std::string, std::string, int64_t>, std::vector<db::SampleRow>>> rows;
  std::vector<Estimate> estimates;
  // Inputs of the intervals, parallel to the estimates.
  std::vector<std::vector<Cluster>> clusters;
  std::vector<ScoreOptions> options;
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<size_t>> lengths;
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
      double magnitude_max = 0;
      for (const db::SampleRow& sample : place->second[{metric.task, metric.metric, cell.cell.context_length}]) {
        RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
        estimate.failed_count += sample.error_code.has_value();
        if (sample.value.has_value()) answered.push_back({sample.cluster, *sample.value});
        const std::optional<double> value = sample.error_code.has_value() ? metric.worst_value : sample.value;
        if (value.has_value()) values.push_back({sample.cluster, *value});
        magnitude_max = std::max(magnitude_max, std::abs(value.value_or(0)));
      }
      estimate.answered_count = answered.size();
      estimate.is_incomplete = estimate.answered_count < estimate.planned_count;
      if (!answered.empty()) estimate.mean_answered = MeanOfClusters(GroupByCluster(answered)).mean;
      const bool has_worst = metric.worst_value.has_value();
      if (!has_worst && estimate.failed_count > 0) values.clear();
      clusters.push_back(GroupByCluster(values));
      const Range range = has_worst && metric.best_value.has_value() ? Range{*metric.worst_value, *metric.best_value}
                                                                     : Range{-magnitude_max, magnitude_max};
      options.push_back({metric.is_binary, range, confidence, std::nullopt});
      if (!values.empty()) {
        lengths[{estimate.variant, estimate.task, estimate.metric}].push_back(estimates.size());
        estimate.mean = MeanOfClusters(clusters.back()).mean;
        estimate.cluster_count = clusters.back().size();
      }
      estimates.push_back(std::move(estimate));
    }
  }
  // Design effects over the lengths of a task; if there is no spread, over all tasks of the variant with a span.
  std::map<std::string, std::vector<std::vector<Cluster>>> of_variant;
  for (size_t i = 0; i < estimates.size(); ++i) {
    const double span = std::abs(options[i].range.high - options[i].range.low);
    std::vector<Cluster> scaled = clusters[i];
    for (Cluster& cluster : scaled) {
      cluster.sum /= span;
      cluster.square_sum /= span * span;
    }
    if (estimates[i].mean.has_value() && span > 0) of_variant[estimates[i].variant].push_back(std::move(scaled));
  }
  for (const auto& [key, members] : lengths) {
    std::vector<std::vector<Cluster>> samples;
    for (size_t member : members) samples.push_back(clusters[member]);
    std::optional<double> effect = PooledDesignEffect(samples);
    if (!effect.has_value()) effect = PooledDesignEffect(of_variant[std::get<0>(key)]);
    for (size_t member : members) {
      options[member].borrowed_design_effect = effect;
      estimates[member].interval = ScoreInterval(clusters[member], options[member]);
    }
  }
  return estimates;
}

}  // namespace varifocal::stats
