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
      double reach = 0;
      for (const db::SampleRow& sample : place->second[{metric.task, metric.metric, cell.cell.context_length}]) {
        RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
        estimate.failed_count += sample.error_code.has_value();
        if (sample.value.has_value()) answered.push_back({sample.cluster, *sample.value});
        const std::optional<double> value = sample.error_code.has_value() ? metric.worst_value : sample.value;
        if (value.has_value()) values.push_back({sample.cluster, *value});
        reach = std::max(reach, std::abs(value.value_or(0)));
      }
      estimate.answered_count = static_cast<int64_t>(answered.size());
      estimate.is_incomplete = estimate.answered_count < estimate.planned_count;
      if (!answered.empty()) estimate.mean_answered = MeanOfClusters(GroupByCluster(answered)).mean;
      const bool has_worst = metric.worst_value.has_value();
      if (!values.empty() && (has_worst || estimate.failed_count == 0)) {
        const std::vector<Cluster> clusters = GroupByCluster(values);
        const Range range = has_worst && metric.best_value.has_value() ? Range{*metric.worst_value, *metric.best_value}
                                                                       : Range{-reach, reach};
        estimate.mean = MeanOfClusters(clusters).mean;
        estimate.cluster_count = static_cast<int64_t>(clusters.size());
        estimate.interval = ScoreInterval(clusters, metric.is_binary, range, confidence);
      }
      estimates.push_back(std::move(estimate));
    }
  }
  return estimates;
}

}  // namespace varifocal::stats
