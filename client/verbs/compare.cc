// varifocal compare: baseline against candidate, per task and context length, from a results database.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/adjust_flag.h"
#include "client/console.h"
#include "client/epochs_flag.h"
#include "client/jobs.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/group_table.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/thinking_table.h"
#include "client/report/page/template.h"
#include "client/rows.h"
#include "client/verb.h"
#include "client/verbs/compare_arms.h"
#include "client/verbs/compare_text.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/family.h"
#include "db/stats/grouped_pairs.h"
#include "wire/resource_names.h"

namespace varifocal::client {
namespace {

absl::StatusOr<ComparedSides> ReadSides(db::Reader& reader, const std::vector<db::JobVariant>& keys, bool is_newest) {
  ComparedSides sides;
  for (int i = 0; i < 2; ++i) {
    sides.keys[i] = keys[i];
    ASSIGN_OR_RETURN(const std::vector<db::VariantRecord> variants, reader.Variants(keys[i].job_id));
    for (const db::VariantRecord& variant : variants) {
      if (variant.name == keys[i].name) sides.variants[i] = variant;
    }
  }
  if (is_newest) {
    ASSIGN_OR_RETURN(const db::JobRow job, reader.Job(keys[0].job_id));
    ASSIGN_OR_RETURN(const std::optional<db::JobRow> complete,
                     db::CompleteJobBefore(reader, job, {keys[0].name, keys[1].name}));
    if (complete.has_value()) sides.complete_job = complete->job_id;
  }
  return sides;
}

class Compare : public Command {
 public:
  void AddFlags(FlagSet& flags) override {
    flags.Add("db", &db_, "PATH", "the results database; a daemon may be writing to it").Required();
    flags.Add("baseline", &baseline_, "A", "the reference variant of the differences; JOB/A for one job's");
    flags.Add("candidate", &candidate_, "B", "the variant to compare with it; JOB/B for one job's");
    flags.Add("baseline-arm", &baseline_arm_, "A",
              "instead of --baseline: an arm, whose runs differ in their training seed");
    flags.Add("candidate-arm", &candidate_arm_, "B", "the arm to compare with it, over seeds and contexts");
    flags.Add("job", &job_, "JOB", "the job of names without one, instead of the newest that fits");
    flags.Add("task", &task_, "NAME", "only this task");
    flags.Add("metric", &metric_, "NAME",
              "this metric as the primary one, and no other; unless given, text shows each task's primary one and "
              "log-likelihoods");
    flags.Add("all-metrics", &all_metrics_, "all metrics as text, too");
    flags.Add("draws", &draws_, "N", "random sign assignments where there are too many for an exact test")
        .AtLeast(1000)
        .AtMost(1e7);
    flags.Add("seed", &seed_, "N", "of those draws").AtLeast(0);
    flags.Add("margin", &margin_, "POINTS", "differences within it count as equivalent, in percent of a metric's span")
        .AtLeast(0.01)
        .AtMost(50);
    epochs_.AddTo(flags);
    adjust_.AddTo(flags);
    flags.Add(
        "gate", &is_gate_,
        "exit with 1 when the candidate is worse: in a mean over tasks, or with --task or --metric in a row shown; "
        "an unfinished job, and failures that decide, fail too");
  }

  absl::StatusOr<ExitCode> Run(Console& console, const GlobalFlags&) override {
    if (!baseline_arm_.empty() || !candidate_arm_.empty()) return CompareTheArms(console);
    if (baseline_.empty() || candidate_.empty())
      return UsageError("--baseline=A and --candidate=B are missing, or --baseline-arm=A and --candidate-arm=B.");
    if (baseline_ == candidate_) return UsageError("--baseline and --candidate are both ", baseline_, ".");
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, OpenReader());
    if (!metric_.empty()) {
      // A name that no job has is refused below, with a similar one.
      const absl::Status primary = reader->SetPrimaryMetric(metric_);
      if (!primary.ok() && !absl::IsNotFound(primary)) return primary;
    }
    std::optional<int64_t> job_id;
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(job_id, JobNumber(job_));
    }
    const std::vector<db::JobVariant> named = {db::ParseJobVariant(baseline_), db::ParseJobVariant(candidate_)};
    ASSIGN_OR_RETURN(const std::vector<db::JobVariant> keys, db::FindJobVariants(*reader, job_id, named));
    const bool is_newest =
        !job_id.has_value() && named[0].job_id == 0 && named[1].job_id == 0 && keys[0].job_id == keys[1].job_id;
    stats::CompareOptions options;
    options.sign_flip.draws = draws_;
    if (seed_.has_value()) options.sign_flip.seed = *seed_;
    options.margin = margin_ / 100;
    options.with_max_t = adjust_.is_max_t();
    std::array<db::JobEpochs, 2> epochs;
    for (size_t side = 0; side < epochs.size(); ++side) {
      ASSIGN_OR_RETURN(epochs[side], reader->Epochs(keys[side].job_id));
    }
    ASSIGN_OR_RETURN(stats::TestedLengths tested, stats::TestedLengths::Read(*reader, keys[0].job_id));
    options.source = std::make_shared<stats::PairSource>();
    options.source->tested[keys[0].job_id] = tested;
    if (keys[1].job_id != keys[0].job_id) {
      ASSIGN_OR_RETURN(const stats::TestedLengths other, stats::TestedLengths::Read(*reader, keys[1].job_id));
      tested.AddMissing(other);
    }
    ASSIGN_OR_RETURN(std::vector<stats::CandidateReport> family,
                     stats::CompareFamily(*reader, keys[0], {keys[1]}, options));
    if (!family[0].problem.empty()) {
      ASSIGN_OR_RETURN(const std::string elsewhere, JobsWithBoth(*reader, keys, is_newest));
      return FailedPrecondition(family[0].problem, elsewhere);
    }
    stats::ComparisonReport report = std::move(family[0].report);
    ASSIGN_OR_RETURN(const ComparedSides sides, ReadSides(*reader, keys, is_newest));
    report::AnswerTable answers;
    const std::string candidate_label = db::JobVariantLabel(keys[1], keys[0].job_id);
    report::GroupTable groups;
    report::ThinkingTable thinking;
    std::map<int64_t, std::map<std::string, std::string>> labels;  // by job
    labels[keys[0].job_id][keys[0].name] = keys[0].name;
    labels[keys[1].job_id][keys[1].name] = candidate_label;
    for (const auto& [job_id, of_job] : labels) {
      RETURN_IF_ERROR(answers.Read(*reader, job_id, of_job, tested));
      RETURN_IF_ERROR(groups.Read(*reader, job_id, of_job, tested));
      RETURN_IF_ERROR(thinking.Read(*reader, job_id, of_job, tested));
    }
    const report::ResultContext context{keys[0].job_id,
                                        keys[1].job_id,
                                        db::IsImported(sides.variants[0]),
                                        db::IsImported(sides.variants[1]),
                                        &answers,
                                        &groups,
                                        &tested,
                                        &thinking,
                                        epochs[0],
                                        epochs[1]};
    RETURN_IF_ERROR(CheckFilters(report));
    std::erase_if(report.comparisons,
                  [&](const stats::Comparison& row) { return !Wanted(row, console.format == Format::kText); });
    if (report.comparisons.empty()) {
      return NotFound(sides.Jobs(), report.is_across_jobs ? " have" : " has", " no such task or metric to compare.");
    }
    if (IsFiltered()) {
      if (!task_.empty()) report.suite.clear();
      std::erase_if(report.contrasts, [&](const stats::LengthContrast& row) {
        if (row.task.empty()) return !task_.empty();
        return (!task_.empty() && row.task != task_) || (!metric_.empty() && row.metric != metric_);
      });
    }
    if (console.format == Format::kText) {
      PrintComparison(report, sides, context, {metric_, all_metrics_, margin_, adjust_.is_max_t()}, console);
    } else {
      std::vector<Column> columns;
      for (const std::string& key : report::ResultKeys()) columns.push_back({.key = key});
      Rows rows(console, std::move(columns));
      for (const auto& row : report.comparisons) RETURN_IF_ERROR(rows.Add(report::ResultJson(row, context)));
      for (const auto& row : report.suite) RETURN_IF_ERROR(rows.Add(report::ResultJson(row, context)));
      for (const auto& row : report.contrasts) RETURN_IF_ERROR(rows.Add(report::ResultJson(row, context)));
      RETURN_IF_ERROR(rows.Finish());
    }
    return is_gate_ ? Gate(report, tested, console) : absl::StatusOr<ExitCode>(ExitCode::kDone);
  }

 private:
  // "; jobs/1 has answers: --job=1" where the newest job was read because none was named; else "".
  static absl::StatusOr<std::string> JobsWithBoth(db::Reader& reader, const std::vector<db::JobVariant>& keys,
                                                  bool is_newest) {
    if (!is_newest) return "";
    ASSIGN_OR_RETURN(const std::optional<db::JobRow> job,
                     db::EarlierJob(reader, keys[0].job_id, {keys[0].name, keys[1].name},
                                    [](const db::JobRow& earlier) { return earlier.answered_count > 0; }));
    if (!job.has_value()) return "";
    return absl::StrCat("; ", JobResource(job->job_id), " has answers: --job=", job->job_id);
  }

  absl::StatusOr<std::unique_ptr<db::Reader>> OpenReader() const {
    ASSIGN_OR_RETURN(const db::EpochStatistic statistic, epochs_.Read());
    ASSIGN_OR_RETURN(std::unique_ptr<db::Reader> reader, db::Reader::Open(db_));
    RETURN_IF_ERROR(reader->HoldSnapshot());
    reader->SetEpochStatistic(statistic);
    return reader;
  }

  absl::StatusOr<ExitCode> CompareTheArms(Console& console) const {
    if (baseline_arm_.empty() || candidate_arm_.empty())
      return UsageError("--baseline-arm=A and --candidate-arm=B belong together.");
    if (!baseline_.empty() || !candidate_.empty())
      return UsageError("--baseline-arm and --candidate-arm are given instead of --baseline and --candidate.");
    if (adjust_.is_max_t()) return UsageError("--adjust=max-t is for variants; arms are adjusted by holm.");
    ASSIGN_OR_RETURN(const std::unique_ptr<db::Reader> reader, OpenReader());
    ArmsRequest request{{}, baseline_arm_, candidate_arm_, task_, metric_, all_metrics_, is_gate_, {}};
    if (!job_.empty()) {
      ASSIGN_OR_RETURN(request.job_id, JobNumber(job_));
    }
    request.options.sign_flip.draws = draws_;
    if (seed_.has_value()) request.options.sign_flip.seed = *seed_;
    request.options.margin = margin_ / 100;
    return CompareArms(*reader, request, console);
  }

  bool Wanted(const stats::Comparison& row, bool for_people) const {
    if (!task_.empty() && row.task != task_) return false;
    if (!metric_.empty()) return row.metric == metric_;
    return !for_people || all_metrics_ || row.is_primary_metric || report::IsLogLikelihood(row.metric) ||
           row.metric == "gold/log_likelihood";
  }

  // Checks that the --task and --metric names exist.
  absl::Status CheckFilters(const stats::ComparisonReport& report) const {
    std::vector<std::string> tasks, metrics;
    for (const stats::Comparison& row : report.comparisons) {
      if (std::find(tasks.begin(), tasks.end(), row.task) == tasks.end()) tasks.push_back(row.task);
      if (std::find(metrics.begin(), metrics.end(), row.metric) == metrics.end()) metrics.push_back(row.metric);
    }
    if (!task_.empty() && std::find(tasks.begin(), tasks.end(), task_) == tasks.end())
      return NotFound("the job compares no task \"", task_, "\"", DidYouMean(task_, tasks));
    if (!metric_.empty() && std::find(metrics.begin(), metrics.end(), metric_) == metrics.end())
      return NotFound("the job has no metric \"", metric_, "\"", DidYouMean(metric_, metrics));
    return absl::OkStatus();
  }

  bool IsFiltered() const { return !task_.empty() || !metric_.empty(); }

  // Whether any deciding row is worse; an incomplete one is an error.
  absl::StatusOr<ExitCode> Gate(const stats::ComparisonReport& report, const stats::TestedLengths& tested,
                                Console& console) const {
    std::vector<std::pair<const stats::Inference*, std::string>> rows;
    for (const stats::SuiteComparison& row : report.suite)
      rows.push_back({&row, absl::StrCat("all tasks at ", report::ExactLengthLabel(tested, "", row.context_length))});
    for (const stats::Comparison& row : report.comparisons) {
      if (IsFiltered())
        rows.push_back(
            {&row, absl::StrCat(row.task, " at ", report::ExactLengthLabel(tested, row.task, row.context_length))});
    }
    if (rows.empty()) {
      return FailedPrecondition("--gate has no rows to check: no task's metric has a worst and best value");
    }
    std::vector<std::string> worse;
    for (const auto& [row, name] : rows) {
      if (row->outcome == stats::Outcome::kWorse) worse.push_back(name);
    }
    if (!worse.empty()) {
      console.err << report::Sentence("gate_worse", {{"list", absl::StrJoin(worse, ", ")}}) << "\n";
      return ExitCode::kFailed;
    }
    for (const auto& [row, name] : rows) {
      if (row->is_unfinished) return FailedPrecondition("--gate cannot decide: ", name, " is unfinished");
      if (row->failures_decide) return FailedPrecondition("--gate cannot decide: ", report::kFailuresDecide, " ", name);
    }
    return ExitCode::kDone;
  }

  std::string db_, baseline_, candidate_, baseline_arm_, candidate_arm_, job_, task_, metric_;
  AdjustFlag adjust_;
  EpochsFlag epochs_;
  bool all_metrics_ = false, is_gate_ = false;
  double margin_ = 100 * stats::kDefaultMargin;
  int64_t draws_ = 20'000;
  std::optional<int64_t> seed_;
};

}  // namespace

constinit const Verb kCompareVerb = {
    .name = "compare",
    .group = "Results",
    .summary = "compare two variants per task and length: difference, interval, p",
    .about =
        R"(Reads the database, also while a job runs, and recomputes everything. Both variants got the same questions, so
differences are paired; questions on one context are one cluster, and interval and p are by t over clusters, with
sign flips as a check. The relative gain is candidate / baseline - 1. The outcome is better, worse, equivalent or
undecided, by p adjusted over all candidates and lengths of the job. A failed sample counts as the worst value and makes
the row incomplete; where the outcome would be another one without the failed questions it is undecided. See
docs/measuring.md.
Variants of two jobs (imported answers are a job of their own) are compared on the questions that both were asked
with the same prompt; the others are left out and counted. JOB/NAME, such as 7/other, selects the job.
Runs that differ in their training seed alone ("training" in config.json) form an arm. --baseline-arm and --candidate-arm
compare two arms of a job: the interval is over seeds and contexts, paired by seed where both arms have it, for every
number of tokens and parameters that both arms have; below it, the factor of tokens or parameters at which the baseline
arm reaches the candidate's values.
JSON and CSV: a row for every cell, mean over tasks, contrast and slope over the lengths, all digits.)",
    .examples =
        "varifocal compare --db=results.db --baseline=baseline --candidate=focal\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=baseline@t=0.7 --format=csv\n"
        "varifocal compare --db=results.db --baseline=baseline --candidate=focal --gate\n"
        "varifocal compare --db=results.db --baseline=1/baseline --candidate=7/other\n"
        "varifocal compare --db=results.db --baseline-arm=plain --candidate-arm=focal",
    .formats = "text json jsonl csv",
    .make = &Make<Compare>,
};

}  // namespace varifocal::client
