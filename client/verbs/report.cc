// varifocal report: one self-contained page, or the comparison table for a paper.
#include <filesystem>
#include <ostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/adjust_flag.h"
#include "client/epochs_flag.h"
#include "client/jobs.h"
#include "client/report/report.h"
#include "client/verb.h"
#include "db/stats/compare.h"

namespace varifocal::client {
namespace {

// The format by the file's extension, if --format is not given.
absl::StatusOr<ReportFormat> FormatOfPath(const std::string& path) {
  const std::pair<const char*, ReportFormat> endings[] = {
      {".html", ReportFormat::kHtml}, {".htm", ReportFormat::kHtml},    {".csv", ReportFormat::kCsv},
      {".json", ReportFormat::kJson}, {".md", ReportFormat::kMarkdown}, {".txt", ReportFormat::kMarkdown},
      {".tex", ReportFormat::kLatex}};
  for (const auto& [ending, format] : endings) {
    if (absl::EndsWith(path, ending)) return format;
  }
  if (std::error_code error; std::filesystem::is_directory(path, error)) {
    return UsageError("--out=", path, " is a directory; name a file in it, such as ",
                      (std::filesystem::path(path) / "report.html").string(), ".");
  }
  return UsageError("--out=", path,
                    " has no known extension: use .html, .csv, .json, .md, .txt "
                    "or .tex, or give --format.");
}

class WriteTheReport : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &options_.database_path, "PATH", "the results database; a daemon may be writing to it").Required();
    flags
        .Add("out", &options_.output_path, "PATH",
             "the file to write, atomically; - for standard output, a page unless --format")
        .Required();
    flags.Add("job", &job_, "JOB", "this job instead of the newest one");
    flags.Add("baseline", &options_.baseline, "A",
              "the reference variant of the differences, or JOB/A; default: the job's first");
    flags.Add("candidates", &candidates_, "B,C,..",
              "the variants to compare with it, JOB/B for another job's; default: all others");
    flags.Add("margin", &margin_, "POINTS", "differences within it count as equivalent, in percent of a metric's span")
        .AtLeast(0.01)
        .AtMost(50);
    flags.Add("metric", &options_.metric, "NAME",
              "the primary metric of each task that has it, for example an imported one; default: each task's first");
    epochs_.AddTo(flags);
    adjust_.AddTo(flags);
    flags
        .Add("effective-share", &effective_share_, "PERCENT",
             "of the score at the shortest length that the effective context length needs; 85 unless given")
        .AtLeast(1)
        .AtMost(100);
    flags
        .Add("effective-score", &effective_score_, "PERCENT",
             "this score instead, the same for all variants, in percent from worst to best")
        .AtLeast(0.1)
        .AtMost(100);
    flags.Add("baseline-arm", &options_.baseline_arm, "ARM",
              "the arm that others are compared with over training seeds; default: the baseline's");
    flags.Add(
        "axis", &options_.axis, "AXIS",
        "draw arms against tokens, parameters, trained-length, temperature or layer alone, also as CSV and LaTeX; "
        "default: those that vary, but not temperature");
    flags.Add("figures", &figures_, "DIR", "also write every figure there, as SVG and as CSV with its numbers");
    flags.Add("long", &options_.is_long, "LaTeX: every cell, mean and contrast a line, not a row a model");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags& global) override {
    const bool to_standard_output = options_.output_path == "-";
    if (global.format_given) {
      ASSIGN_OR_RETURN(options_.format, ParseReportFormat(global.format));
    } else if (!to_standard_output) {
      ASSIGN_OR_RETURN(options_.format, FormatOfPath(options_.output_path));
    }
    options_.margin = margin_ / 100;
    if (effective_share_.has_value() && effective_score_.has_value()) {
      return UsageError("--effective-share and --effective-score are two thresholds: give one.");
    }
    if (effective_share_.has_value()) options_.effective_share = *effective_share_ / 100;
    if (effective_score_.has_value()) options_.effective_score = *effective_score_ / 100;
    options_.with_max_t = adjust_.is_max_t();
    ASSIGN_OR_RETURN(options_.epoch_statistic, epochs_.Read());
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(const std::string name, JobName(job_));
      int64_t id = 0;
      if (absl::SimpleAtoi(absl::StripPrefix(name, "jobs/"), &id)) options_.job_id = id;
    }
    options_.candidates = SplitList(candidates_);
    if (!figures_.empty()) RETURN_IF_ERROR(WriteFigures(options_, figures_).status());
    if (to_standard_output) {
      ASSIGN_OR_RETURN(const std::string bytes, RenderReport(options_));
      console.out << bytes;
      return ExitCode::kDone;
    }
    RETURN_IF_ERROR(WriteReport(options_));
    console.out << options_.output_path << "\n";
    return ExitCode::kDone;
  }

 private:
  ReportOptions options_;
  std::string job_, candidates_, figures_;
  AdjustFlag adjust_;
  EpochsFlag epochs_;
  std::optional<double> effective_share_, effective_score_;
  double margin_ = 100 * stats::kDefaultMargin;
};

}  // namespace

constinit const Verb kReportVerb = {
    .name = "report",
    .group = "Results",
    .summary = "one self-contained page (or csv, json, markdown, latex, lm-eval, olmo-eval) of a job's results",
    .about =
        R"(The page has the verdict in one sentence, the score by context length for each task with its interval, the
difference by length, the full table, the length up to which each variant keeps its score, provenance, and samples with
their prompts around the gold evidence. It needs no network and no server. The file extension (.csv, .json, .md or
.txt, .tex) or --format selects another format. A job with one variant is a table of its scores. Variants of other
jobs, for example imported answers, are named with their job and compared on the questions in common. Everything is
computed from the current database; the same database gives the same bytes. An outcome is better, worse, equivalent
(within --margin) or undecided, by p adjusted over all candidates and lengths of the job, whichever are shown. Runs that
differ in their training seed alone ("training" in config.json) form an arm: the page compares arms over seeds and
contexts, and draws scores and losses against the numbers of tokens and of parameters, with equal-loss ratios. CSV and
JSON have both intervals of a difference: adjusted_low and adjusted_high, which the page shows except where few contexts
differ, and low and high of that test alone. LaTeX is a table for papers, one row per model and one column per length,
with the difference, its interval and a mark for the outcome; --long prints one line per cell. --format=lm-eval is a
results file of lm-evaluation-harness, and --format=olmo-eval the metrics.json of olmo-eval, of the baseline alone.)",
    .examples =
        "varifocal report --db=results.db --out=report.html\n"
        "varifocal report --db=results.db --out=- --format=csv\n"
        "varifocal report --db=results.db --out=table.tex --baseline=baseline --candidates=focal\n"
        "varifocal report --db=results.db --out=report.html --baseline=1/baseline --candidates=1/focal,7/other\n"
        "varifocal report --db=results.db --out=results_focal.json --format=lm-eval --baseline=focal\n"
        "varifocal report --db=results.db --out=loss.csv --baseline-arm=plain --axis=tokens",
    .formats = "html csv json markdown latex lm-eval olmo-eval",
    .make = &Make<WriteTheReport>,
};

}  // namespace varifocal::client
