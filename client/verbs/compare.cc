// varifocal compare: baseline against candidate, per task and context length, from a results database.
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "base/suggest.h"
#include "client/adjust_flag.h"
#include "client/console.h"
#include "client/epochs_flag.h"
#include "client/jobs.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/answers_behind.h"
#include "client/report/data/epochs_note.h"
#include "client/report/data/group_table.h"
#include "client/report/data/length_label.h"
#include "client/report/data/perplexity.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/data/thinking_table.h"
#include "client/report/page/brief.h"
#include "client/report/page/contrast_table.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "client/rows.h"
#include "client/verb.h"
#include "client/verbs/compare_arms.h"
#include "db/answer_kinds.h"
#include "db/pairing.h"
#include "db/reader.h"
#include "db/stats/family.h"
#include "db/stats/grouped_pairs.h"
#include "db/stats/labels.h"
#include "wire/resource_names.h"

namespace varifocal::client {
namespace {

std::string Mean(double value) { return absl::StrFormat("%.3f", report::ForRounding(value)); }
std::string Signed(double value) { return absl::StrFormat("%+.3f", report::ForRounding(value)); }
std::string Bounds(double low, double high) { return absl::StrCat("[", Signed(low), ", ", Signed(high), "]"); }
// "+12.3 % [+1.0, +25.1]"; the range only where the difference has one.
template <typename Row>
std::string Relative(const Row& row) {
  if (!row.relative.has_value()) return "";
  const auto percent = [](double share) { return absl::StrFormat("%+.1f", report::ForRounding(100 * share)); };
  return absl::StrCat(
      percent(row.relative.gain), " %",
      row.HasInterval() ? absl::StrCat(" [", percent(row.relative.low), ", ", percent(row.relative.high), "]") : "");
}

// Both variants from the database.
struct Sides {
  db::JobVariant keys[2];  // baseline, candidate
  db::VariantRecord variants[2];
  std::optional<int64_t> complete_job;  // an earlier one, where none was named and the newest lacks answers

  std::string Imported() const {
    std::vector<std::string> imported;
    if (db::IsImported(variants[0])) imported.push_back("baseline");
    if (db::IsImported(variants[1])) imported.push_back("candidate");
    return absl::StrJoin(imported, " ");
  }

  // "jobs/1", or "jobs/1 and jobs/7".
  std::string Jobs() const {
    const std::string first = absl::StrCat("jobs/", keys[0].job_id);
    return keys[1].job_id == keys[0].job_id ? first : absl::StrCat(first, " and jobs/", keys[1].job_id);
  }
};

absl::StatusOr<Sides> ReadSides(db::Reader& reader, const std::vector<db::JobVariant>& keys, bool is_newest) {
  Sides sides;
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

// Labels that the text of a row has in another form: the name of the metric, the number of truncated prompts.
bool IsSaidOtherwise(const std::string& label) { return label == "secondary" || label == "truncated"; }

// The notes at the end of a text row.
std::string Marks(std::vector<std::string> labels, int64_t failed_count, const std::string& counts,
                  const std::string& note) {
  std::erase_if(labels, IsSaidOtherwise);
  if (failed_count > 0) labels.push_back(absl::StrCat(failed_count, " failed"));
  if (!counts.empty()) labels.push_back(counts);
  if (!note.empty()) labels.push_back(note);
  return absl::StrJoin(labels, ", ");
}

// The adjusted interval.
std::string Bounds(const stats::Inference& row) {
  return row.HasInterval() ? Bounds(row.adjusted_low, row.adjusted_high) : "";
}

std::string Detectable(const stats::Inference& row) {
  if (!row.HasInterval()) return "";
  return row.detectable_difference.has_value() ? Mean(*row.detectable_difference) : "none";
}

// Why a row has no verdict, a weak one or no interval.
template <typename Row>
std::string Note(const Row& row) {
  const std::string design = report::DesignNote(row);
  return design.empty() && row.is_zero_everywhere ? report::UntestedNote(row) : design;
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
    if (baseline_ == candidate_) {
      return UsageError(absl::StrCat("--baseline and --candidate are both ", baseline_, "."));
    }
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
      return absl::FailedPreconditionError(absl::StrCat(family[0].problem, elsewhere));
    }
    stats::ComparisonReport report = std::move(family[0].report);
    ASSIGN_OR_RETURN(const Sides sides, ReadSides(*reader, keys, is_newest));
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
      return absl::NotFoundError(
          absl::StrCat(sides.Jobs(), report.is_across_jobs ? " have" : " has", " no such task or metric to compare."));
    }
    if (IsFiltered()) {
      if (!task_.empty()) report.suite.clear();
      std::erase_if(report.contrasts, [&](const stats::LengthContrast& row) {
        if (row.task.empty()) return !task_.empty();
        return (!task_.empty() && row.task != task_) || (!metric_.empty() && row.metric != metric_);
      });
    }
    if (console.format == Format::kText) {
      PrintForPeople(report, sides, context, console);
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
      return absl::NotFoundError(absl::StrCat("the job compares no task \"", task_, "\"", DidYouMean(task_, tasks)));
    if (!metric_.empty() && std::find(metrics.begin(), metrics.end(), metric_) == metrics.end())
      return absl::NotFoundError(absl::StrCat("the job has no metric \"", metric_, "\"", DidYouMean(metric_, metrics)));
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
      return absl::FailedPreconditionError("--gate has no rows to check: no task's metric has a worst and best value");
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
      if (row->is_unfinished)
        return absl::FailedPreconditionError(absl::StrCat("--gate cannot decide: ", name, " is unfinished"));
      if (row->failures_decide)
        return absl::FailedPreconditionError(absl::StrCat("--gate cannot decide: failures decide ", name));
    }
    return ExitCode::kDone;
  }

  // Of the two jobs, or of the one.
  static Json EpochNotes(const report::ResultContext& context) {
    const bool is_one_job = context.baseline_job == context.candidate_job;
    Json notes = Json::array();
    const auto add = [&](int64_t job, const db::JobEpochs& epochs) {
      Json note = report::EpochsNote(epochs, is_one_job ? "" : absl::StrCat("Job ", job, ": "));
      if (!note.is_null()) notes.push_back(std::move(note));
    };
    add(context.baseline_job, context.baseline_epochs);
    if (!is_one_job) add(context.candidate_job, context.candidate_epochs);
    return notes;
  }

  // Advice on missing samples.
  static std::string Resume(const Sides& sides) {
    std::vector<std::string> commands;
    for (int i = 0; i < 2; ++i) {
      const std::string command = absl::StrCat("`varifocal resume jobs/", sides.keys[i].job_id, "`");
      if (!db::IsImported(sides.variants[i]) && (commands.empty() || commands[0] != command))
        commands.push_back(command);
    }
    std::string remedy;
    if (!commands.empty()) {
      remedy =
          absl::StrCat("; ", absl::StrJoin(commands, " and "), commands.size() > 1 ? " ask" : " asks", " them again");
    }
    if (!sides.Imported().empty()) remedy += "; a prompt that has no imported answer stays failed";
    return remedy;
  }

  // The origin of the answers, for templates/compare_notes.txt.
  static void AddPairing(const stats::ComparisonReport& report, const Sides& sides, Json& notes) {
    for (int i = 0; i < 2; ++i) {
      if (!db::IsImported(sides.variants[i])) continue;
      notes["imported"].push_back({{"variant", absl::StrCat(sides.keys[i].name, " (jobs/", sides.keys[i].job_id, ")")},
                                   {"sha256", report::ShortHash(sides.variants[i].model.weights_sha256)}});
    }
    if (!report.is_across_jobs) return;
    notes["across_jobs"] = {{"paired_count", WithThousands(report.paired_count)},
                            {"is_one", report.paired_count == 1},
                            {"baseline_left_out_count", WithThousands(report.baseline_left_out_count)},
                            {"candidate_left_out_count", WithThousands(report.candidate_left_out_count)},
                            {"baseline_job", sides.keys[0].job_id},
                            {"candidate_job", sides.keys[1].job_id},
                            {"other_settings", absl::StrJoin(report.tasks_with_other_settings, ", ")}};
  }

  // How the difference of the means over tasks depends on the length.
  static Json Contrasts(const stats::ComparisonReport& report, const report::ResultContext& context) {
    Json contrasts = Json::array();
    for (const stats::LengthContrast& contrast : report.contrasts) {
      if (!contrast.task.empty() || !contrast.HasInterval()) continue;
      std::vector<std::string> between;
      for (const auto& [length, row] : report::UnsteadyRows(report, contrast)) {
        between.push_back(absl::StrCat("at ", report::ExactLengthLabel(*context.tested, "", length),
                                       " the difference is ", Signed(row->difference), " (", report::OutcomeLabel(*row),
                                       ")"));
      }
      contrasts.push_back(
          {{"is_slope", contrast.kind == stats::LengthContrast::Kind::kSlope},
           {"short", report::ExactLengthLabel(*context.tested, "", contrast.short_length)},
           {"long", report::ExactLengthLabel(*context.tested, "", contrast.long_length)},
           {"difference", Signed(contrast.difference)},
           {"bounds", Bounds(contrast.adjusted_low, contrast.adjusted_high)},
           {"p_value", PText(contrast.p_value)},
           {"p_adjusted", PText(contrast.p_adjusted)},
           {"test_count", contrast.test_count},
           {"is_one", contrast.test_count == 1},
           {"between", absl::StrJoin(between, ", ")},
           {"rests", report::RestsNote(contrast, report::SidesOf(contrast, *context.answers, *context.tested), 1, 3)}});
    }
    return contrasts;
  }

  static void PrintGroups(const report::GroupTable& groups, const std::vector<std::string>& variants,
                          Console& console) {
    const std::vector<std::vector<std::string>> rows = groups.Rows(variants);
    if (rows.empty()) return;
    std::vector<std::string> titles = report::GroupTable::Titles();
    for (std::string& title : titles) absl::AsciiStrToLower(&title);
    console.out << "\nToken groups:\n\n"
                << AlignedTable(console, titles, {false, false, true, false, false, true, true, true, true}, rows);
  }

  static void PrintThinking(const report::ThinkingTable& thinking, const std::vector<std::string>& variants,
                            Console& console) {
    const std::vector<std::vector<std::string>> rows = thinking.Rows(variants);
    if (rows.empty()) return;
    std::vector<std::string> titles = report::ThinkingTable::Titles();
    for (std::string& title : titles) absl::AsciiStrToLower(&title);
    console.out << "\nThinking:\n\n" << AlignedTable(console, titles, {false, true, true, true, true, true}, rows);
  }

  void PrintForPeople(const stats::ComparisonReport& report, const Sides& sides, const report::ResultContext& context,
                      Console& console) const {
    const std::vector<stats::Comparison>& rows = report.comparisons;
    console.out << Styled(console, Style::kBold,
                          absl::StrCat(rows.front().candidate, " against ", rows.front().baseline))
                << (metric_.empty() ? "" : absl::StrCat(" by ", metric_)) << " (" << sides.Jobs()
                << "); differences are candidate minus baseline, intervals 95 %\n\n";
    if (report::IsSameFunction(sides.variants[0], sides.variants[1])) {
      console.out << report::Sentence("same_model",
                                      {{"baseline", rows.front().baseline}, {"candidate", rows.front().candidate}})
                  << "\n\n";
    }
    std::vector<std::vector<std::string>> cells;
    bool has_several_metrics = false, is_near_zero = false, has_no_detectable = false;
    bool is_small = false;
    bool has_worst_value = false, has_none = false;  // a metric with a margin has both ends
    std::set<std::string> labels_seen;
    db::AnswerCounts seen;
    for (const stats::Comparison& row : rows) (row.margin.has_value() ? has_worst_value : has_none) = true;
    for (const stats::Comparison& row : rows)
      has_several_metrics |= !row.is_primary_metric && (all_metrics_ || !report::IsLogLikelihood(row.metric));
    const auto add = [&](const std::string& name, const auto& row, const std::string& task) {
      std::vector<std::string> counts;
      for (const std::string& variant : {row.baseline, row.candidate}) {
        const db::AnswerCounts answers = context.answers->Of(variant, task, row.context_length);
        for (const db::AnswerKind& kind : db::kAnswerKinds) seen.*kind.count += answers.*kind.count;
        const std::string note = report::CountsNote(answers, /*with_failed=*/false);
        if (!note.empty()) counts.push_back(absl::StrCat(variant, " ", note));
      }
      const std::vector<std::string> labels = report::RowLabels(row, context);
      labels_seen.insert(labels.begin(), labels.end());
      has_no_detectable |= Detectable(row) == "none";
      is_small |= row.IsWithinMargin();
      is_near_zero |= row.relative.problem == stats::RelativeGainProblem::kBaselineNearZero;
      cells.push_back({name, report::ExactLengthLabel(*context.tested, task, row.context_length),
                       Mean(row.baseline_mean), Mean(row.candidate_mean), Signed(row.difference), Bounds(row),
                       Relative(row), row.can_infer ? PText(row.p_value) : "",
                       row.can_infer ? PText(row.p_adjusted) : "", report::OutcomeLabel(row), Detectable(row),
                       absl::StrCat(row.sample_count, "/", row.cluster_count),
                       Marks(labels, row.failed_count, absl::StrJoin(counts, ", "), Note(row))});
    };
    for (const stats::Comparison& row : rows) {
      if (report::IsLogLikelihood(row.metric)) {  // text output shows a perplexity, and the ratio of two
        const report::PerplexityRow perplexity = report::PerplexityOf(row);
        const std::vector<std::string> labels = report::RowLabels(row, context);
        labels_seen.insert(labels.begin(), labels.end());
        cells.push_back({absl::StrCat(row.task, " perplexity"),
                         report::ExactLengthLabel(*context.tested, row.task, row.context_length), perplexity.baseline,
                         perplexity.candidate, perplexity.ratio,
                         row.can_infer ? absl::StrCat("[", perplexity.low, ", ", perplexity.high, "]") : "", "",
                         row.can_infer ? PText(row.p_value) : "", row.can_infer ? PText(row.p_adjusted) : "",
                         report::OutcomeLabel(row), "", absl::StrCat(row.sample_count, "/", row.cluster_count),
                         Marks(labels, row.failed_count, "", report::DesignNote(row))});
        if (!all_metrics_ && metric_.empty()) continue;
      }
      add(has_several_metrics ? absl::StrCat(row.task, " ", row.metric) : row.task, row, row.task);
    }
    for (const stats::SuiteComparison& row : report.suite) add("all tasks", row, "");
    const std::string nothing_to_tell =
        report::NothingToTell({&report}, *context.answers, context.baseline_epochs.statistic);
    if (!nothing_to_tell.empty()) console.out << nothing_to_tell << "\n\n";
    console.out << AlignedTable(console,
                                {"task", "length", "baseline", "candidate", "difference", "interval", "relative gain",
                                 "p", "p adjusted", "outcome", "detectable", "n/clusters", ""},
                                {false, true, true, true, true, true, true, true, true, false, true, true, false},
                                cells);
    PrintGroups(*context.groups, {rows.front().baseline, rows.front().candidate}, console);
    PrintThinking(*context.thinking, {rows.front().baseline, rows.front().candidate}, console);
    const bool is_max_t = !report.suite.empty() && report.suite.front().is_max_t;
    const auto counted = [](int64_t count, const char* one, const char* several) {
      return absl::StrCat(count, Plural(count, one, several));
    };
    Json notes = {
        {"epochs", EpochNotes(context)},
        {"prompt_lengths", report::LengthNotes(*context.tested)},
        {"contrasts", Contrasts(report, context)},
        {"is_max_t", is_max_t},
        {"cells", rows.front().is_primary_metric ? counted(rows.front().test_count, " cell", " cells")
                                                 : counted(rows.front().test_count, " other cell", " other cells")},
        {"has_margin", has_worst_value},
        {"margin", absl::StrCat(NumberText(margin_), margin_ == 1 ? " point" : " points")},
        {"is_small", is_small},
        {"is_waiting_for_max_t", adjust_.is_max_t() && !is_max_t && !report.suite.empty()},
        {"is_near_zero", is_near_zero},
        {"baseline", rows.front().baseline},
        {"candidate", rows.front().candidate},
        {"tokenizers_differ", report.tokenizers_differ},
        {"has_no_detectable", has_no_detectable},
        {"complete", OrNull(sides.complete_job)}};
    AddPairing(report, sides, notes);
    for (const stats::SuiteComparison& row : report.suite) {
      const std::string enough = report::EnoughNote(row, 1, 3, 0.95);
      if (!enough.empty())
        notes["enough"].push_back(
            {{"length", report::ExactLengthLabel(*context.tested, "", row.context_length)}, {"text", enough}});
      if (row.by_seed.size() < 2) continue;
      notes["seeds"].push_back({{"length", report::ExactLengthLabel(*context.tested, "", row.context_length)},
                                {"seed_count", row.by_seed.size()},
                                {"spread", report::SeedSpread(row.by_seed, 1, 3)}});
    }
    if (!report.suite.empty()) notes["means"] = counted(report.suite.front().test_count, " mean", " means");
    if (report.is_incomplete) {
      notes["incomplete"] = true;
      notes["has_worst_value"] = has_worst_value;
      notes["lacks_worst_value"] = has_none;
      notes["remedy"] = Resume(sides);
    }
    for (const stats::Label& label : stats::LabelTable()) {
      if (labels_seen.contains(label.word) && !IsSaidOtherwise(label.word))
        notes["labels"].push_back({{"word", label.word}, {"sentence", label.sentence}});
    }
    for (const db::AnswerKind& kind : db::kAnswerKinds) {
      if (seen.*kind.count > 0) notes["kinds"].push_back({{"name", kind.name}, {"meaning", kind.meaning}});
    }
    console.out << "\n" << report::FillTemplate("compare_notes.txt", notes);
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

extern const Verb kCompareVerb;
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
