// varifocal suites: the built-in suites.
#include <algorithm>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/daemon.h"
#include "client/helmet_import.h"
#include "client/rows.h"
#include "client/suite_file.h"
#include "client/verb.h"
#include "eval_tasks/suites.h"
#include "eval_tasks/task.h"

namespace varifocal::client {
namespace {

struct NamedText {
  std::string name;
  std::string yaml;
};

class ShowSuites : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("SUITE", &suite_, "print this suite as it is written; a file is checked too; or import-helmet");
    import_.AddTo(flags);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    if (suite_ == "import-helmet") return import_.Run(console);
    RETURN_IF_ERROR(import_.CheckUnused());
    if (!suite_.empty() && !global.daemon_given) {
      const auto text = BuiltInSuiteText(suite_);
      if (!text.has_value()) return CheckFile(console);
      if (console.format == Format::kText) {
        console.out << std::string(*text);
        return ExitCode::kDone;
      }
    }
    std::vector<NamedText> suites;
    if (global.daemon_given) {
      if (absl::StrContains(suite_, '/') || absl::EndsWith(suite_, ".yaml") || absl::EndsWith(suite_, ".yml")) {
        return UsageError(suite_,
                          " is a file, which is checked on this machine: leave out --daemon. With it, SUITE is "
                          "the name of a suite that the daemon has.");
      }
      ASSIGN_OR_RETURN(const std::unique_ptr<Daemon> daemon, Daemon::Connect(global.daemon));
      ASSIGN_OR_RETURN(const v1::ListSuitesResponse response,
                       Call(daemon->evaluation(), &v1::Evaluation::Stub::ListSuites, v1::ListSuitesRequest()));
      for (const v1::Suite& suite : response.suites()) suites.push_back({suite.name(), suite.yaml()});
    } else {
      for (const std::string& name : BuiltInSuiteNames())
        suites.push_back({name, std::string(*BuiltInSuiteText(name))});
    }
    Rows rows = Table(console);
    std::vector<std::string> names;
    bool found = false;
    for (const NamedText& suite : suites) {
      names.push_back(suite.name);
      if (!suite_.empty() && suite_ != suite.name) continue;
      found = true;
      ASSIGN_OR_RETURN(const v1::SuiteConfig config, ParseSuite(suite.yaml, suite.name));
      ASSIGN_OR_RETURN(const SuiteSpec spec, ToSuiteSpec(config));
      RETURN_IF_ERROR(rows.Add(RowOf(suite.name, spec)));
    }
    if (!found && !suite_.empty()) return UsageError("No suite is called \"", suite_, "\"", DidYouMean(suite_, names));
    return DoneOr(rows.Finish("No suites."));
  }

 private:
  absl::StatusOr<ExitCode> CheckFile(Console& console) const {
    ASSIGN_OR_RETURN(const v1::SuiteConfig config, ReadSuite(suite_));
    ASSIGN_OR_RETURN(const SuiteSpec spec, ToSuiteSpec(config));
    RETURN_IF_ERROR(CheckTasks(spec));
    if (console.format == Format::kText) {
      console.out << suite_ << " is a valid suite.\n";
      return ExitCode::kDone;
    }
    Rows rows = Table(console);
    RETURN_IF_ERROR(rows.Add(RowOf(spec.name, spec)));
    return DoneOr(rows.Finish("No suites."));
  }

  static Rows Table(Console& console) {
    return Rows(console, {{.key = "name", .title = "suite"},
                          {.key = "tasks", .title = "tasks", .text = Joined("tasks")},
                          {.key = "lengths", .title = "lengths", .text = Joined("lengths")},
                          {.key = "samples", .title = "samples", .right_aligned = true, .text = Samples},
                          {.key = "description", .title = "what for", .text = [](const Json& row) {
                             // The first sentence; JSON and `suites NAME` have it all.
                             const std::string text = row.at("description").get<std::string>();
                             return text.substr(0, text.find(". "));
                           }}});
  }

  static Json RowOf(const std::string& name, const SuiteSpec& spec) {
    Json row = {{"name", name},
                {"tasks", Json::array()},
                {"lengths", spec.lengths},
                {"samples", spec.samples},
                {"samples_at", Json::object()},
                {"description", spec.description}};
    for (const auto& [length, samples] : spec.samples_at) row["samples_at"][absl::StrCat(length)] = samples;
    for (const TaskSpec& task : spec.tasks) row["tasks"].push_back(task.name);
    return row;
  }

  // Reads the files of the tasks.
  static absl::Status CheckTasks(const SuiteSpec& spec) {
    for (const TaskSpec& task : spec.tasks) {
      const absl::Status status = MakeTask(task).status();
      if (!status.ok()) return Annotate(status, absl::StrCat("task \"", task.name, "\""));
    }
    return absl::OkStatus();
  }

  // "48" or "48 to 192": of a task, by length.
  static std::string Samples(const Json& row) {
    int low = row.at("samples").get<int>(), high = low;
    for (const Json& samples : row.at("samples_at")) {
      low = std::min(low, samples.get<int>());
      high = std::max(high, samples.get<int>());
    }
    return low == high ? absl::StrCat(low) : absl::StrCat(low, " to ", high);
  }

  static std::function<std::string(const Json&)> Joined(const char* key) {
    return [key](const Json& row) {
      std::vector<std::string> items;
      for (const Json& item : row.at(key)) items.push_back(item.is_string() ? item.get<std::string>() : item.dump());
      return ShortList(items, 4);
    };
  }

  std::string suite_;
  HelmetImportFlags import_;
};

}  // namespace

constinit const Verb kSuitesVerb = {
    .name = "suites",
    .group = "Tasks",
    .summary = "list built-in suites, print one as YAML, check a suite file",
    .about =
        R"(Without SUITE: one line per built-in suite. With the name of one: its YAML, as a template for your own. With the
path of a file: whether it is a valid suite whose data files can be read, and if not, the line and the reason;
with --format=json, csv or jsonl the row of the suite, as in the list.
With import-helmet: writes suites, rows and a manifest from a checkout of HELMET and its data (docs/helmet.md). What
cannot be imported is reported on standard error, everything else is written, and the exit code is 1.)",
    .examples =
        "varifocal suites\nvarifocal suites quick > mine.yaml\nvarifocal suites ./mine.yaml\n"
        "varifocal suites import-helmet --checkout=HELMET --data=HELMET/data --out=suites --lengths=8192,16384",
    .formats = "text json jsonl csv",
    .make = &Make<ShowSuites>,
    .daemon = DaemonUse::kWhenGiven,
};

}  // namespace varifocal::client
