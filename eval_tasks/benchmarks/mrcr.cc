// MRCR: rows with turns, exported from the hub's parquet as JSON lines.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "eval_tasks/benchmarks/benchmark.h"
#include "eval_tasks/job_spec.h"
#include "tokenizer/chat_format.h"

namespace varifocal::benchmarks {
namespace {

std::vector<std::string> MrcrSets(const ImportOptions&) { return {"2needle", "4needle", "8needle"}; }

absl::Status CheckConversation(const Json& turns, const helmet::RowView& view) {
  if (!turns.is_array()) return view.Error("prompt", "is not a list of turns");
  std::vector<ChatTurn> conversation;
  for (const Json& turn : turns) {
    if (!turn.is_object() || !turn.contains("role") || !turn["role"].is_string() || !turn.contains("content") ||
        !turn["content"].is_string()) {
      return view.Error("prompt", "has a turn without \"role\" and \"content\"");
    }
    conversation.push_back({turn["role"].get<std::string>(), turn["content"].get<std::string>()});
  }
  const absl::Status status = CheckTurns(conversation);
  return status.ok() ? status : view.Error("prompt", absl::StrCat("is refused: ", status.message()));
}

absl::Status ImportTurns(const std::string& dataset, Import& import) {
  ASSIGN_OR_RETURN(const std::string path,
                   import.download.Need({absl::StrCat(dataset, ".jsonl"), "mrcr.jsonl"},
                                        "the data set openai/mrcr, as parquet; export its rows as JSON lines"));
  // Upstream's bins are of o200k_base's tokens, which is another tokenizer than the models'.
  constexpr int kCharactersPerToken = 4;
  BenchmarkTask task;
  task.name = absl::StrCat("mrcr_", dataset);
  task.chat = true;
  task.metrics = {"mrcr/ratio"};
  task.max_new_tokens = 2048;
  return ForEachRow(import.download, path, [&](int64_t number, const helmet::RowView& view) -> absl::Status {
    ASSIGN_OR_RETURN(const int64_t needles, view.Int("n_needles"));
    if (absl::StrCat(needles, "needle") != dataset) return absl::OkStatus();
    BenchmarkRow row;
    row.id = absl::StrCat(number);
    row.cluster = row.id;
    ASSIGN_OR_RETURN(const std::string prompt, view.Text("prompt"));
    absl::StatusOr<Json> turns = ParseJson(prompt);
    if (!turns.ok()) return view.Error("prompt", "is not the JSON text of its turns");
    RETURN_IF_ERROR(CheckConversation(*turns, view));
    row.messages = *std::move(turns);
    ASSIGN_OR_RETURN(const std::string answer, view.Text("answer"));
    ASSIGN_OR_RETURN(const std::string prefix, view.Text("random_string_to_prepend"));
    row.reference = {{"answer", answer}, {"prefix", prefix}};
    row.gold = ShownGold({answer}, row.reference);
    ASSIGN_OR_RETURN(const int64_t characters, view.Int("n_chars"));
    int bin = 8192;
    while (bin < (1 << 20) && characters > int64_t{bin} * kCharactersPerToken) bin *= 2;
    task.lengths = {{std::min<int>(bin * 5 / 4 + task.max_new_tokens, kContextLengthMax), 0}};
    task.rows_name = absl::StrCat(task.name, ".", bin / 1024, "k");
    return import.sink(task, row);
  });
}

}  // namespace

Benchmark Mrcr() {
  return {
      .name = "mrcr",
      .title = "MRCR (OpenAI)",
      .upstream = "the data set openai/mrcr",
      .licence = "MIT",
      .needs = "2needle.jsonl, 4needle.jsonl, 8needle.jsonl (or all in mrcr.jsonl), exported from its parquet files",
      .forms = {""},
      .takes = {},
      .datasets = &MrcrSets,
      .import = &ImportTurns};
}

}  // namespace varifocal::benchmarks
