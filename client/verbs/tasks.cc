// varifocal tasks: the task kinds and their parameters.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/daemon.h"
#include "client/rows.h"
#include "client/verb.h"
#include "eval_tasks/task.h"
#include "wire/task_kind.h"

namespace varifocal::client {
namespace {

bool IsNumber(const v1::TaskParameter& parameter) {
  return parameter.type() == "integer" || parameter.type() == "number";
}

Json ToJson(const v1::TaskKind& kind) {
  Json row = {{"kind", kind.kind()},
              {"description", kind.description()},
              {"parameters", Json::array()},
              {"default_metrics", Json::array()}};
  for (const std::string& metric : kind.default_metrics()) row["default_metrics"].push_back(metric);
  for (const v1::TaskParameter& parameter : kind.parameters()) {
    Json item = {{"name", parameter.name()},
                 {"type", parameter.type()},
                 {"required", parameter.required()},
                 {"help", parameter.help()}};
    item["default"] = parameter.default_value().empty() ? Json() : Json(parameter.default_value());
    if (IsNumber(parameter)) {
      item["low"] = parameter.low();
      item["high"] = parameter.high();
    }
    for (const std::string& choice : parameter.choices()) item["choices"].push_back(choice);
    row["parameters"].push_back(std::move(item));
  }
  return row;
}

std::string Values(const v1::TaskParameter& parameter) {
  std::string text;
  if (IsNumber(parameter)) {
    text = absl::StrCat(NumberText(parameter.low()), " to ", NumberText(parameter.high()));
  } else if (parameter.choices_size() > 0) {
    text = absl::StrJoin(parameter.choices(), " | ");
  } else {
    text = parameter.type() == "text_list" ? "a text or a list of texts" : parameter.type();
  }
  if (parameter.required()) absl::StrAppend(&text, ", required");
  if (!parameter.default_value().empty()) absl::StrAppend(&text, ", default ", parameter.default_value());
  return text;
}

class ShowTasks : public Command {
 public:
  void AddFlags(FlagSet& flags) override { flags.AddPositional("KIND", &kind_, "only this kind, with its parameters"); }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    std::vector<v1::TaskKind> kinds;
    if (global.daemon_given) {
      ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
      ASSIGN_OR_RETURN(const v1::ListTasksResponse response,
                       Call(daemon->evaluation(), &v1::Evaluation::Stub::ListTasks, v1::ListTasksRequest()));
      kinds.assign(response.tasks().begin(), response.tasks().end());
    } else {
      for (const TaskKind& kind : TaskKinds()) kinds.push_back(ToProto(kind));
    }
    if (!kind_.empty()) {
      std::vector<std::string> names;
      std::vector<v1::TaskKind> chosen;
      for (const v1::TaskKind& kind : kinds) {
        names.push_back(kind.kind());
        if (kind.kind() == kind_) chosen.push_back(kind);
      }
      if (chosen.empty()) return UsageError("No kind of task is called \"", kind_, "\"", DidYouMean(kind_, names));
      if (console.format == Format::kText) {
        PrintOne(chosen.front(), console);
        return ExitCode::kDone;
      }
      kinds = std::move(chosen);
    }
    Rows rows(console, {{.key = "kind", .title = "kind"},
                        {.key = "description", .title = "what it asks"},
                        {.key = "default_metrics", .title = "metrics", .text = [](const Json& row) {
                           return absl::StrJoin(row.at("default_metrics").get<std::vector<std::string>>(), ", ");
                         }}});
    for (const v1::TaskKind& kind : kinds) RETURN_IF_ERROR(rows.Add(ToJson(kind)));
    return DoneOr(rows.Finish());
  }

 private:
  static void PrintOne(const v1::TaskKind& kind, Console& console) {
    console.out << Styled(console, Style::kBold, kind.kind()) << ": " << kind.description()
                << "\n\nMetrics: " << absl::StrJoin(kind.default_metrics(), ", ") << "\n";
    std::vector<std::vector<std::string>> cells;
    for (const v1::TaskParameter& parameter : kind.parameters()) {
      cells.push_back({parameter.name(), Values(parameter), parameter.help()});
    }
    if (!cells.empty()) {
      console.out << "\n" << AlignedTable(console, {"parameter", "values", ""}, {false, false, false}, cells);
    }
  }

  std::string kind_;
};

}  // namespace

constinit const Verb kTasksVerb = {
    .name = "tasks",
    .group = "Tasks",
    .summary = "the task kinds, their parameters and metrics",
    .about =
        R"(Lists the values of `kind` in a suite; with KIND, the `parameters` of that kind. Needs no daemon: the table is in
this program. With --daemon it is that daemon's table.)",
    .examples = "varifocal tasks\nvarifocal tasks longqa_story",
    .formats = "text json jsonl csv",
    .make = &Make<ShowTasks>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
