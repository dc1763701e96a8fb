// InfiniteBench: templates of the checkout's src/prompt.py (form: whose), rows of NAME.jsonl.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/helmet/template.h"
#include "eval_tasks/python/literals.h"
#include "eval_tasks/python/text.h"

namespace varifocal::benchmarks {
namespace {

struct InfiniteSet {
  const char* name;
  int max_new_tokens;
};

constexpr InfiniteSet kInfiniteSets[] = {{"passkey", 6},
                                         {"number_string", 12},
                                         {"kv_retrieval", 50},
                                         {"longbook_sum_eng", 1200},
                                         {"longbook_choice_eng", 40},
                                         {"longbook_qa_eng", 40},
                                         {"longbook_qa_chn", 40},
                                         {"longdialogue_qa_eng", 40},
                                         {"math_find", 3},
                                         {"math_calc", 30'000},
                                         {"code_run", 5},
                                         {"code_debug", 5}};

std::vector<std::string> InfiniteSets(const ImportOptions&) { return NamesOf(kInfiniteSets); }

// re.findall(r"func_[0-9]+\(\-?[0-9]+\)", text)[0]; empty without any.
std::string FunctionCall(const std::string& text) {
  constexpr char kWord[] = "func_";
  const auto digits = [&](size_t at) {
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at;
  };
  for (size_t begin = text.find(kWord); begin != std::string::npos; begin = text.find(kWord, begin + 1)) {
    const size_t name = begin + sizeof(kWord) - 1, name_end = digits(name);
    if (name_end == name || text.substr(name_end, 1) != "(") continue;
    const size_t number = name_end + 1 + (text.substr(name_end + 1, 1) == "-"), end = digits(number);
    if (end > number && text.substr(end, 1) == ")") return text.substr(begin, end + 1 - begin);
  }
  return "";
}

// What math_find asks for: of the question's "The .. of" (the longest in its line), in lower case and without " of".
std::string AskedNumber(const std::string& question) {
  for (size_t begin = question.find("The "); begin != std::string::npos; begin = question.find("The ", begin + 1)) {
    const std::string line = question.substr(begin, question.find('\n', begin) - begin);
    const size_t end = line.rfind(" of");
    constexpr size_t kWordEnd = 5;  // "The " and a character
    if (end != std::string::npos && end >= kWordEnd) return PythonLower(line.substr(0, end));
  }
  return "";
}

// [text, letter] of the right option; upstream's rows have the text, a list with it, or both.
absl::StatusOr<Json> OptionLabel(const helmet::RowView& view, const std::vector<std::string>& options) {
  ASSIGN_OR_RETURN(const std::vector<std::string> answer, view.Texts("answer"));
  const bool has_letter = answer.size() == 2 && answer[1].size() == 1 && answer[1][0] >= 'A' && answer[1][0] <= 'D';
  if (has_letter) return Json(answer);
  const auto found = std::find(options.begin(), options.end(), answer[0]);
  if (answer.size() != 1 || found == options.end()) return view.Error("answer", "is not one of the \"options\"");
  return Json{answer[0], std::string(1, static_cast<char>('A' + (found - options.begin())))};
}

// The slots of a template beside those that are fields of the row.
absl::StatusOr<helmet::SlotValues> SlotsOf(const std::string& dataset, const helmet::RowView& view,
                                           const std::vector<std::string>& options) {
  helmet::SlotValues slots;
  ASSIGN_OR_RETURN(slots["context"], view.Text("context"));
  ASSIGN_OR_RETURN(slots["input"], view.Text("input"));
  slots["question"] = slots["input"];
  for (size_t i = 0; i < options.size(); ++i)
    slots[absl::StrCat("OPTION_", std::string(1, static_cast<char>('A' + i)))] = options[i];
  if (dataset == "code_run") {
    slots["func_call"] = FunctionCall(slots["input"]);
    if (slots["func_call"].empty()) return view.Error("input", "has no call such as func_1(2)");
    slots["func"] = slots["func_call"].substr(0, slots["func_call"].find('('));
  }
  if (dataset == "math_find") {
    const std::string asked = AskedNumber(slots["input"]);
    if (asked.empty()) return view.Error("input", "has no \"The .. of\"");
    slots["prefix"] = absl::StrCat("What is ", asked, " in the following list?");
  }
  return slots;
}

absl::Status ImportInfinite(const std::string& dataset, Import& import) {
  const auto* set = std::find_if(std::begin(kInfiniteSets), std::end(kInfiniteSets),
                                 [&](const InfiniteSet& known) { return dataset == known.name; });
  if (set == std::end(kInfiniteSets)) return InvalidArgument("is not a task of InfiniteBench");
  if (import.form == "gpt4" && dataset == "math_calc") {
    return Unimplemented("has turns of its own in the form gpt4, which are not imported");
  }
  ASSIGN_OR_RETURN(const std::string source, import.download.Text({"src/prompt.py", "prompt.py"},
                                                                  "the repository OpenBMB/InfiniteBench, folder src"));
  const std::string family = absl::StrReplaceAll(import.form, {{"-", "_"}});
  ASSIGN_OR_RETURN(Json templates, Annotate(PythonConstant(source, absl::StrCat(family, "_templates")), "prompt.py"));
  ASSIGN_OR_RETURN(const std::string text, GetString(templates, dataset));
  ASSIGN_OR_RETURN(const helmet::Template form, helmet::Template::Parse(text));
  ASSIGN_OR_RETURN(const std::string path, import.download.Need({absl::StrCat(dataset, ".jsonl")},
                                                                "the data set xinrongzhang2022/InfiniteBench"));
  BenchmarkTask task;
  task.name = absl::StrCat("infinitebench_", dataset);
  task.chat = import.form != "yarn-mistral" && !import.options.no_chat;
  task.metrics = {absl::StrCat("infinitebench/", dataset)};
  task.max_new_tokens = set->max_new_tokens;
  task.truncate = "prompt_ends";
  constexpr int kPromptTokens = 128 * 1024;
  const int answer =
      set->max_new_tokens > 2000 ? 30'720 : 2048;  // space beside the prompt, in two lengths for all tasks
  for (int length :
       import.options.lengths.empty() ? std::vector<int>{kPromptTokens + answer} : import.options.lengths) {
    const int prompt_tokens = import.options.prompt_tokens > 0 ? import.options.prompt_tokens : length - answer;
    if (prompt_tokens < 2) {
      return InvalidArgument("the context length ", length, " leaves no space for a prompt beside ", answer,
                             " tokens for the answer of ", dataset);
    }
    task.lengths.push_back({length, prompt_tokens});
  }
  const bool has_options = dataset == "code_debug" || dataset == "longbook_choice_eng";
  return ForEachRow(import.download, path, [&](int64_t number, const helmet::RowView& view) -> absl::Status {
    BenchmarkRow row;
    row.id = absl::StrCat(number);
    std::vector<std::string> options;
    if (has_options) {
      ASSIGN_OR_RETURN(options, view.Texts("options"));
      constexpr size_t kOptionCount = 4;
      if (options.size() != kOptionCount) return view.Error("options", "must be 4 texts");
    }
    ASSIGN_OR_RETURN(const helmet::SlotValues slots, SlotsOf(dataset, view, options));
    ASSIGN_OR_RETURN(row.prompt,
                     Annotate(form.Render(slots), absl::StrCat("the template ", import.form, " of ", dataset)));
    row.cluster = ClusterOf(slots.at("context"));
    ASSIGN_OR_RETURN(const Json* answer_field, view.Field("answer"));
    Json label = *answer_field;
    if (has_options) {
      ASSIGN_OR_RETURN(label, OptionLabel(view, options));
    }
    row.reference["label"] = label;
    std::vector<std::string> gold;
    for (const Json& item : label.is_array() ? label : Json::array({label})) {
      gold.push_back(item.is_string() ? item.get<std::string>() : item.dump());
    }
    row.gold = ShownGold(gold, row.reference);
    return import.sink(task, row);
  });
}

}  // namespace

Benchmark InfiniteBench() {
  return {.name = "infinitebench",
          .title = "InfiniteBench",
          .upstream = "github OpenBMB/InfiniteBench; rows: the data set xinrongzhang2022/InfiniteBench",
          .licence = "MIT (code and rows; the books are of other origins)",
          .needs = "src/prompt.py, NAME.jsonl",
          .forms = {"yarn-mistral", "gpt4", "claude2", "kimi"},
          .takes = {"lengths", "prompt-tokens", "no-chat"},
          .datasets = &InfiniteSets,
          .import = &ImportInfinite};
}

}  // namespace varifocal::benchmarks
