#include "db/stats/estimates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "base/status_macros.h"
#include "db/stats/check_value.h"

namespace varifocal::stats {

namespace {

// The values of one cell and metric, in the order of its samples.
struct Values {
  std::vector<ClusteredValue> counted, answered;
  int64_t failed_count = 0;
  double magnitude_max = 0;
};

}  // namespace

absl::StatusOr<std::vector<Estimate>> EstimateScores(db::Reader& reader, int64_t job_id, double confidence) {
  ASSIGN_OR_RETURN(std::vector<db::TaskMetricRecord> metrics, reader.Metrics(job_id));
  ASSIGN_OR_RETURN(std::vector<db::CellRow> cells, reader.Cells(job_id));
  std::vector<Estimate> estimates;
  // Inputs of the intervals, parallel to the estimates.
  std::vector<std::vector<Cluster>> clusters;
  std::vector<ScoreOptions> options;
  std::vector<const db::TaskMetricRecord*> metric_of;
  std::map<std::tuple<std::string, std::string, std::string, int64_t>, size_t> place_of;
  std::set<std::string> variants;
  for (const db::CellRow& cell : cells) {
    variants.insert(cell.cell.variant);
    for (const db::TaskMetricRecord& metric : metrics) {
      if (metric.task != cell.cell.task) continue;
      place_of[{cell.cell.variant, metric.task, metric.metric, cell.cell.context_length}] = estimates.size();
      estimates.push_back(
          {cell.cell.variant, metric.task, metric.metric, cell.cell.context_length, cell.cell.planned_count});
      metric_of.push_back(&metric);
    }
  }
  clusters.resize(estimates.size());
  options.resize(estimates.size());
  const auto finish = [&](size_t i, const Values& values) {
    Estimate& estimate = estimates[i];
    const db::TaskMetricRecord& metric = *metric_of[i];
    estimate.failed_count = values.failed_count;
    estimate.answered_count = values.answered.size();
    estimate.is_incomplete = estimate.answered_count < estimate.planned_count;
    if (!values.answered.empty()) estimate.mean_answered = MeanOfClusters(GroupByCluster(values.answered)).mean;
    const bool has_worst = metric.worst_value.has_value();
    if (has_worst || values.failed_count == 0) clusters[i] = GroupByCluster(values.counted);
    const Range range = has_worst && metric.best_value.has_value() ? Range{*metric.worst_value, *metric.best_value}
                                                                   : Range{-values.magnitude_max, values.magnitude_max};
    options[i] = {metric.is_binary, range, confidence, std::nullopt};
    if (clusters[i].empty()) return;
    estimate.mean = MeanOfClusters(clusters[i]).mean;
    estimate.cluster_count = clusters[i].size();
  };
  for (size_t i = 0; i < estimates.size(); ++i) finish(i, {});  // those without any row
  for (const std::string& variant : variants) {
    std::optional<size_t> place;
    Values values;
    RETURN_IF_ERROR(reader.EachSampleRow(job_id, variant, [&](const db::SampleRow& sample) -> absl::Status {
      const auto found = place_of.find({variant, sample.task, sample.metric, sample.context_length});
      if (found == place_of.end()) return absl::OkStatus();
      if (place != found->second) {  // rows of a cell and metric follow each other
        if (place.has_value()) finish(*place, values);
        place = found->second;
        values = {};
      }
      const db::TaskMetricRecord& metric = *metric_of[*place];
      RETURN_IF_ERROR(CheckValue(sample.task, sample.metric, sample.value, metric.worst_value, metric.best_value));
      values.failed_count += sample.error_code.has_value();
      if (sample.value.has_value()) values.answered.push_back({sample.cluster, *sample.value});
      const std::optional<double> value = sample.error_code.has_value() ? metric.worst_value : sample.value;
      if (value.has_value()) values.counted.push_back({sample.cluster, *value});
      values.magnitude_max = std::max(values.magnitude_max, std::abs(value.value_or(0)));
      return absl::OkStatus();
    }));
    if (place.has_value()) finish(*place, values);
  }
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<size_t>> lengths;
  for (size_t i = 0; i < estimates.size(); ++i) {
    if (clusters[i].empty()) continue;
    lengths[{estimates[i].variant, estimates[i].task, estimates[i].metric}].push_back(i);
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
