#include "client/report/data/arm_report.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/plural.h"
#include "base/status_macros.h"
#include "client/report/data/arm_rows.h"
#include "client/report/data/length_label.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "db/answer_kinds.h"

namespace varifocal::report {
namespace {

// Rows that a verdict is about: means over tasks, or where no metric has bounds the primary metrics.
std::vector<std::pair<const stats::ArmComparison*, const stats::ArmRow*>> DecidingRows(
    const std::vector<stats::ArmComparison>& comparisons) {
  std::vector<std::pair<const stats::ArmComparison*, const stats::ArmRow*>> suite, primary;
  for (const stats::ArmComparison& comparison : comparisons) {
    for (const stats::ArmRow& row : comparison.rows) {
      if (row.measure.IsSuite()) suite.push_back({&comparison, &row});
      if (!row.measure.IsSuite() && row.measure.is_primary) primary.push_back({&comparison, &row});
    }
  }
  return suite.empty() ? primary : suite;
}

std::string Tone(const std::map<stats::Outcome, int>& counts, size_t total) {
  const auto count = [&](stats::Outcome outcome) {
    const auto found = counts.find(outcome);
    return found == counts.end() ? 0 : found->second;
  };
  const int better = count(stats::Outcome::kBetter), worse = count(stats::Outcome::kWorse);
  if (better > 0 && worse > 0) return "mixed";
  if (better > 0) return "better";
  if (worse > 0) return "worse";
  return static_cast<size_t>(count(stats::Outcome::kEquivalent)) == total ? "equivalent" : "undecided";
}

// "3 failed, 5 empty of 96": over the runs of an arm; "" where there are none.
std::string AnswersNote(const stats::Arm& arm, const std::string& task, int64_t length, const AnswerTable& answers) {
  db::AnswerCounts sum;
  for (const stats::ArmRun& run : arm.runs) {
    const db::AnswerCounts counts = answers.Of(run.variant, task, length);
    sum.answered_count += counts.answered_count;
    sum.failed_count += counts.failed_count;
    for (const db::AnswerKind& kind : db::kAnswerKinds) sum.*kind.count += counts.*kind.count;
  }
  const std::string note = CountsNote(sum);
  return note.empty() ? "" : absl::StrCat(note, " of ", CountLabel(sum.answered_count + sum.failed_count));
}

}  // namespace

bool ArmReport::IsOverSeeds() const {
  return std::any_of(comparisons.begin(), comparisons.end(), [](const auto& c) { return c.IsOverSeeds(); });
}

std::vector<stats::ArmComparison> ArmReport::Of(const std::string& candidate) const {
  std::vector<stats::ArmComparison> own;
  for (const stats::ArmComparison& comparison : comparisons) {
    if (comparison.candidate.name == candidate && comparison.IsOverSeeds()) own.push_back(comparison);
  }
  return own;
}

std::vector<std::string> ArmReport::Candidates() const {
  std::vector<std::string> names;
  for (const stats::ArmComparison& comparison : comparisons) {
    const std::string& name = comparison.candidate.name;
    if (comparison.IsOverSeeds() && std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

bool ArmReport::IsReplicate(const std::string& variant) const {
  for (const stats::ArmComparison& comparison : comparisons) {
    if (!comparison.IsOverSeeds()) continue;
    for (const stats::Arm* arm : {&comparison.baseline, &comparison.candidate}) {
      for (const stats::ArmRun& run : arm->runs) {
        if (run.variant == variant) return true;
      }
    }
  }
  return false;
}

absl::StatusOr<ArmReport> CollectArms(db::Reader& reader, const ArmReportOptions& options) {
  ArmReport report;
  report.job_id = options.job_id;
  report.confidence = options.compare.confidence;
  ASSIGN_OR_RETURN(report.table, stats::ArmTable::Read(reader, options.job_id));
  const stats::Arms& arms = report.table.arms();
  report.notes = arms.notes;
  const std::vector<std::string> names = arms.Names();
  std::map<std::string, std::string> runs;  // under their own names
  for (const stats::Arm& arm : arms.arms) {
    for (const stats::ArmRun& run : arm.runs) runs[run.variant] = run.variant;
  }
  RETURN_IF_ERROR(report.answers.Read(reader, options.job_id, runs, report.table.tested()));
  report.baseline = options.baseline_arm;
  if (report.baseline.empty() && !names.empty()) {
    report.baseline = names.front();
    for (const stats::Arm& arm : arms.arms) {
      for (const stats::ArmRun& run : arm.runs) {
        if (run.variant == options.baseline_variant) report.baseline = arm.name;
      }
    }
  }
  if (!options.baseline_arm.empty() && std::find(names.begin(), names.end(), options.baseline_arm) == names.end()) {
    return absl::NotFoundError(absl::StrCat(
        "the job has no arm \"", options.baseline_arm, "\"",
        names.empty() ? ": its checkpoints state no training arm and seed" : "; it has ", absl::StrJoin(names, ", ")));
  }
  for (const std::string& name : names) {
    if (name == report.baseline) continue;
    auto comparisons = report.table.Compare(report.baseline, name, options.compare);
    if (!comparisons.ok()) {
      report.notes.push_back(absl::StrCat(comparisons.status().message(), "."));
      continue;
    }
    for (std::string& note : ArmNotes(*comparisons)) report.notes.push_back(std::move(note));
    std::move(comparisons->begin(), comparisons->end(), std::back_inserter(report.comparisons));
  }
  std::vector<const Axis*> axes;
  if (!options.axis.empty()) {
    ASSIGN_OR_RETURN(const Axis* axis, FindAxis(options.axis));
    axes.push_back(axis);
  } else {
    for (const Axis& axis : Axes()) {
      if (axis.is_drawn) axes.push_back(&axis);
    }
  }
  for (const Axis* axis : axes) {
    AxisReport drawn = MakeAxisReport(report.table, *axis, report.baseline, report.confidence);
    if (!drawn.curves.empty()) {
      report.axes.push_back(std::move(drawn));
    } else if (!options.axis.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no arm of the job has two places on the axis ", axis->name, " with everything else equal: ",
          names.empty() ? "its checkpoints state no training arm and seed"
                        : absl::StrJoin(arms.arms, "; ", [](std::string* out, const auto& a) { *out += a.Label(); })));
    }
  }
  return report;
}

std::vector<ArmVerdict> ArmVerdicts(const ArmReport& arms) {
  std::vector<ArmVerdict> verdicts;
  for (const std::string& candidate : arms.Candidates()) {
    const std::vector<stats::ArmComparison> own = arms.Of(candidate);
    const auto rows = DecidingRows(own);
    std::map<stats::Outcome, int> counts;
    ArmVerdict verdict;
    bool is_open = rows.empty();
    for (const auto& [comparison, row] : rows) {
      is_open |= row->is_unfinished;
      if (row->is_unfinished || !row->can_infer) continue;
      ++counts[row->outcome];
    }
    std::vector<std::string> outcomes;
    for (const stats::Outcome outcome :
         {stats::Outcome::kBetter, stats::Outcome::kWorse, stats::Outcome::kEquivalent, stats::Outcome::kUndecided}) {
      if (counts.count(outcome) > 0)
        outcomes.push_back(absl::StrCat(counts[outcome], " ", stats::OutcomeName(outcome)));
    }
    verdict.tone = outcomes.empty() ? "unknown" : Tone(counts, rows.size());
    verdict.headline = absl::StrCat(
        candidate, " against ", arms.baseline, " over training seeds, ",
        rows.empty() ? "no score" : absl::StrCat(rows.size(), rows.size() == 1 ? " comparison" : " comparisons"), ": ",
        outcomes.empty() ? (is_open ? "no verdict yet" : "no verdict") : absl::StrJoin(outcomes, ", "), ".");
    for (const auto& [comparison, row] : rows) {
      const bool is_share = row->measure.IsSuite();
      const double scale = is_share ? 100 : 1;
      const int decimals = is_share ? 1 : 3;
      const std::string point = PointLabel(*comparison, own);
      std::string sentence = absl::StrCat(point.empty() ? "" : absl::StrCat(point, ", "),
                                          is_share ? "" : absl::StrCat(MeasureLabel(row->measure), ", "), "at ",
                                          LengthLabel(arms.table.tested(), row->measure.task, row->context_length),
                                          ": ", Signed(row->difference * scale, decimals));
      if (row->can_infer) {
        absl::StrAppend(&sentence, is_share ? " points" : "", " (",
                        IntervalAndP(*row, scale, decimals, arms.confidence), row->is_fragile ? ", fragile, " : ", ",
                        SeedsLabel(*comparison), "), ", OutcomeLabel(*row));
        if (row->outcome == stats::Outcome::kUndecided && !row->is_unfinished) {
          absl::StrAppend(
              &sentence, "; detectable: ",
              row->detectable_difference.has_value()
                  ? absl::StrCat(Unsigned(*row->detectable_difference * scale, decimals), is_share ? " points" : "")
                  : "no difference");
        }
      }
      std::vector<std::string> answers;
      for (const stats::Arm* arm : {&comparison->baseline, &comparison->candidate}) {
        const std::string counts = AnswersNote(*arm, row->measure.task, row->context_length, arms.answers);
        if (!counts.empty()) answers.push_back(absl::StrCat(arm->name, " ", counts));
      }
      if (!answers.empty()) absl::StrAppend(&sentence, "; of the answers ", JoinWithAnd(answers));
      verdict.details.push_back(sentence + ".");
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Json> ArmsJson(const ArmReport& arms) {
  std::vector<Json> rows;
  for (const stats::ArmComparison& comparison : arms.comparisons) {
    for (const stats::ArmRow& row : comparison.rows)
      rows.push_back(ArmRowJson(comparison, row, arms.table.tested(), arms.job_id));
  }
  for (const AxisReport& axis : arms.axes) {
    for (const AxisCurves& curves : axis.curves) {
      for (const AxisSeries& series : curves.series) {
        for (const AxisPoint& point : series.points)
          rows.push_back(AxisPointJson(curves, series, point, *axis.axis, arms.table.tested()));
      }
    }
    for (const EqualLossRow& row : axis.ratios)
      rows.push_back(EqualLossJson(row, *axis.axis, arms.table.tested(), arms.job_id));
  }
  return rows;
}

std::string ArmsNote(const ArmReport& arms) {
  int64_t suite = 0, primary = 0;
  for (const stats::ArmComparison& comparison : arms.comparisons) {
    if (!comparison.IsOverSeeds()) continue;
    for (const stats::ArmRow& row : comparison.rows) {
      if (row.measure.IsSuite()) suite = row.test_count;
      if (!row.measure.IsSuite() && row.measure.is_primary) primary = row.test_count;
    }
  }
  std::vector<std::string> families;
  if (suite > 0) families.push_back(absl::StrCat("over the ", suite, Plural(suite, " mean", " means"), " over tasks"));
  if (primary > 0)
    families.push_back(absl::StrCat("over the ", primary, Plural(primary, " cell", " cells"), " of primary metrics"));
  return absl::StrCat(
      "Interval and p: t over training seeds and contexts, which are crossed: every run answers the same questions. "
      "They "
      "are about other seeds of the same recipe and other contexts. The check flips the signs of paired seeds, or "
      "exchanges seeds of unpaired arms; with fewer than six pairs it cannot reach 0.05, and what t finds is fragile. "
      "p "
      "adjusted (Holm): ",
      absl::StrJoin(families, ", "), ", of all arms, points and lengths.", arms.notes.empty() ? "" : " ",
      absl::StrJoin(arms.notes, " "));
}

}  // namespace varifocal::report
