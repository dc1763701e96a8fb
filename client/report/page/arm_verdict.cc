#include "client/report/page/arm_verdict.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/arm_labels.h"
#include "client/report/data/axis.h"
#include "client/report/data/length_label.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/inference_cells.h"
#include "client/report/page/template.h"
#include "db/answer_kinds.h"
#include "db/stats/labels.h"

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

// "plain 3 failed, 5 empty of 96": over the runs of an arm; "" where there are none.
std::string AnswersNote(const stats::Arm& arm, const std::string& task, int64_t length, const AnswerTable& answers) {
  db::AnswerCounts sum;
  for (const stats::ArmRun& run : arm.runs) {
    const db::AnswerCounts counts = answers.Of(run.variant, task, length);
    sum.answered_count += counts.answered_count;
    sum.failed_count += counts.failed_count;
    for (const db::AnswerKind& kind : db::kAnswerKinds) sum.*kind.count += counts.*kind.count;
  }
  const std::string counts = CountsNote(sum);
  if (counts.empty()) return "";
  return Sentence(
      "arm_answers",
      {{"arm", arm.name}, {"counts", counts}, {"total", CountLabel(sum.answered_count + sum.failed_count)}});
}

}  // namespace

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
    verdict.candidate = candidate;
    verdict.brief =
        Sentence("arms_brief", {{"outcomes", absl::StrJoin(outcomes, ", ")}, {"yet", is_open ? " yet" : ""}});
    verdict.headline = Sentence("arms_headline", {{"candidate", candidate},
                                                  {"baseline", arms.baseline},
                                                  {"count", rows.empty() ? Json() : Json(rows.size())},
                                                  {"is_one", rows.size() == 1},
                                                  {"outcomes", absl::StrJoin(outcomes, ", ")},
                                                  {"yet", is_open ? " yet" : ""}});
    for (const auto& [comparison, row] : rows) {
      const bool is_share = row->measure.IsSuite();
      const double scale = is_share ? 100 : 1;
      const int decimals = is_share ? 1 : 3;
      std::vector<std::string> answers;
      for (const stats::Arm* arm : {&comparison->baseline, &comparison->candidate}) {
        std::string note = AnswersNote(*arm, row->measure.task, row->context_length, arms.answers);
        if (!note.empty()) answers.push_back(std::move(note));
      }
      const bool has_detectable = row->detectable_difference.has_value();
      verdict.details.push_back(Sentence(
          "arms_row", {{"point", PointLabel(*comparison, own)},
                       {"measure", is_share ? "" : MeasureLabel(row->measure)},
                       {"length", LengthLabel(arms.table.tested(), row->measure.task, row->context_length)},
                       {"difference", Signed(row->difference * scale, decimals)},
                       {"unit", is_share ? " points" : ""},
                       {"evidence", row->can_infer ? IntervalAndP(*row, scale, decimals, arms.confidence) : ""},
                       {"fragile", row->is_fragile ? stats::kFragileLabel : ""},
                       {"seeds", SeedsLabel(*comparison)},
                       {"outcome", OutcomeLabel(*row)},
                       {"is_undecided", row->outcome == stats::Outcome::kUndecided && !row->is_unfinished},
                       {"detectable", has_detectable ? Unsigned(*row->detectable_difference * scale, decimals) : ""},
                       {"answers", JoinWithAnd(answers)}}));
    }
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

}  // namespace varifocal::report
