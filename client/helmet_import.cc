#include "client/helmet_import.h"

#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/rows.h"
#include "eval_tasks/helmet/import/importer.h"
#include "eval_tasks/job_spec.h"

namespace varifocal::client {

void HelmetImportFlags::AddTo(FlagSet& flags) {
  flags.Section("Import from HELMET");
  flags.Add("checkout", &checkout_, "DIR", "a checkout of HELMET: data.py, prompts and configs");
  flags.Add("data", &data_, "DIR", "its unpacked data, with exports of the hub's datasets");
  flags.Add("out", &out_, "DIR", "where suites, tasks, rows and manifest.json are written");
  flags.Add("length-tokenizer", &length_tokenizer_, "DIR",
            "Llama 2's tokenizer, which upstream cuts long documents by");
  tokenizer_.AddTo(flags);
  flags.Add("configs", &configs_, "A,B,..", "names of configs/*.yaml; default: all families of the paper");
  flags.Add("lengths", &lengths_, "N,N,..", "only these context lengths");
  flags
      .Add("profile", &profile_, "NAME",
           "published: answers end as they do upstream, which ignores its own key for newlines; newline: where its "
           "configurations ask for it, at the first newline")
      .Among({"published", "newline"});
  flags.Add("no-chat", &no_chat_, "no chat format in any suite, as for base models");
}

absl::Status HelmetImportFlags::CheckUnused() const {
  const bool used = no_chat_ || tokenizer_.AnyGiven() ||
                    !absl::StrCat(checkout_, data_, out_, length_tokenizer_, configs_, lengths_, profile_).empty();
  return used ? UsageError("These flags are for `varifocal suites import-helmet`.") : absl::OkStatus();
}

absl::StatusOr<ExitCode> HelmetImportFlags::Run(Console& console) const {
  if (checkout_.empty() || data_.empty() || out_.empty()) {
    return UsageError("import-helmet needs --checkout, --data and --out.");
  }
  helmet::ImportOptions options;
  options.checkout = checkout_;
  options.data = data_;
  options.out = out_;
  options.length_tokenizer = length_tokenizer_;
  options.tokenizer_rules = tokenizer_.Rules();
  if (!configs_.empty()) options.configs = SplitList(configs_);
  for (const std::string& text : SplitList(lengths_)) {
    int length = 0;
    if (!absl::SimpleAtoi(text, &length) || length < 1 || length > kContextLengthMax) {
      return UsageError("--lengths has \"", text, "\"; a length is a whole number from 1 to ", kContextLengthMax, ".");
    }
    options.lengths.push_back(length);
  }
  options.stop_at_newline = profile_ == "newline";
  options.no_chat = no_chat_;
  if (console.format == Format::kText) {
    options.on_progress = [&](const std::string& line) { console.err << line << "\n"; };
  }
  ASSIGN_OR_RETURN(const helmet::ImportResult result, helmet::ImportHelmet(options));
  for (const std::string& change : result.changes) console.err << "varifocal: upstream has changed: " << change << "\n";
  for (const std::string& problem : result.problems) console.err << "varifocal: " << problem << "\n";
  Rows rows(console, {{.key = "task", .title = "task"},
                      {.key = "context_length", .title = "length", .right_aligned = true},
                      {.key = "row_count", .title = "rows", .right_aligned = true},
                      {.key = "cut_row_count", .title = "cut", .right_aligned = true},
                      {.key = "gold_lost_count", .title = "gold lost", .right_aligned = true}});
  for (const helmet::ImportedTask& task : result.tasks) {
    RETURN_IF_ERROR(rows.Add({{"task", task.task},
                              {"context_length", task.context_length},
                              {"row_count", task.row_count},
                              {"cut_row_count", task.cut_row_count},
                              {"gold_lost_count", task.gold_lost_count}}));
  }
  RETURN_IF_ERROR(rows.Finish("Nothing could be imported."));
  return result.problems.empty() ? ExitCode::kDone : ExitCode::kFailed;
}

}  // namespace varifocal::client
