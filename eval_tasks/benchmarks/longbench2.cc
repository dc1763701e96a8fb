// LongBench v2: a prompt file (0shot.txt, ..) filled from data.json; a task for each difficulty and length. The chain of
// thought asks twice: the form cot, and then cot_answer, without the document and with what the model wrote.
#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/python/text.h"

namespace varifocal::benchmarks {
namespace {

std::vector<std::string> LongBench2Sets(const ImportOptions&) { return {"longbench2"}; }

// 120,000 for every local model of upstream, of 128K.
int LongBench2PromptTokens(int context_length) { return static_cast<int>(int64_t{context_length} * 120'000 / 131'072); }

struct ChoiceForm {
  const char* name;
  const char* file;    // of the folder prompts
  const char* prefix;  // of task names
  int max_new_tokens;
};
constexpr ChoiceForm kChoiceForms[] = {{"0shot", "0shot.txt", "longbench2_", 128},
                                       {"no_context", "0shot_no_context.txt", "longbench2_", 128},
                                       {"cot", "0shot_cot.txt", "longbench2_reasoning_", 1024},
                                       {"cot_answer", "0shot_cot_ans.txt", "longbench2_cot_", 128}};

// A model's first answers by row: of ours (`row_id`, `answer`), or of upstream's file (`_id`, `response_cot`).
absl::StatusOr<std::map<std::string, std::string>> FirstAnswers(Import& import) {
  const std::string& path = import.options.answers;
  if (path.empty()) {
    return FailedPrecondition(
        "asks once more with a model's own reasoning: --answers names the file of its answers to the form cot");
  }
  std::map<std::string, std::string> answers;
  RETURN_IF_ERROR(ForEachRow(import.download, path, [&](int64_t, const helmet::RowView& view) -> absl::Status {
    const bool is_upstreams = view.json().contains("response_cot");
    ASSIGN_OR_RETURN(const std::string id, view.Text(is_upstreams ? "_id" : "row_id"));
    ASSIGN_OR_RETURN(const std::string answer, view.Text(is_upstreams ? "response_cot" : "answer"));
    if (answers.emplace(id, PythonStrip(answer)).second) return absl::OkStatus();
    return view.Error(is_upstreams ? "_id" : "row_id",
                      absl::StrCat("is \"", id, "\" for the second time; the file has answers of one model"));
  }));
  return answers;
}

absl::Status ImportChoices(const std::string&, Import& import) {
  const ChoiceForm& form = *std::find_if(std::begin(kChoiceForms), std::end(kChoiceForms),
                                         [&](const ChoiceForm& known) { return import.form == known.name; });
  const bool asks_again = import.form == "cot_answer";
  std::map<std::string, std::string> answers;
  if (asks_again) {
    ASSIGN_OR_RETURN(answers, FirstAnswers(import));
  } else if (!import.options.answers.empty()) {
    return InvalidArgument("--answers is given, and belongs to the form cot_answer, not to ", import.form);
  }
  ASSIGN_OR_RETURN(const std::string text, import.download.Text({absl::StrCat("prompts/", form.file)},
                                                                "the repository THUDM/LongBench, folder prompts"));
  ASSIGN_OR_RETURN(const std::string path,
                   import.download.Need({"data.json", "longbench_v2.json", "longbench_v2.jsonl", "data.jsonl"},
                                        "the data set THUDM/LongBench-v2"));
  BenchmarkTask task;
  task.chat = !import.options.no_chat;
  task.metrics = {"longbench2/choice"};
  task.max_new_tokens = form.max_new_tokens;
  task.truncate = "prompt_ends";
  task.lengths = LengthsOf(import.options, 131'072, &LongBench2PromptTokens);
  int row_count = 0, unanswered_count = 0;
  RETURN_IF_ERROR(ForEachRow(import.download, path, [&](int64_t, const helmet::RowView& view) -> absl::Status {
    ++row_count;
    BenchmarkRow row;
    ASSIGN_OR_RETURN(const std::string difficulty, view.Text("difficulty"));
    ASSIGN_OR_RETURN(const std::string length, view.Text("length"));
    // As result.py: what is not easy is hard, what is neither short nor medium is long.
    task.name = absl::StrCat(form.prefix, difficulty == "easy" ? "easy" : "hard", "_",
                             length == "short" || length == "medium" ? length : "long");
    ASSIGN_OR_RETURN(row.id, view.Text("_id"));
    ASSIGN_OR_RETURN(const std::string context, view.Text("context"));
    row.cluster = ClusterOf(context);
    // One after the other in the growing text, as upstream: a document with $Q$ in it gets the question.
    row.prompt = text;
    for (const auto& [slot, field] :
         {std::pair("$DOC$", "context"), std::pair("$Q$", "question"), std::pair("$C_A$", "choice_A"),
          std::pair("$C_B$", "choice_B"), std::pair("$C_C$", "choice_C"), std::pair("$C_D$", "choice_D")}) {
      ASSIGN_OR_RETURN(const std::string value, view.Text(field));
      row.prompt = absl::StrReplaceAll(row.prompt, {{slot, PythonStrip(value)}});
    }
    if (asks_again) {
      const std::string& reasoning = answers[row.id];  // empty where there is none: upstream drops the row
      unanswered_count += reasoning.empty();
      row.prompt = absl::StrReplaceAll(row.prompt, {{"$COT$", reasoning}});
    }
    ASSIGN_OR_RETURN(const std::string answer, view.Text("answer"));
    if (answer.size() != 1 || answer[0] < 'A' || answer[0] > 'D') {
      return view.Error("answer", absl::StrCat("is \"", answer, "\", not a letter from A to D"));
    }
    row.gold = {answer};
    row.reference["answer"] = answer;
    return import.sink(task, row);
  }));
  constexpr int kRowCount = 503;
  if (row_count != kRowCount) {
    import.notes.push_back(absl::StrCat(path, ": has ", row_count, " rows; upstream's has ", kRowCount));
  }
  if (unanswered_count == row_count && asks_again) {
    return InvalidArgument(import.options.answers, ": has no answer to any of the ", row_count, " rows");
  }
  if (unanswered_count > 0) {
    import.notes.push_back(absl::StrCat(import.options.answers, ": has no answer to ", unanswered_count, " of ",
                                        row_count, " rows, which are asked without; upstream drops them"));
  }
  return absl::OkStatus();
}

}  // namespace

Benchmark LongBench2() {
  return {.name = "longbench2",
          .title = "LongBench v2, by difficulty and length",
          .upstream = "github THUDM/LongBench; rows: data.json of the data set THUDM/LongBench-v2",
          .licence = "MIT (code); of the rows, see the card of the data set",
          .needs = "prompts/0shot.txt, data.json",
          .forms = {"0shot", "no_context", "cot", "cot_answer"},
          .takes = {"lengths", "prompt-tokens", "no-chat", "answers"},
          .datasets = &LongBench2Sets,
          .import = &ImportChoices};
}

}  // namespace varifocal::benchmarks
