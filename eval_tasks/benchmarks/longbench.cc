// LongBench v1: prompts of config/dataset2prompt.json, rows of data/NAME.jsonl, or of data/NAME_e.jsonl by length.
#include <algorithm>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/metric.h"
#include "eval_tasks/metrics/jieba.h"

namespace varifocal::benchmarks {
namespace {

constexpr char kLongBenchConfig[] = "the repository THUDM/LongBench, folder LongBench/config";

struct LongBenchSet {
  const char* name;
  const char* metric;
  bool chat;        // upstream leaves six sets without its chat format
  bool first_line;  // only the answer's first line is scored
  int row_count;    // of upstream's data.zip
  bool in_e;
};

// English sets first; the last three are scored by jieba's words.
constexpr LongBenchSet kSets[] = {
    {"narrativeqa", "longbench/qa_f1", true, false, 200, false},
    {"qasper", "longbench/qa_f1", true, false, 200, true},
    {"multifieldqa_en", "longbench/qa_f1", true, false, 150, true},
    {"hotpotqa", "longbench/qa_f1", true, false, 200, true},
    {"2wikimqa", "longbench/qa_f1", true, false, 200, true},
    {"musique", "longbench/qa_f1", true, false, 200, false},
    {"gov_report", "longbench/rouge", true, false, 200, true},
    {"qmsum", "longbench/rouge", true, false, 200, false},
    {"multi_news", "longbench/rouge", true, false, 200, true},
    {"trec", "longbench/classification", false, true, 200, true},
    {"triviaqa", "longbench/qa_f1", false, true, 200, true},
    {"samsum", "longbench/rouge", false, true, 200, true},
    {"passage_count", "longbench/count", true, false, 200, true},
    {"passage_retrieval_en", "longbench/retrieval", true, false, 200, true},
    {"lcc", "longbench/code_sim", false, false, 500, true},
    {"repobench-p", "longbench/code_sim", false, false, 500, true},
    {"lsht", "longbench/classification", false, true, 200, false},
    {"passage_retrieval_zh", "longbench/retrieval_zh", true, false, 200, false},
    {"multifieldqa_zh", "longbench/qa_f1_zh", true, false, 200, false},
    {"dureader", "longbench/rouge_zh", true, false, 200, false},
    {"vcsum", "longbench/rouge_zh", true, false, 200, false},
};

bool NeedsJieba(const LongBenchSet& set) {
  const absl::string_view metric = set.metric;
  return metric == "longbench/qa_f1_zh" || metric == "longbench/rouge_zh";
}

// By default without those that need jieba where it is not named.
std::vector<std::string> LongBenchSets(const ImportOptions& options) {
  std::vector<std::string> names;
  for (const LongBenchSet& set : kSets) {
    if (options.form == "e" ? set.in_e : !NeedsJieba(set) || !options.jieba.empty()) names.emplace_back(set.name);
  }
  return names;
}

// What upstream's model2maxlen.json has: 3,500 for a model of 4K, 7,500, 15,500, 31,500.
int LongBenchPromptTokens(int context_length) {
  return context_length >= 2048 ? context_length / 1024 * 1000 - 500 : std::max(2, context_length * 3 / 4);
}

// Upstream's names of the lengths of LongBench-E, as parts of task names.
const char* BucketOf(int64_t length) {
  if (length < 4000) return "_0-4k";
  return length < 8000 ? "_4-8k" : "_8k-up";
}

absl::StatusOr<Json> JiebaReference(const std::string& folder) {
  if (folder.empty()) {
    return FailedPrecondition(
        "is scored by the words of jieba, a Python package of Chinese words: --jieba names its folder, which has "
        "dict.txt and finalseg");
  }
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(folder, error).lexically_normal().string();
  ASSIGN_OR_RETURN(const std::shared_ptr<const Jieba> jieba, Jieba::Open(absolute));
  return Json{{"jieba", absolute}, {"jieba_sha256", jieba->sha256()}};
}

// The entry of a set.
absl::StatusOr<Json> ConfigOf(Import& import, const std::string& file, const std::string& dataset) {
  ASSIGN_OR_RETURN(const std::string text, import.download.Text({absl::StrCat("config/", file)}, kLongBenchConfig));
  ASSIGN_OR_RETURN(Json object, Annotate(ParseJson(text), file));
  if (!object.is_object() || !object.contains(dataset)) return InvalidArgument(file, " has no \"", dataset, "\"");
  return Json(object.at(dataset));
}

// The retrieval sets name a paragraph; upstream's scorer fails on an answer that does not.
absl::Status CheckAnswers(const std::string& metric, const std::vector<std::string>& answers,
                          const helmet::RowView& row) {
  const Metric* known = FindMetric(metric);
  if (known == nullptr || metric.find("retrieval") == std::string::npos) return absl::OkStatus();
  MetricInput input;
  input.reference_json = Json{{"answers", answers}}.dump(-1, ' ', false, Json::error_handler_t::replace);
  const absl::Status status = known->Score(input).status();
  return status.ok() ? status : row.Error("answers", absl::StrCat("is not of this set: ", status.message()));
}

absl::Status ImportSet(const std::string& dataset, Import& import) {
  const auto* set = std::find_if(std::begin(kSets), std::end(kSets),
                                 [&](const LongBenchSet& known) { return dataset == known.name; });
  const bool is_e = import.form == "e";
  if (is_e && !import.options.jieba.empty()) {
    return InvalidArgument("is English, as all sets of LongBench-E, for which --jieba changes nothing");
  }
  if (dataset == kSets[0].name && import.options.datasets.empty() && import.options.jieba.empty()) {
    import.notes.emplace_back("multifieldqa_zh, dureader and vcsum are left out: they need --jieba");
  }
  if (set == std::end(kSets) || (is_e && !set->in_e)) {
    return absl::InvalidArgumentError(is_e ? "is not a set of LongBench-E" : "is not a set of LongBench");
  }
  Json more_reference = Json::object();
  if (NeedsJieba(*set)) {
    ASSIGN_OR_RETURN(more_reference, JiebaReference(import.options.jieba));
  }
  ASSIGN_OR_RETURN(const Json prompt, ConfigOf(import, "dataset2prompt.json", dataset));
  if (!prompt.is_string()) return InvalidArgument("dataset2prompt.json: its prompt is not a text");
  ASSIGN_OR_RETURN(const helmet::Template form, helmet::Template::Parse(prompt.get<std::string>()));
  ASSIGN_OR_RETURN(const Json answer_tokens, ConfigOf(import, "dataset2maxlen.json", dataset));
  if (!answer_tokens.is_number_integer() || answer_tokens < 1 || answer_tokens > 65'536) {
    return InvalidArgument("dataset2maxlen.json: has ", answer_tokens.dump(), " tokens; an answer has 1 to 65,536");
  }
  const std::string file = absl::StrCat(dataset, is_e ? "_e" : "", ".jsonl");
  ASSIGN_OR_RETURN(const std::string path, import.download.Need({absl::StrCat("data/", file), file},
                                                                "data.zip of the data set THUDM/LongBench"));

  BenchmarkTask task;
  task.chat = set->chat && !import.options.no_chat;
  task.metrics = {set->metric};
  if (task.metrics[0] == "longbench/code_sim") {
    task.metrics = {"longbench/code_sim_difflib", "longbench/code_sim_levenshtein"};
  }
  task.max_new_tokens = answer_tokens.get<int>();
  task.truncate = "prompt_halves";
  task.lengths = LengthsOf(import.options, 32768, &LongBenchPromptTokens);
  const bool is_classification = task.metrics[0] == "longbench/classification";
  Json classes;
  if (is_classification) {  // upstream scores a file by the classes of its last row
    RETURN_IF_ERROR(ForEachRow(import.download, path, [&](int64_t, const helmet::RowView& row) {
      classes = row.json().value("all_classes", Json());
      return absl::OkStatus();
    }));
  }
  int row_count = 0;
  RETURN_IF_ERROR(ForEachRow(import.download, path, [&](int64_t number, const helmet::RowView& view) -> absl::Status {
    ++row_count;
    BenchmarkRow row;
    row.id = absl::StrCat(number);
    ASSIGN_OR_RETURN(const std::string context, view.Text("context"));
    row.cluster = ClusterOf(context);
    ASSIGN_OR_RETURN(row.prompt, FillFromRow(form, view));
    ASSIGN_OR_RETURN(const std::vector<std::string> answers, view.Texts("answers"));
    RETURN_IF_ERROR(CheckAnswers(task.metrics[0], answers, view));
    row.reference = more_reference;
    row.reference["answers"] = answers;
    if (set->first_line) row.reference["first_line"] = true;
    if (is_classification) {
      ASSIGN_OR_RETURN(row.reference["all_classes"],
                       helmet::RowView({{"all_classes", classes}}, view.place()).Texts("all_classes"));
    }
    row.gold = ShownGold(answers, row.reference);
    task.name = absl::StrCat("longbench_", dataset);
    if (is_e) {
      ASSIGN_OR_RETURN(const int64_t length, view.Int("length"));
      absl::StrAppend(&task.name, "_e", BucketOf(length));
    }
    return import.sink(task, row);
  }));
  if (!is_e && row_count != set->row_count) {
    import.notes.push_back(absl::StrCat(path, ": has ", row_count, " rows; upstream's has ", set->row_count));
  }
  return absl::OkStatus();
}

}  // namespace

Benchmark LongBench() {
  return {.name = "longbench",
          .title = "LongBench (v1), and LongBench-E by length (form e)",
          .upstream = "github THUDM/LongBench, folder LongBench; rows: data.zip of the data set THUDM/LongBench",
          .licence = "MIT (code); the rows are of 21 origins, some of which may not be redistributed",
          .needs = "config/dataset2prompt.json, config/dataset2maxlen.json, data/NAME.jsonl",
          .forms = {"standard", "e"},
          .takes = {"lengths", "prompt-tokens", "jieba", "no-chat"},
          .datasets = &LongBenchSets,
          .import = &ImportSet};
}

}  // namespace varifocal::benchmarks
