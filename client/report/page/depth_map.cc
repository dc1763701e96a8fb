#include "client/report/page/depth_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "client/report/charts/depth_plot.h"
#include "client/report/data/depth_table.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

// A map for every variant, of one task or of all.
Json Maps(const ReportData& data, const std::string& task) {
  Json maps = Json::array();
  for (size_t variant = 0; variant < data.variants.size(); ++variant) {
    Json map = {{"name", data.variants[variant].name}, {"lengths", Json::array()}, {"rows", Json::array()}};
    for (int64_t length : data.lengths) map["lengths"].push_back(data.Length("", length));
    for (int quarter = 0; quarter < DepthTable::kQuarterCount; ++quarter) {
      Json row = {{"depth", kDepthQuarters[quarter]}, {"cells", Json::array()}};
      for (int64_t length : data.lengths) {
        const std::optional<double> mean = data.depths.MeanOf(variant, task, length, quarter);
        Json cell = {{"text", mean.has_value() ? Unsigned(*mean * 100, 0) : "\u2014"}};
        if (mean.has_value()) {
          const bool is_incomplete = IsDepthIncomplete(data, variant, task, length, quarter);
          if (is_incomplete) cell["incomplete"] = map["incomplete"] = true;
          cell["shade"] = is_incomplete ? 0 : std::lround(*mean * 100);
          cell["count"] = CountLabel(data.depths.CountOf(variant, task, length, quarter));
        }
        row["cells"].push_back(std::move(cell));
      }
      map["rows"].push_back(std::move(row));
    }
    maps.push_back(std::move(map));
  }
  return maps;
}

// The names of rag_facts tasks of version 1, as a sentence's subject: their last quarter has its own kind of question.
std::string ConfoundedTasks(const ReportData& data) {
  std::vector<std::string> names;
  const auto spec = ParseJson(data.job.spec_json);
  if (!spec.ok() || !spec->is_object()) return "";
  const Json suite = spec->value("suite", Json());
  if (!suite.is_object()) return "";
  for (const Json& task : suite.value("tasks", Json::array())) {
    if (!task.is_object() || task.value("kind", Json()) != "rag_facts") continue;
    const Json parameters = task.value("parameters", Json::object());
    if (parameters.is_object() && parameters.value("version", Json()) == "2") continue;
    const Json name = task.value("name", Json());
    if (name.is_string() && data.depths.HasTask(name.get<std::string>())) names.push_back(name.get<std::string>());
  }
  return JoinWithAnd(names);
}

}  // namespace

std::string DepthMapsHtml(const ReportData& data) {
  if (data.depths.IsEmpty()) return "";
  Json over_tasks = Json::object();
  over_tasks["maps"] = Maps(data, "");
  const bool has_incomplete = std::any_of(over_tasks["maps"].begin(), over_tasks["maps"].end(),
                                          [](const Json& map) { return map.contains("incomplete"); });
  Json values = {{"views", Json::array()}};
  values["views"].push_back(std::move(over_tasks));
  std::vector<std::string> tasks;
  for (const std::string& task : data.tasks) {
    if (data.depths.HasTask(task)) tasks.push_back(task);
  }
  if (tasks.size() < 2) {
    values["only_task"] = tasks.front();
  } else {
    for (const std::string& task : tasks) values["views"].push_back({{"task", task}, {"maps", Maps(data, task)}});
  }
  values["confounded"] = ConfoundedTasks(data);
  values["has_incomplete"] = has_incomplete;
  return FillTemplate("depth_maps.html", values);
}

std::vector<Json> DepthJson(const ReportData& data) {
  std::vector<std::string> tasks = {""};
  for (const std::string& task : data.tasks) {
    if (data.depths.HasTask(task)) tasks.push_back(task);
  }
  std::vector<Json> rows;
  for (size_t variant = 0; variant < data.variants.size(); ++variant) {
    for (const std::string& task : tasks) {
      for (const int64_t length : data.lengths) {
        for (int quarter = 0; quarter < DepthTable::kQuarterCount; ++quarter) {
          const std::optional<double> mean = data.depths.MeanOf(variant, task, length, quarter);
          if (!mean.has_value()) continue;
          rows.push_back({{"kind", "depth"},
                          {"variant", data.variants[variant].name},
                          {"task", task.empty() ? Json() : Json(task)},
                          {"context_length", length},
                          {"depth_low", static_cast<double>(quarter) / DepthTable::kQuarterCount},
                          {"depth_high", static_cast<double>(quarter + 1) / DepthTable::kQuarterCount},
                          {"mean", *mean},
                          {"incomplete", IsDepthIncomplete(data, variant, task, length, quarter)},
                          {"sample_count", data.depths.CountOf(variant, task, length, quarter)}});
        }
      }
    }
  }
  return rows;
}

}  // namespace varifocal::report
