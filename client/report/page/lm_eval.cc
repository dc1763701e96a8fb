#include "client/report/page/lm_eval.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/report/page/task_names.h"

namespace varifocal::report {
namespace {

std::string HarnessName(const std::string& metric) {
  if (metric == "multiple_choice_accuracy" || metric == "greedy_continuation") return "acc";
  return metric == "multiple_choice_accuracy_normalized" ? "acc_norm" : metric;
}

// The tasks of the job's specification by name; an old file may lack any part.
std::map<std::string, Json> TaskSpecs(const std::string& spec_json) {
  std::map<std::string, Json> specs;
  const absl::StatusOr<Json> spec = ParseJson(spec_json);
  if (!spec.ok() || !spec->is_object()) return specs;
  const Json suite = spec->value("suite", Json::object());
  if (!suite.is_object()) return specs;
  for (const Json& task : suite.value("tasks", Json::array())) {
    if (task.is_object() && task.contains("name") && task["name"].is_string()) specs[task["name"]] = task;
  }
  return specs;
}

}  // namespace

std::string LmEvalJson(const ReportData& data) {
  const TaskNames names(data);
  const std::map<std::string, Json> specs = TaskSpecs(data.job.spec_json);
  Json results = Json::object(), configs = Json::object(), versions = Json::object(), shots = Json::object();
  Json better = Json::object(), counts = Json::object(), groups = Json::object();
  for (const stats::Estimate& estimate : data.estimates) {
    if (estimate.variant != data.baseline || !estimate.mean.has_value()) continue;
    const std::string task = names.Of(estimate);
    const std::string metric = HarnessName(estimate.metric);
    Json& row = results[task];
    row["alias"] = task;
    row[metric + ",none"] = *estimate.mean;
    row[metric + "_stderr,none"] = "N/A";
    Json& ours = row["varifocal"][estimate.metric];
    ours = {{"cluster_count", estimate.cluster_count}, {"failed_count", estimate.failed_count}};
    if (estimate.interval.has_value()) {
      ours["low"] = estimate.interval->low;
      ours["high"] = estimate.interval->high;
    }
    const db::TaskMetricRecord& record = data.metric(estimate.task, estimate.metric);
    const bool is_higher_better = !record.LowerIsBetter();
    better[task][metric] = is_higher_better;
    counts[task] = {{"original", estimate.planned_count},
                    {"effective", estimate.answered_count + estimate.failed_count}};
    versions[task] = 1;
    groups[task] = Json::array();
    const auto spec = specs.find(estimate.task);
    int64_t shot_count = 0;
    Json& config = configs[task];
    config["task"] = task;
    config["metric_list"].push_back(
        {{"metric", metric}, {"aggregation", "mean"}, {"higher_is_better", is_higher_better}});
    if (spec != specs.end()) {
      const Json parameters = spec->second.value("parameters", Json::object());
      config["metadata"] = {{"kind", spec->second.value("kind", "")}, {"parameters", parameters}};
      if (parameters.is_object()) shot_count = FindInt(parameters, "shots").value_or(0).value_or(0);
    }
    config["num_fewshot"] = shot_count;
    shots[task] = shot_count;
  }
  const db::VariantRecord& variant = data.variant(data.baseline);
  const Json file = {
      {"results", results},
      {"group_subtasks", groups},
      {"configs", configs},
      {"versions", versions},
      {"n-shot", shots},
      {"higher_is_better", better},
      {"n-samples", counts},
      {"config", {{"model", "varifocal"}, {"model_args", absl::StrCat("pretrained=", variant.model.name)}}},
      {"date", data.job.create_us * 1e-6},
      {"model_source", "varifocal"},
      {"model_name", variant.name}};
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace varifocal::report
