// NoLiMa: rows of an upstream run: its result files, and the texts that it logs with --log_placements_dir.
//
// So the needle is where upstream placed it; upstream's texts are not read otherwise (its licence is noncommercial).
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/python/repr.h"

namespace varifocal::benchmarks {
namespace {

std::vector<std::string> NolimaSets(const ImportOptions&) { return {"nolima"}; }

// Of placement i: np.round(np.linspace(low, high, count)[i], 3) as Python prints it.
std::string DepthText(double low, double high, int64_t count, int64_t i) {
  const double step = count > 1 ? (high - low) / static_cast<double>(count - 1) : 0;
  const double depth = i + 1 == count && count > 1 ? high : low + static_cast<double>(i) * step;
  return PythonRepr(std::nearbyint(depth * 1000) / 1000);
}

absl::Status ImportResult(const std::string& path, Import& import) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kConfigFile));
  ASSIGN_OR_RETURN(Json object, Annotate(ParseJson(text), path));
  const helmet::RowView run(std::move(object), path);
  ASSIGN_OR_RETURN(const std::string name, run.Text("eval_name"));
  ASSIGN_OR_RETURN(const std::string form_text, run.Text("task_template"));
  ASSIGN_OR_RETURN(const helmet::Template form, helmet::Template::Parse(form_text));
  ASSIGN_OR_RETURN(const std::string question, run.Text("retrieval_question"));
  ASSIGN_OR_RETURN(const std::string metric, run.Text("metric"));
  ASSIGN_OR_RETURN(const std::string system, run.Text("system_prompt"));
  ASSIGN_OR_RETURN(const int64_t context_length, run.Int("context_length"));
  ASSIGN_OR_RETURN(const int64_t count, run.Int("document_depth_percent_intervals"));
  ASSIGN_OR_RETURN(const double low, GetDouble(run.json(), "document_depth_percent_min"));
  ASSIGN_OR_RETURN(const double high, GetDouble(run.json(), "document_depth_percent_max"));
  ASSIGN_OR_RETURN(const Json* results, run.List("results"));
  if (FindMetric(absl::StrCat("nolima/", metric)) == nullptr)
    return run.Error("metric", absl::StrCat("is \"", metric, "\", not contains, EM, lastline_contains or lastline_EM"));
  if (context_length < 1 || context_length > kContextLengthMax)
    return run.Error("context_length", absl::StrCat("is ", context_length, ", not 1 to ", kContextLengthMax));
  if (!system.empty() && import.options.no_chat)
    return run.Error("system_prompt", "is asked in a chat format, which --no-chat leaves out");
  BenchmarkTask task;
  task.name = "nolima";
  task.rows_name = absl::StrCat("nolima.", context_length);
  task.chat = !import.options.no_chat;
  task.metrics = {absl::StrCat("nolima/", metric)};
  if (metric != "contains") task.metrics.emplace_back("nolima/contains");
  task.max_new_tokens = 192;
  // Upstream counts the haystack alone.
  const int64_t with_question = std::min<int64_t>(context_length * 5 / 4 + 1024, kContextLengthMax);
  task.lengths = {{static_cast<int>(with_question), 0}};
  for (size_t i = 0; i < results->size(); ++i) {
    const std::string file = absl::StrCat(name, "_", DepthText(low, high, count, static_cast<int64_t>(i)), ".txt");
    ASSIGN_OR_RETURN(const std::string haystack,
                     import.download.Text({file}, "the folder of --log_placements_dir of the same run"));
    const helmet::RowView result(results->at(i), absl::StrCat(path, ": result ", i + 1));
    std::string asked = question;
    Json gold = run.json().value("gold_answers", Json());
    if (result.json().is_object() && result.json().contains("selected_character")) {
      ASSIGN_OR_RETURN(const std::string character, result.Text("selected_character"));
      asked = absl::StrReplaceAll(asked, {{"{CHAR}", character}});
      gold = Json::array({character});
    }
    BenchmarkRow row;
    row.id = absl::StrCat(name, "_", i);
    row.cluster = name;
    ASSIGN_OR_RETURN(row.prompt, form.Render({{"haystack", haystack}, {"question", asked}}));
    if (!system.empty()) {
      row.messages = {{{"role", "system"}, {"content", system}}, {{"role", "user"}, {"content", row.prompt}}};
    }
    row.reference["gold_answers"] = gold;
    ASSIGN_OR_RETURN(const std::vector<std::string> golds,
                     helmet::RowView(row.reference, result.place()).Texts("gold_answers"));
    row.gold = ShownGold(golds, row.reference);
    RETURN_IF_ERROR(import.sink(task, row));
  }
  return absl::OkStatus();
}

absl::Status ImportRuns(const std::string&, Import& import) {
  int run_count = 0;
  for (const std::string& path : import.download.WithSuffix(".json")) {
    if (!absl::StrContains(path.substr(path.rfind('/') + 1), "_book_")) continue;  // upstream's names of results
    RETURN_IF_ERROR(ImportResult(path, import));
    ++run_count;
  }
  if (run_count > 0) return absl::OkStatus();
  return NotFound(import.download.folder(),
                  " has no result file MODEL_book_TEST_TIME.json, which a run of upstream's run_tests.py with "
                  "--log_placements_dir writes (the repository adobe-research/NoLiMa, folder evaluation)");
}

}  // namespace

Benchmark Nolima() {
  return {.name = "nolima",
          .title = "NoLiMa, as a run of upstream has placed its needles",
          .upstream = "github adobe-research/NoLiMa, and a run of it with --log_placements_dir",
          .licence = "Adobe Research License: noncommercial research only",
          .needs = "MODEL_book_TEST_TIME.json, and the placements' texts beside or elsewhere",
          .forms = {""},
          .takes = {"no-chat"},
          .datasets = &NolimaSets,
          .import = &ImportRuns};
}

}  // namespace varifocal::benchmarks
