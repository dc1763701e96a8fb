#include "client/report/data/arm_rows.h"

#include "absl/strings/str_join.h"
#include "client/report/data/arm_labels.h"
#include "client/report/data/length_label.h"
#include "client/report/data/result_rows.h"

namespace varifocal::report {
namespace {

Json TextOrNull(const std::string& text) { return text.empty() ? Json() : Json(text); }

void AddMeasure(const stats::ArmMeasure& measure, int64_t length, const stats::TestedLengths& tested, Json& json) {
  json["task"] = TextOrNull(measure.task);
  json["metric"] = TextOrNull(measure.metric);
  json["is_primary_metric"] = measure.is_primary;
  json["context_length"] = tested.At(measure.task, length).Tokens();
}

void AddPlace(const db::ModelRecord& model, Json& json) {
  json["training_tokens"] = OrNull(model.training_tokens);
  json["parameter_count"] = OrNull(model.parameter_count);
  json["trained_context_length"] = OrNull(model.trained_context_length);
}

Json EmptyArmRow(const char* kind) {
  Json row = Json::object();
  for (const std::string& key : ArmResultKeys()) row[key] = nullptr;
  row["kind"] = kind;
  return row;
}

}  // namespace

const std::vector<std::string>& ArmResultKeys() {
  static const std::vector<std::string>* const keys = [] {
    auto* all = new std::vector<std::string>(ResultKeys());
    for (const char* key :
         {"training_tokens", "parameter_count", "trained_context_length", "baseline_seeds", "candidate_seeds",
          "paired_by_seed", "left_out_seeds", "seed_variance_share", "axis", "axis_value", "ratio", "ratio_low",
          "ratio_high", "ratio_problem", "ratio_at_least", "ratio_at_most", "above_count", "below_count"})
      all->push_back(key);
    return all;
  }();
  return *keys;
}

Json ArmRowJson(const stats::ArmComparison& comparison, const stats::ArmRow& row, const stats::TestedLengths& tested,
                int64_t job_id) {
  Json json = EmptyArmRow(row.measure.task.empty() ? "arm_mean" : "arm_cell");
  AddInference(row, json);
  AddMeasure(row.measure, row.context_length, tested, json);
  AddLength(tested, row.measure.task, row.context_length, json);
  AddPlace(comparison.candidate.first.model, json);
  json["baseline"] = comparison.baseline.name;
  json["candidate"] = comparison.candidate.name;
  json["baseline_job"] = json["candidate_job"] = job_id;
  json["planned_count"] = row.counts.planned_count;
  json["sample_count"] = row.value_count;
  json["failed_count"] = row.counts.failed_count;
  json["baseline_mean"] = row.baseline_mean;
  json["candidate_mean"] = row.candidate_mean;
  json["unfinished"] = row.is_unfinished;
  json["labels"] = absl::StrJoin(ArmLabels(comparison, row), ", ");
  json["baseline_seeds"] = SeedList(SeedsOf(comparison.baseline.runs));
  json["candidate_seeds"] = SeedList(SeedsOf(comparison.candidate.runs));
  json["paired_by_seed"] = comparison.is_paired;
  json["left_out_seeds"] = TextOrNull(SeedList(comparison.left_out_seeds));
  if (row.is_over_seeds) json["seed_variance_share"] = row.seed_share;
  return json;
}

Json EqualLossJson(const EqualLossRow& row, const Axis& axis, const stats::TestedLengths& tested, int64_t job_id) {
  Json json = EmptyArmRow("equal_loss_ratio");
  AddMeasure(row.measure, row.context_length, tested, json);
  json["baseline"] = row.baseline;
  json["candidate"] = row.candidate;
  json["baseline_job"] = json["candidate_job"] = job_id;
  json["axis"] = axis.name;
  json["axis_value"] = row.x;
  json["paired_by_seed"] = row.is_paired;
  json["baseline_seeds"] = json["candidate_seeds"] = TextOrNull(SeedList(row.seeds));
  const stats::EqualLossRatio& ratio = row.ratio;
  json["ratio"] = OrNull(ratio.ratio);
  json["ratio_low"] = OrNull(ratio.low);
  json["ratio_high"] = OrNull(ratio.high);
  json["ratio_problem"] = row.is_paired ? TextOrNull(stats::EqualLossProblemName(ratio.problem)) : Json("unpaired");
  json["ratio_at_least"] = OrNull(ratio.at_least);
  json["ratio_at_most"] = OrNull(ratio.at_most);
  json["above_count"] = ratio.above_count;
  json["below_count"] = ratio.below_count;
  if (!ratio.low.has_value()) return json;
  json["p_value"] = ratio.p_value;
  json["p_sign_flip"] = ratio.sign_flip.p_value;
  json["sign_flip_test"] = ratio.sign_flip.test;
  return json;
}

Json AxisPointJson(const AxisCurves& curves, const AxisSeries& series, const AxisPoint& point, const Axis& axis,
                   const stats::TestedLengths& tested) {
  Json json = {{"kind", "axis_point"}, {"axis", axis.name}, {"axis_value", point.x}, {"arm", series.label}};
  AddMeasure(curves.measure, curves.context_length, tested, json);
  AddPlace(point.arm->first.model, json);
  json["seeds"] = SeedList(SeedsOf(point.arm->runs));
  json["mean"] = point.mean.difference;
  json["low"] = point.mean.can_infer ? Json(point.mean.low) : Json();
  json["high"] = point.mean.can_infer ? Json(point.mean.high) : Json();
  json["is_over_seeds"] = point.mean.is_over_seeds;
  json["sample_count"] = point.mean.value_count;
  json["cluster_count"] = point.mean.cluster_count;
  json["failed_count"] = point.mean.counts.failed_count;
  json["unfinished"] = point.mean.is_unfinished;
  return json;
}

}  // namespace varifocal::report
