// LongProc: the checkout's data/, which has prompts (YAML) and rows.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/files.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/metric.h"
#include "yaml-cpp/yaml.h"

namespace varifocal::benchmarks {
namespace {

constexpr char kLongProcData[] = "the repository princeton-pli/LongProc, folder data";

std::vector<std::string> LongProcSets(const ImportOptions&) {
  std::vector<std::string> names;
  for (const char* task : {"path_traversal", "html_to_tsv", "tom_tracking"}) {
    for (const char* size : {"_0.5k", "_2k", "_8k"}) names.push_back(absl::StrCat(task, size));
  }
  return names;
}

absl::StatusOr<helmet::Template> UserPrompt(Import& import, const std::string& kind) {
  const std::string file = absl::StrCat(kind, "/prompts.yaml");
  ASSIGN_OR_RETURN(const std::string yaml, import.download.Text({file}, kLongProcData));
  try {
    const YAML::Node node = YAML::Load(yaml);
    if (node.IsMap() && node["USER_PROMPT"].IsDefined() && node["USER_PROMPT"].IsScalar()) {
      return helmet::Template::Parse(node["USER_PROMPT"].Scalar());
    }
  } catch (const YAML::Exception& error) {
    return InvalidArgument(file, ": ", error.what());
  }
  return InvalidArgument(file, ": has no text USER_PROMPT");
}

struct ProcRow {
  helmet::SlotValues slots;
  std::string reference, cluster;
};

absl::StatusOr<ProcRow> Route(const helmet::RowView& view) {
  ProcRow row;
  ASSIGN_OR_RETURN(row.slots["city_context"], view.Text("context_nl"));
  ASSIGN_OR_RETURN(const std::vector<std::string> cities, view.Texts("question_repr"));
  if (cities.size() < 2) return view.Error("question_repr", "must be two cities");
  row.slots["src_city"] = cities[0];
  row.slots["dst_city"] = cities[1];
  ASSIGN_OR_RETURN(row.reference, view.Text("answer_nl"));
  row.cluster = ClusterOf(row.slots["city_context"]);
  return row;
}

absl::StatusOr<ProcRow> Webpage(const helmet::RowView& view, Import& import) {
  ProcRow row;
  for (const char* field : {"task_topic", "task_description", "tsv_header", "filtering_instruction"}) {
    ASSIGN_OR_RETURN(row.slots[field], view.Str(field));
  }
  ASSIGN_OR_RETURN(const std::string file, view.Text("html_path"));
  ASSIGN_OR_RETURN(std::string html, import.download.Text({absl::StrCat("html_to_tsv/", file)}, kLongProcData));
  row.cluster = ClusterOf(html);
  row.slots["html_str"] = std::move(html);
  ASSIGN_OR_RETURN(row.reference, view.Text("gt"));
  return row;
}

absl::StatusOr<ProcRow> Story(const helmet::RowView& view) {
  ProcRow row;
  for (const char* field : {"story_components", "story", "question"}) {
    ASSIGN_OR_RETURN(const Json* value, view.Field(field));
    if (value->is_string()) row.slots[field] = value->get<std::string>();
  }
  ASSIGN_OR_RETURN(row.reference, view.Text("solution"));
  row.cluster = ClusterOf(row.slots["story"]);
  return row;
}

absl::Status ImportProc(const std::string& dataset, Import& import) {
  const std::vector<std::string> known = LongProcSets({});
  if (std::find(known.begin(), known.end(), dataset) == known.end()) {
    return Unimplemented(
        "is not imported: upstream's own program makes its rows or runs its answers; recipes/longproc_programs.py calls it");
  }
  const std::string kind = dataset.substr(0, dataset.rfind('_')), size = dataset.substr(kind.size() + 1);
  ASSIGN_OR_RETURN(const helmet::Template form, UserPrompt(import, kind));
  ASSIGN_OR_RETURN(const std::string path,
                   import.download.Need({absl::StrCat(kind, "/", dataset, ".json")}, kLongProcData));
  BenchmarkTask task;
  task.name = absl::StrCat("longproc_", dataset);
  task.chat = !import.options.no_chat;
  for (const char* measure : {"accuracy", "partial_accuracy", "f1", "precision", "recall"}) {
    const std::string name = absl::StrCat("longproc/", kind, "/", measure);
    if (FindMetric(name) != nullptr) task.metrics.push_back(name);
  }
  // Answers of at most 500, 2K and 8K tokens by upstream's count, a webpage of up to about 32K before them.
  task.max_new_tokens = size == "0.5k" ? 1024 : size == "2k" ? 3072 : 9216;
  const int prompt_tokens = kind == "html_to_tsv" ? 65'536 : 15'360;
  const int usual = prompt_tokens + task.max_new_tokens;
  for (int length : import.options.lengths.empty() ? std::vector<int>{usual} : import.options.lengths) {
    task.lengths.push_back({length, 0});
  }
  return ForEachRow(import.download, path, [&](int64_t number, const helmet::RowView& view) -> absl::Status {
    ASSIGN_OR_RETURN(ProcRow read, kind == "path_traversal" ? Route(view)
                                   : kind == "html_to_tsv"  ? Webpage(view, import)
                                                            : Story(view));
    BenchmarkRow row;
    row.id = absl::StrCat(number);
    ASSIGN_OR_RETURN(row.prompt, form.Render(read.slots));
    row.cluster = std::move(read.cluster);
    row.reference["reference_output"] = read.reference;
    row.gold = ShownGold({read.reference}, row.reference);
    return import.sink(task, row);
  });
}

}  // namespace

Benchmark LongProc() {
  return {.name = "longproc",
          .title = "LongProc: path_traversal, html_to_tsv, tom_tracking",
          .upstream = "github princeton-pli/LongProc, whose folder data has the rows",
          .licence = "Apache-2.0",
          .needs = "data/TASK/prompts.yaml, data/TASK/TASK_SIZE.json",
          .forms = {""},
          .takes = {"lengths", "no-chat"},
          .datasets = &LongProcSets,
          .import = &ImportProc};
}

}  // namespace varifocal::benchmarks
