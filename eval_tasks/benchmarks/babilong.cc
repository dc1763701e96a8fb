// BABILong: prompts and labels of the checkout's prompts.py and metrics.py, rows `input, question, target` of each length.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/python/literals.h"
#include "eval_tasks/python/text.h"

namespace varifocal::benchmarks {
namespace {

constexpr char kBabilongCode[] = "the repository booydar/babilong, folder babilong";
constexpr int kNominal[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512};

std::vector<std::string> BabilongSets(const ImportOptions&) {
  std::vector<std::string> names;
  for (int i = 1; i <= 20; ++i) names.push_back(absl::StrCat("qa", i));
  return names;
}

// Upstream's lengths are of GPT-2's tokens, without instructions and examples: space for both.
int ContextLengthOf(int nominal) { return nominal * 1280 + 1024; }

std::vector<std::string> FileEnds(const std::string& task, int nominal) {
  const std::string length = absl::StrCat(nominal, "k");
  std::vector<std::string> ends;
  for (const char* suffix : {".json", ".jsonl"}) {
    ends.push_back(absl::StrCat(task, "/", length, suffix));
    ends.push_back(absl::StrCat(length, "/", task, suffix));
    ends.push_back(absl::StrCat(task, "_", length, suffix));
  }
  return ends;
}

struct BabilongTexts {
  helmet::SlotValues values;  // instruction, examples, post_prompt
  Json labels;
};

absl::StatusOr<Json> Constant(Import& import, const std::string& file, absl::string_view name) {
  ASSIGN_OR_RETURN(const std::string source,
                   import.download.Text({absl::StrCat("babilong/", file), file}, kBabilongCode));
  return Annotate(PythonConstant(source, name), file);
}

absl::StatusOr<BabilongTexts> TextsOf(Import& import, const std::string& task) {
  BabilongTexts texts;
  ASSIGN_OR_RETURN(const Json prompts, Constant(import, "prompts.py", "DEFAULT_PROMPTS"));
  ASSIGN_OR_RETURN(const Json labels, Constant(import, "metrics.py", "TASK_LABELS"));
  if (!prompts.is_object() || !prompts.contains(task) || !labels.is_object() || !labels.contains(task)) {
    return InvalidArgument(import.download.folder(), ": prompts.py or metrics.py has no ", task);
  }
  for (const char* part : {"instruction", "examples", "post_prompt"}) {
    ASSIGN_OR_RETURN(texts.values[part], GetString(prompts.at(task), part));
  }
  texts.labels = labels.at(task);
  return texts;
}

absl::Status ImportLabels(const std::string& dataset, Import& import) {
  ASSIGN_OR_RETURN(BabilongTexts texts, TextsOf(import, dataset));
  ASSIGN_OR_RETURN(const Json task_template, Constant(import, "prompts.py", "TASK_TEMPLATE"));
  ASSIGN_OR_RETURN(const Json user_template, Constant(import, "prompts.py", "USER_TEMPLATE"));
  if (!task_template.is_string() || !user_template.is_string()) {
    return InvalidArgument("prompts.py: TASK_TEMPLATE or USER_TEMPLATE is not a text");
  }
  ASSIGN_OR_RETURN(const helmet::Template form,
                   helmet::Template::Parse(
                       absl::StrCat(task_template.get<std::string>(), "\n\n", user_template.get<std::string>())));
  bool any = false;
  for (int nominal : kNominal) {
    const std::optional<std::string> path = import.download.Find(FileEnds(dataset, nominal));
    const std::vector<int>& wanted = import.options.lengths;
    const int length = ContextLengthOf(nominal);
    if (!path.has_value() || (!wanted.empty() && std::count(wanted.begin(), wanted.end(), length) == 0)) continue;
    any = true;
    BenchmarkTask task;
    task.name = absl::StrCat("babilong_", dataset);
    task.rows_name = absl::StrCat(task.name, ".", nominal, "k");
    task.chat = !import.options.no_chat;
    task.metrics = {"babilong/labels"};
    task.max_new_tokens = 20;
    task.lengths = {{length, 0}};
    RETURN_IF_ERROR(
        ForEachRow(import.download, *path, [&](int64_t number, const helmet::RowView& view) -> absl::Status {
          BenchmarkRow row;
          row.id = absl::StrCat(number);
          ASSIGN_OR_RETURN(const std::string context, view.Text("input"));
          ASSIGN_OR_RETURN(const std::string question, view.Text("question"));
          ASSIGN_OR_RETURN(const std::string target, view.Text("target"));
          texts.values["context"] = PythonStrip(context);
          texts.values["question"] = question;
          ASSIGN_OR_RETURN(const std::string prompt, form.Render(texts.values));
          row.prompt = PythonStrip(prompt);
          row.cluster = ClusterOf(context);
          row.gold = {target};
          row.reference = {{"target", target}, {"question", question}, {"labels", texts.labels}};
          return import.sink(task, row);
        }));
  }
  if (any) return absl::OkStatus();
  if (!import.options.lengths.empty()) {
    return NotFound(import.download.folder(), " has no rows of ", dataset, " at these lengths; those of ",
                    FileEnds(dataset, 4)[0], " are at ", ContextLengthOf(4), " tokens, a quarter and 1,024 above 4k");
  }
  return NotFound(import.download.folder(), " has no rows of ", dataset, ", such as ", FileEnds(dataset, 4)[0],
                  ", which are in the data set RMT-team/babilong-1000-samples");
}

}  // namespace

Benchmark Babilong() {
  return {.name = "babilong",
          .title = "BABILong with its published rows",
          .upstream = "github booydar/babilong; rows: the data sets RMT-team/babilong and babilong-1000-samples",
          .licence = "Apache-2.0 (code); rows of bAbI and PG-19, which have licences of their own",
          .needs = "babilong/prompts.py, babilong/metrics.py, qaN/LENGTHk.json",
          .forms = {""},
          .takes = {"lengths", "no-chat"},
          .datasets = &BabilongSets,
          .import = &ImportLabels};
}

}  // namespace varifocal::benchmarks
