#include "client/report/page/depth_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "client/report/data/depth_table.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"

namespace varifocal::report {
namespace {

constexpr double kShadeMax = 0.55;  // as in page.css: text stays readable on it
constexpr const char* kQuarters[] = {"first quarter", "second", "third", "last quarter"};

// Whether a cell, of one task or of all, has fewer questions or tasks than others of its map.
bool IsIncomplete(const ReportData& data, size_t variant, const std::string& task, int64_t length, int quarter) {
  const std::set<std::string> here = data.depths.TasksOf(variant, length, quarter);
  return std::any_of(data.tasks.begin(), data.tasks.end(), [&](const std::string& other) {
    if (!data.depths.HasTask(other) || (!task.empty() && other != task)) return false;
    return here.count(other) == 0 || data.IsIncomplete(data.variants[variant].name, other, length);
  });
}

// A map for every variant, of one task or of all.
Json Maps(const ReportData& data, const std::string& task) {
  Json maps = Json::array();
  for (size_t variant = 0; variant < data.variants.size(); ++variant) {
    Json map = {{"name", data.variants[variant].name}, {"lengths", Json::array()}, {"rows", Json::array()}};
    for (int64_t length : data.lengths) map["lengths"].push_back(data.Length("", length));
    for (int quarter = 0; quarter < DepthTable::kQuarterCount; ++quarter) {
      Json row = {{"depth", kQuarters[quarter]}, {"cells", Json::array()}};
      for (int64_t length : data.lengths) {
        const std::optional<double> mean = data.depths.MeanOf(variant, task, length, quarter);
        Json cell = {{"text", mean.has_value() ? Unsigned(*mean * 100, 0) : "\u2014"}};
        if (mean.has_value()) {
          const bool is_incomplete = IsIncomplete(data, variant, task, length, quarter);
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
                          {"incomplete", IsIncomplete(data, variant, task, length, quarter)},
                          {"sample_count", data.depths.CountOf(variant, task, length, quarter)}});
        }
      }
    }
  }
  return rows;
}

Plot DepthMapsPlot(const ReportData& data) {
  Plot plot;
  if (data.depths.IsEmpty()) return plot;
  constexpr int kLabelWidth = 84, kCellWidth = 46, kCellHeight = 26, kTop = 36, kMapsPerRow = 3;
  const int map_width = kLabelWidth + kCellWidth * data.lengths.size() + 24;
  const int map_height = kTop + kCellHeight * DepthTable::kQuarterCount + 24;
  const int map_count = data.variants.size();
  plot.width = map_width * std::min(map_count, kMapsPerRow);
  plot.height = map_height * ((map_count + kMapsPerRow - 1) / kMapsPerRow);
  plot.title = "Score by depth of the evidence, percent";
  plot.style = "chart strip";
  Panel map;
  for (int variant = 0; variant < map_count; ++variant) {
    const int left = variant % kMapsPerRow * map_width, top = variant / kMapsPerRow * map_height;
    const auto text = [&](const char* style, int x, int y, const std::string& value, const char* anchor) {
      map.marks.push_back(
          TextMark(style, {static_cast<double>(left + x), static_cast<double>(top + y)}, value, anchor));
    };
    text("title", 0, 13, data.variants[variant].name, "");
    for (size_t i = 0; i < data.lengths.size(); ++i) {
      const int x = kLabelWidth + kCellWidth * i;
      text("tick", x + kCellWidth / 2, kTop - 6, data.Length("", data.lengths[i]), "middle");
      for (int quarter = 0; quarter < DepthTable::kQuarterCount; ++quarter) {
        const int y = kTop + kCellHeight * quarter;
        if (i == 0) text("tick", 0, y + kCellHeight / 2 + 4, kQuarters[quarter], "");
        const std::optional<double> mean = data.depths.MeanOf(variant, "", data.lengths[i], quarter);
        const bool is_open = mean.has_value() && IsIncomplete(data, variant, "", data.lengths[i], quarter);
        const double x0 = left + x + 1, y0 = top + y + 1;
        map.marks.push_back(CellMark(is_open ? "open" : "mass", {x0, y0}, {x0 + kCellWidth - 2, y0 + kCellHeight - 2},
                                     is_open ? 1 : mean.value_or(0) * kShadeMax));
        text("value", x + kCellWidth / 2, y + kCellHeight / 2 + 4,
             mean.has_value() ? Unsigned(*mean * 100, 0) : kNoValue, "middle");
      }
    }
  }
  plot.panels.push_back(std::move(map));
  return plot;
}

}  // namespace varifocal::report
