// LongBench v2: prompts/0shot.txt (or 0shot_no_context.txt) filled from data.json; a task for each difficulty and length.
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

absl::Status ImportChoices(const std::string&, Import& import) {
  const std::string file = import.form == "0shot" ? "0shot.txt" : "0shot_no_context.txt";
  ASSIGN_OR_RETURN(const std::string form, import.download.Text({absl::StrCat("prompts/", file)},
                                                                "the repository THUDM/LongBench, folder prompts"));
  ASSIGN_OR_RETURN(const std::string path,
                   import.download.Need({"data.json", "longbench_v2.json", "longbench_v2.jsonl", "data.jsonl"},
                                        "the data set THUDM/LongBench-v2"));
  BenchmarkTask task;
  task.chat = !import.options.no_chat;
  task.metrics = {"longbench2/choice"};
  task.max_new_tokens = 128;
  task.truncate = "prompt_ends";
  task.lengths = LengthsOf(import.options, 131'072, &LongBench2PromptTokens);
  int row_count = 0;
  RETURN_IF_ERROR(ForEachRow(import.download, path, [&](int64_t, const helmet::RowView& view) -> absl::Status {
    ++row_count;
    BenchmarkRow row;
    ASSIGN_OR_RETURN(const std::string difficulty, view.Text("difficulty"));
    ASSIGN_OR_RETURN(const std::string length, view.Text("length"));
    // As result.py: what is not easy is hard, what is neither short nor medium is long.
    task.name = absl::StrCat("longbench2_", difficulty == "easy" ? "easy" : "hard", "_",
                             length == "short" || length == "medium" ? length : "long");
    ASSIGN_OR_RETURN(row.id, view.Text("_id"));
    ASSIGN_OR_RETURN(const std::string context, view.Text("context"));
    row.cluster = ClusterOf(context);
    // One after the other in the growing text, as upstream: a document with $Q$ in it gets the question.
    row.prompt = form;
    for (const auto& [slot, field] :
         {std::pair("$DOC$", "context"), std::pair("$Q$", "question"), std::pair("$C_A$", "choice_A"),
          std::pair("$C_B$", "choice_B"), std::pair("$C_C$", "choice_C"), std::pair("$C_D$", "choice_D")}) {
      ASSIGN_OR_RETURN(const std::string value, view.Text(field));
      row.prompt = absl::StrReplaceAll(row.prompt, {{slot, PythonStrip(value)}});
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
  return absl::OkStatus();
}

}  // namespace

Benchmark LongBench2() {
  return {.name = "longbench2",
          .title = "LongBench v2, by difficulty and length",
          .upstream = "github THUDM/LongBench; rows: data.json of the data set THUDM/LongBench-v2",
          .licence = "MIT (code); of the rows, see the card of the data set",
          .needs = "prompts/0shot.txt, data.json",
          .forms = {"0shot", "no_context"},
          .datasets = &LongBench2Sets,
          .import = &ImportChoices};
}

}  // namespace varifocal::benchmarks
