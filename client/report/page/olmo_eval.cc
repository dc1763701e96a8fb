#include "client/report/page/olmo_eval.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/json.h"
#include "client/report/page/task_names.h"

namespace varifocal::report {
namespace {

constexpr char kScorer[] = "varifocal";

std::string Timestamp(int64_t us) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6S", absl::FromUnixMicros(us), absl::UTCTimeZone());
}

}  // namespace

std::string OlmoEvalJson(const ReportData& data) {
  const TaskNames names(data);
  Json tasks = Json::array(), summary = Json::object();
  std::map<std::string, size_t> place;  // in `tasks`
  for (const stats::Estimate& estimate : data.estimates) {
    if (estimate.variant != data.baseline || !estimate.mean.has_value()) continue;
    const std::string name = names.Of(estimate);
    const auto [at, is_new] = place.emplace(name, tasks.size());
    if (is_new) {
      tasks.push_back({{"task", name},
                       {"metrics", Json::object()},
                       {"num_instances", estimate.answered_count + estimate.failed_count},
                       {"config", {{"context_length", estimate.context_length}, {"intervals", Json::object()}}}});
    }
    Json& task = tasks[at->second];
    if (data.metric(estimate.task, estimate.metric).metric_index == 0) {
      task["primary_metric"] = absl::StrCat(estimate.metric, ":", kScorer);
      summary[name] = {{"metric", task["primary_metric"]}, {"score", *estimate.mean}};
    }
    task["metrics"][estimate.metric][kScorer] = *estimate.mean;
    Json& ours = task["config"]["intervals"][estimate.metric];
    ours = {{"cluster_count", estimate.cluster_count}, {"failed_count", estimate.failed_count}};
    if (estimate.interval.has_value()) {
      ours["low"] = estimate.interval->low;
      ours["high"] = estimate.interval->high;
    }
  }
  const db::VariantRecord& variant = data.variant(data.baseline);
  const Json file = {{"timestamp", Timestamp(data.job.create_us)},
                     {"config", {{"model", variant.name}, {"provider", "varifocal"}, {"dtype", "auto"}}},
                     {"tasks", std::move(tasks)},
                     {"summary", std::move(summary)},
                     {"errors", Json::array()},
                     {"experiment_id", absl::StrCat("varifocal-job-", data.job.job_id)},
                     {"experiment_name", absl::StrCat(variant.name, " job ", data.job.job_id)}};
  return file.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace varifocal::report
