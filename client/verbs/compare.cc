// varifocal compare: baseline against candidate, per task and context length, from a results database.
#include <algorithm>
#include <ostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "client/jobs.h"
#include "client/report/perplexity.h"
#include "client/rows.h"
#include "client/verb.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/compare.h"

namespace varifocal::client {
namespace {

std::string Mean(double value) { return absl::StrFormat("%.3f", value); }
std::string Signed(double value) { return absl::StrFormat("%+.3f", value); }
std::string Bounds(double low, double high) { return absl::StrFormat("[%+.3f, %+.3f]", low, high); }
std::string PValue(double p) { return p < 0.0001 ? "<0.0001" : absl::StrFormat("%.4f", p); }

// Both sides as the database has them.
struct Sides {
  db::JobVariant keys[2];  // baseline, candidate
  db::VariantRecord variants[2];

  std::string Imported() const {
    std::vector<std::string> imported;
    if (db::IsImported(variants[0])) imported.push_back("baseline");
    if (db::IsImported(variants[1])) imported.push_back("candidate");
    return absl::StrJoin(imported, " ");
  }

  // The shorter of the two trained lengths, 0 when neither states one: beyond it a row is extrapolated.
  int64_t TrainedLength() const {
    int64_t shortest = 0;
    for (const db::VariantRecord& variant : variants) {
      const int64_t trained = variant.model.trained_context_length.value_or(0);
      if (trained > 0) shortest = shortest == 0 ? trained : std::min(shortest, trained);
    }
    return shortest;
  }

  // "jobs/1", or "jobs/1 and jobs/7".
  std::string Jobs() const {
    const std::string first = absl::StrCat("jobs/", keys[0].job_id);
    return keys[1].job_id == keys[0].job_id ? first : absl::StrCat(first, " and jobs/", keys[1].job_id);
  }
};

absl::StatusOr<Sides> ReadSides(db::Reader& reader, const std::vector<db::JobVariant>& keys) {
  Sides sides;
  for (int i = 0; i < 2; ++i) {
    sides.keys[i] = keys[i];
    ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(keys[i].job_id));
    for (const db::VariantRecord& variant : variants) {
      if (variant.name == keys[i].name) sides.variants[i] = variant;
    }
  }
  return sides;
}

Json ComparisonJson(const stats::Comparison& row, const Sides& sides) {
  return {{"task", row.task},
          {"metric", row.metric},
          {"context_length", row.context_length},
          {"baseline", row.baseline},
          {"candidate", row.candidate},
          {"sample_count", row.sample_count},
          {"cluster_count", row.cluster_count},
          {"failed_count", row.failed_count},
          {"baseline_mean", row.baseline_mean},
          {"candidate_mean", row.candidate_mean},
          {"difference", row.difference},
          {"low", row.low},
          {"high", row.high},
          {"p_value", row.p_value},
          {"test", row.test},
          {"draws", row.draws},
          {"seed", row.seed},
          {"baseline_job", sides.keys[0].job_id},
          {"candidate_job", sides.keys[1].job_id},
          {"baseline_left_out_count", row.baseline_left_out_count},
          {"candidate_left_out_count", row.candidate_left_out_count},
          {"imported", sides.Imported()}};
}

std::string Marks(bool is_incomplete, int64_t failed_count, bool is_extrapolated) {
  std::vector<std::string> marks;
  if (is_incomplete) marks.push_back("incomplete");
  if (failed_count > 0) marks.push_back(absl::StrCat(failed_count, " failed"));
  if (is_extrapolated) marks.push_back("extrapolated");
  return absl::StrJoin(marks, ", ");
}

class Compare : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &db_, "PATH", "the results database; a daemon may be writing to it").Required();
    flags.Add("baseline", &baseline_, "A", "the variant that differences are measured from; JOB/A for one job's")
        .Required();
    flags.Add("candidate", &candidate_, "B", "the variant that may be better or worse; JOB/B for one job's").Required();
    flags.Add("job", &job_, "JOB", "the job of names without one, instead of the newest that fits");
    flags.Add("task", &task_, "NAME", "only this task");
    flags.Add("metric", &metric_, "NAME", "only this metric; as text, each task's primary one is shown unless given");
    flags.Add("all-metrics", &all_metrics_, "all metrics as text, too");
    flags.Add("draws", &draws_, "N", "sign assignments drawn where there are too many to try all")
        .AtLeast(1000)
        .AtMost(1e7);
    flags.Add("seed", &seed_, "N", "of those draws").AtLeast(0);
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    if (baseline_ == candidate_) {
      return UsageError(absl::StrCat("--baseline and --candidate are both ", baseline_, "."));
    }
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, db::Reader::Open(db_));
    std::optional<int64_t> job_id;
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(const std::string name, JobName(job_));
      (void)absl::SimpleAtoi(absl::StripPrefix(name, "jobs/"), &job_id.emplace());
    }
    ASSIGN_OR_RETURN(
        const std::vector<db::JobVariant> keys,
        db::FindJobVariants(*reader, job_id, {db::ParseJobVariant(baseline_), db::ParseJobVariant(candidate_)}));
    stats::CompareOptions options;
    options.sign_flip.draws = draws_;
    if (seed_.has_value()) options.sign_flip.seed = static_cast<uint64_t>(*seed_);
    ASSIGN_OR_RETURN(stats::ComparisonReport report, stats::CompareVariants(*reader, keys[0], keys[1], options));
    ASSIGN_OR_RETURN(const Sides sides, ReadSides(*reader, keys));
    std::vector<stats::Comparison> chosen;
    for (stats::Comparison& row : report.comparisons) {
      if (Wanted(row, console.format == Format::kText)) chosen.push_back(std::move(row));
    }
    if (chosen.empty()) {
      return absl::NotFoundError(
          absl::StrCat(sides.Jobs(), report.is_across_jobs ? " have" : " has", " no such task or metric to compare."));
    }
    if (console.format == Format::kText) {
      PrintForPeople(chosen, report, sides, console);
      return ExitCode::kDone;
    }
    Rows rows(console, {{.key = "task"},
                        {.key = "metric"},
                        {.key = "context_length"},
                        {.key = "baseline"},
                        {.key = "candidate"},
                        {.key = "sample_count"},
                        {.key = "cluster_count"},
                        {.key = "failed_count"},
                        {.key = "baseline_mean"},
                        {.key = "candidate_mean"},
                        {.key = "difference"},
                        {.key = "low"},
                        {.key = "high"},
                        {.key = "p_value"},
                        {.key = "test"},
                        {.key = "draws"},
                        {.key = "seed"},
                        {.key = "baseline_job"},
                        {.key = "candidate_job"},
                        {.key = "baseline_left_out_count"},
                        {.key = "candidate_left_out_count"},
                        {.key = "imported"}});
    for (const stats::Comparison& row : chosen) RETURN_IF_ERROR(rows.Add(ComparisonJson(row, sides)));
    RETURN_IF_ERROR(rows.Finish());
    return ExitCode::kDone;
  }

 private:
  bool Wanted(const stats::Comparison& row, bool for_people) const {
    if (!task_.empty() && row.task != task_) return false;
    if (!metric_.empty()) return row.metric == metric_;
    return !for_people || all_metrics_ || row.is_primary_metric || report::IsLogLikelihood(row.metric);
  }

  // What can be done about missing samples.
  static std::string Resume(const Sides& sides) {
    std::vector<std::string> commands;
    for (int i = 0; i < 2; ++i) {
      const std::string command = absl::StrCat("`varifocal resume jobs/", sides.keys[i].job_id, "`");
      if (!db::IsImported(sides.variants[i]) && (commands.empty() || commands[0] != command))
        commands.push_back(command);
    }
    std::string said;
    if (!commands.empty()) {
      said =
          absl::StrCat("; ", absl::StrJoin(commands, " and "), commands.size() > 1 ? " answer" : " answers", " them");
    }
    if (!sides.Imported().empty()) said += "; a prompt that has no imported answer stays failed";
    return said;
  }

  // How the answers came together, a sentence a line.
  static std::string PairingNotes(const stats::ComparisonReport& report, const Sides& sides) {
    std::string notes;
    for (int i = 0; i < 2; ++i) {
      if (!db::IsImported(sides.variants[i])) continue;
      absl::StrAppend(&notes, "Imported: the answers of ", sides.keys[i].name, " (jobs/", sides.keys[i].job_id,
                      ") came from another engine, in a file with SHA-256 ",
                      sides.variants[i].model.weights_sha256.substr(0, 12), "..\n");
    }
    if (!report.is_across_jobs) return notes;
    const std::string candidate = absl::StrCat("jobs/", sides.keys[1].job_id);
    absl::StrAppend(&notes, "Two jobs: ", WithThousands(report.paired_count), " questions were asked in both with ",
                    report.tokenizers_differ ? "the same settings and data" : "the same prompt", "; left out are ",
                    WithThousands(report.baseline_left_out_count), " of jobs/", sides.keys[0].job_id, " and ",
                    WithThousands(report.candidate_left_out_count), " of ", candidate, ".\n");
    if (!report.tasks_with_other_settings.empty()) {
      absl::StrAppend(&notes, "The jobs' specifications differ in ",
                      absl::StrJoin(report.tasks_with_other_settings, ", "),
                      ": the prompts are the same, what was done with the answers may not be.\n");
    }
    return notes;
  }

  void PrintForPeople(const std::vector<stats::Comparison>& rows, const stats::ComparisonReport& report,
                      const Sides& sides, Console& console) const {
    const int64_t trained_length = sides.TrainedLength();
    console.out << Styled(console, Style::kBold,
                          absl::StrCat(rows.front().candidate, " against ", rows.front().baseline))
                << " (" << sides.Jobs() << "); differences are candidate minus baseline, intervals 95 %\n\n";
    std::vector<std::vector<std::string>> cells;
    bool has_several_metrics = false;
    for (const stats::Comparison& row : rows)
      has_several_metrics |= !row.is_primary_metric && (all_metrics_ || !report::IsLogLikelihood(row.metric));
    for (const stats::Comparison& row : rows) {
      if (report::IsLogLikelihood(row.metric)) {  // people read a perplexity, and the ratio of two
        const report::PerplexityRow perplexity = report::PerplexityOf(row);
        cells.push_back(
            {absl::StrCat(row.task, " perplexity"), WithThousands(row.context_length), perplexity.baseline,
             perplexity.candidate, perplexity.ratio, absl::StrCat("[", perplexity.low, ", ", perplexity.high, "]"),
             PValue(row.p_value), "", absl::StrCat(row.sample_count, "/", row.cluster_count),
             Marks(row.is_incomplete, row.failed_count, trained_length > 0 && row.context_length > trained_length)});
        if (!all_metrics_ && metric_.empty()) continue;
      }
      cells.push_back(
          {has_several_metrics ? absl::StrCat(row.task, " ", row.metric) : row.task, WithThousands(row.context_length),
           Mean(row.baseline_mean), Mean(row.candidate_mean), Signed(row.difference), Bounds(row.low, row.high),
           PValue(row.p_value), "", absl::StrCat(row.sample_count, "/", row.cluster_count),
           Marks(row.is_incomplete, row.failed_count, trained_length > 0 && row.context_length > trained_length)});
    }
    if (task_.empty() && metric_.empty()) {
      for (const stats::SuiteComparison& row : report.suite) {
        cells.push_back(
            {"all tasks", WithThousands(row.context_length), Mean(row.baseline_mean), Mean(row.candidate_mean),
             Signed(row.difference), Bounds(row.low, row.high), PValue(row.p_value), PValue(row.p_holm),
             absl::StrCat(row.sample_count, "/", row.cluster_count),
             Marks(row.is_incomplete, row.failed_count, trained_length > 0 && row.context_length > trained_length)});
      }
    }
    console.out << AlignedTable(
        console,
        {"task", "length", "baseline", "candidate", "difference", "interval", "p", "p (Holm)", "n/clusters", ""},
        {false, true, true, true, true, true, true, true, true, false}, cells);
    std::string notes = PairingNotes(report, sides);
    for (const stats::LengthContrast& contrast : report.contrasts) {
      if (!contrast.task.empty()) continue;
      absl::StrAppend(&notes, "From ", WithThousands(contrast.short_length), " to ",
                      WithThousands(contrast.long_length), " tokens the difference changes by ",
                      Signed(contrast.contrast), " ", Bounds(contrast.low, contrast.high), ", p ",
                      PValue(contrast.p_value), ", on the same questions.\n");
    }
    absl::StrAppend(
        &notes,
        "Only the rows \"all tasks\" were declared beforehand (Holm over lengths); read the others as exploratory.\n");
    if (report.is_incomplete) {
      absl::StrAppend(&notes, "Incomplete: samples are missing or failed (failed ones count as the worst value)",
                      Resume(sides), ".\n");
    }
    if (report.tokenizers_differ) {
      absl::StrAppend(
          &notes,
          "The two models have different tokenizers: they were asked the same questions, not the same prompts.\n");
    }
    const bool is_extrapolated = std::any_of(rows.begin(), rows.end(), [&](const stats::Comparison& row) {
      return trained_length > 0 && row.context_length > trained_length;
    });
    if (is_extrapolated) {
      absl::StrAppend(&notes, "Extrapolated: longer than the ", WithThousands(trained_length),
                      " tokens of training.\n");
    }
    console.out << "\n" << notes;
  }

  std::string db_, baseline_, candidate_, job_, task_, metric_;
  bool all_metrics_ = false;
  int64_t draws_ = 20'000;
  std::optional<int64_t> seed_;
};

}  // namespace

extern const Verb kCompareVerb;
constinit const Verb kCompareVerb = {
    .name = "compare",
    .group = "Results",
    .summary = "two variants, per task and length: difference, interval, p",
    .about =
        "Reads the database, also while a job runs, and computes everything anew. Both variants got the same "
        "questions, so\n"
        "differences are paired; questions on one context are one cluster, and interval (t) and p (sign flips) are "
        "over\n"
        "clusters. A failed sample counts as the worst value and makes the row incomplete. docs/measuring.md says "
        "why.\n"
        "Variants of two jobs (imported answers are a job of their own) are compared on the questions that both were "
        "asked\n"
        "with the same prompt; the others are left out and counted. JOB/NAME, such as 7/other, says which job's is "
        "meant.\n"
        "JSON and CSV: one row for every task, metric and length, all digits.",
    .examples =
        "varifocal compare --db=results.db --baseline=baseline --candidate=focal\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=baseline@t=0.7 --format=csv\n"
        "varifocal compare --db=results.db --baseline=1/baseline --candidate=7/other",
    .formats = "text json jsonl csv",
    .make = &Make<Compare>,
};

}  // namespace varifocal::client
