// varifocal import-data: a benchmark that a user has downloaded, as suites.
#include <ostream>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/rows.h"
#include "client/verb.h"
#include "eval_tasks/benchmarks/import.h"
#include "eval_tasks/job_spec.h"
#include "eval_tasks/suites.h"

namespace varifocal::client {
namespace {

using benchmarks::Benchmark;
using benchmarks::Benchmarks;

class ImportData : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.AddPositional("NAME", &name_,
                        "a benchmark; without it, all are listed with what they need and their licences");
    flags.AddPositional("DIR", &options_.folder, "folder with everything that you have of it: checkout and data");
    flags.Add("out", &options_.out, "DIR", "where suites, rows and manifest.json are written");
    flags.Add("datasets", &datasets_, "A,B,..", "these alone; default: all that can be imported");
    flags.Add("lengths", &lengths_, "N,N,..", "context lengths, each a suite; default: upstream's");
    flags
        .Add("prompt-tokens", &prompt_tokens_, "N",
             "tokens to which a long prompt is cut, instead of what upstream has")
        .AtLeast(2)
        .AtMost(kContextLengthMax);
    flags.Add("form", &options_.form, "NAME", "which form of the benchmark; the list has their names");
    flags.Add("jieba", &options_.jieba, "DIR",
              "folder of the Python package jieba, whose dictionary and tables three Chinese sets of LongBench need");
    flags.Add("no-chat", &options_.no_chat, "no chat format, as for base models");
    flags.Add(
        "answers", &options_.answers, "FILE",
        "JSON lines of a model's first answers, {\"row_id\", \"answer\"}, which LongBench v2's form cot_answer asks with");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    if (name_.empty()) return List(console);
    const Benchmark* benchmark = benchmarks::FindBenchmark(name_);
    if (benchmark == nullptr) {
      if (BuiltInSuiteText(name_).has_value()) {
        return UsageError("\"", name_, "\" is a suite, which needs no import: varifocal run ", name_);
      }
      return UsageError("No benchmark is called \"", name_, "\"", DidYouMean(name_, NamesOf(Benchmarks())));
    }
    if (options_.folder.empty() || options_.out.empty()) {
      return UsageError("import-data ", name_, " needs DIR and --out. DIR has ", benchmark->needs, " (",
                        benchmark->upstream, ").");
    }
    options_.datasets = SplitList(datasets_);
    for (const std::string& text : SplitList(lengths_)) {
      ASSIGN_OR_RETURN(const int length, LengthOf(text));
      options_.lengths.push_back(length);
    }
    options_.prompt_tokens = static_cast<int>(prompt_tokens_.value_or(0));
    absl::StatusOr<benchmarks::ImportResult> imported = benchmarks::ImportBenchmark(*benchmark, options_);
    if (absl::IsInvalidArgument(imported.status())) return AsUsageError(imported.status());
    ASSIGN_OR_RETURN(const benchmarks::ImportResult result, std::move(imported));
    for (const std::string& note : result.notes) console.err << "varifocal: " << note << ".\n";
    for (const std::string& problem : result.problems) console.err << "varifocal: " << problem << ".\n";
    Rows rows(console, {{.key = "task", .title = "task"},
                        {.key = "context_length", .title = "length", .right_aligned = true},
                        {.key = "row_count", .title = "rows", .right_aligned = true}});
    for (const benchmarks::ImportedTask& task : result.tasks) {
      RETURN_IF_ERROR(
          rows.Add({{"task", task.task}, {"context_length", task.context_length}, {"row_count", task.row_count}}));
    }
    RETURN_IF_ERROR(rows.Finish("Nothing could be imported."));
    if (console.format == Format::kText) {
      for (const std::string& suite : result.suites) console.out << "varifocal run " << suite << "\n";
    }
    return result.problems.empty() ? ExitCode::kDone : ExitCode::kFailed;
  }

 private:
  static absl::StatusOr<int> LengthOf(const std::string& text) {
    absl::StatusOr<int> length = ParseContextLength(text);
    if (!length.ok()) return AsUsageError(length.status());
    return length;
  }

  static absl::StatusOr<ExitCode> List(Console& console) {
    Rows rows(console, {{.key = "name", .title = "benchmark"},
                        {.key = "title", .title = "what"},
                        {.key = "needs", .title = "DIR has"},
                        {.key = "upstream", .title = "from"},
                        {.key = "licence", .title = "licence"},
                        {.key = "forms", .title = "forms"},
                        {.key = "takes", .title = "takes"}});
    for (const Benchmark& benchmark : Benchmarks()) {
      std::string forms;
      for (const std::string& form : benchmark.forms) absl::StrAppend(&forms, forms.empty() ? "" : " ", form);
      std::string takes;
      for (const std::string& flag : benchmark.takes) absl::StrAppend(&takes, takes.empty() ? "--" : " --", flag);
      RETURN_IF_ERROR(rows.Add({{"name", benchmark.name},
                                {"title", benchmark.title},
                                {"needs", benchmark.needs},
                                {"upstream", benchmark.upstream},
                                {"licence", benchmark.licence},
                                {"forms", forms},
                                {"takes", takes}}));
    }
    return DoneOr(rows.Finish());
  }

  std::string name_, datasets_, lengths_;
  std::optional<int64_t> prompt_tokens_;
  benchmarks::ImportOptions options_;
};

}  // namespace

constinit const Verb kImportDataVerb = {
    .name = "import-data",
    .group = "Tasks",
    .summary = "make suites of a benchmark that you have downloaded",
    .about =
        R"(Writes suites, rows and a manifest from upstream's checkout and data (docs/benchmarks.md). Files are found by their
names in any folder below DIR. What is missing or cannot be read is said in one sentence a dataset on
standard error, everything else is written, and the exit code is 1. A flag that changes nothing for a benchmark is
refused. HELMET has `varifocal suites import-helmet`.)",
    .examples =
        "varifocal import-data\n"
        "varifocal import-data longbench LongBench --out=suites --lengths=4096,32768\n"
        "varifocal run suites/longbench_4096.yaml --model=NAME=DIR --db=results.db",
    .formats = "text json jsonl csv",
    .make = &Make<ImportData>,
};

}  // namespace varifocal::client
