#include "client/verbs/compare_arms.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/json.h"
#include "base/status_macros.h"
#include "client/report/data/arm_labels.h"
#include "client/report/data/arm_rows.h"
#include "client/report/data/axis.h"
#include "client/report/data/epochs_note.h"
#include "client/report/data/length_label.h"
#include "client/report/data/result_rows.h"
#include "client/report/data/text_format.h"
#include "client/report/page/template.h"
#include "client/rows.h"

namespace varifocal::client {
namespace {

using ShownRow = std::pair<const stats::ArmComparison*, const stats::ArmRow*>;

bool IsWanted(const stats::ArmMeasure& measure, const ArmsRequest& request) {
  return (request.task.empty() || measure.task == request.task) &&
         (request.metric.empty() || measure.metric == request.metric);
}

bool IsFiltered(const ArmsRequest& request) { return !request.task.empty() || !request.metric.empty(); }

std::vector<std::string> TextRow(const ShownRow& shown, const std::vector<stats::ArmComparison>& all,
                                 const stats::TestedLengths& tested) {
  const auto& [comparison, row] = shown;
  const std::string point = report::PointLabel(*comparison, all);
  return {point,
          report::MeasureLabel(row->measure),
          report::ExactLengthLabel(tested, row->measure.task, row->context_length),
          report::SeedsLabel(*comparison),
          absl::StrFormat("%.3f", row->baseline_mean),
          absl::StrFormat("%.3f", row->candidate_mean),
          absl::StrFormat("%+.3f", row->difference),
          row->can_infer ? absl::StrFormat("[%+.3f, %+.3f]", row->adjusted_low, row->adjusted_high) : "",
          row->can_infer ? PText(row->p_value) : "",
          row->can_infer ? PText(row->sign_flip.p_value) : "",
          row->can_infer ? PText(row->p_adjusted) : "",
          report::OutcomeLabel(*row),
          !row->can_infer                          ? ""
          : row->detectable_difference.has_value() ? absl::StrFormat("%.3f", *row->detectable_difference)
                                                   : "none",
          absl::StrCat(row->value_count, "/", row->cluster_count),
          absl::StrJoin(report::ArmLabels(*comparison, *row), ", ")};
}

void PrintForPeople(const std::vector<ShownRow>& shown, const std::vector<stats::ArmComparison>& all,
                    const std::vector<std::pair<const report::Axis*, report::EqualLossRow>>& ratios,
                    const ArmsRequest& request, int64_t job_id, const stats::TestedLengths& tested,
                    const std::vector<std::string>& notes, Console& console) {
  const std::string title =
      report::Sentence("arms_title", {{"candidate", request.candidate}, {"baseline", request.baseline}});
  console.out << report::Sentence("arms_heading", {{"title", Styled(console, Style::kBold, title)}, {"job", job_id}})
              << "\n\n";
  std::vector<std::vector<std::string>> cells;
  int64_t suite = 0, primary = 0;
  bool is_fragile = false;
  for (const ShownRow& row : shown) {
    cells.push_back(TextRow(row, all, tested));
    is_fragile |= row.second->is_fragile;
    if (row.second->measure.IsSuite()) suite = row.second->test_count;
    if (!row.second->measure.IsSuite() && row.second->measure.is_primary) primary = row.second->test_count;
  }
  const bool has_points =
      std::any_of(cells.begin(), cells.end(), [](const std::vector<std::string>& row) { return !row.front().empty(); });
  std::vector<std::string> titles = {"point",      "measure",    "length",     "seeds",      "baseline",
                                     "candidate",  "difference", "interval",   "p",          "check",
                                     "p adjusted", "outcome",    "detectable", "n/contexts", ""};
  std::vector<bool> right = {false, false, true, false, true, true, true, true,
                             true,  true,  true, false, true, true, false};
  if (!has_points) {
    titles.erase(titles.begin());
    right.erase(right.begin());
    for (std::vector<std::string>& row : cells) row.erase(row.begin());
  }
  console.out << AlignedTable(console, titles, right, cells);
  if (!ratios.empty()) {
    console.out << "\n" << report::Sentence("arms_ratios") << "\n\n";
    std::vector<std::vector<std::string>> lines;
    for (const auto& [axis, row] : ratios) {
      lines.push_back({axis->name, report::QuantityLabel(row.x), row.candidate, report::MeasureLabel(row.measure),
                       report::ExactLengthLabel(tested, row.measure.task, row.context_length),
                       report::RatioLabel(row.ratio, row.is_paired),
                       row.ratio.low.has_value() ? PText(row.ratio.p_value) : ""});
    }
    console.out << AlignedTable(console, {"axis", "candidate's", "candidate", "measure", "length", "ratio", "p"},
                                {false, true, false, false, true, false, true}, lines);
  }
  console.out << "\n";
  std::vector<std::string> families;
  const auto add_family = [&](absl::string_view name, int64_t count) {
    if (count > 0) families.push_back(report::Sentence(name, {{"count", count}, {"is_one", count == 1}}));
  };
  add_family("arms_means", suite);
  add_family("arms_cells", primary);
  if (!families.empty())
    console.out << report::Sentence("arms_adjusted", {{"families", absl::StrJoin(families, ", ")}}) << "\n";
  console.out << report::Sentence("arms_check") << "\n";
  if (is_fragile) console.out << report::Sentence("arms_fragile") << "\n";
  for (const std::string& note : notes) console.out << note << "\n";
}

absl::StatusOr<ExitCode> Gate(const std::vector<ShownRow>& shown, const ArmsRequest& request,
                              const stats::TestedLengths& tested, Console& console) {
  std::vector<std::string> worse;
  bool has_rows = false;
  for (const auto& [comparison, row] : shown) {
    if (!row->measure.IsSuite() && !IsFiltered(request)) continue;
    const std::string name = absl::StrCat(report::MeasureLabel(row->measure), " at ",
                                          report::ExactLengthLabel(tested, row->measure.task, row->context_length));
    has_rows |= row->can_infer;
    if (row->is_unfinished) return FailedPrecondition("--gate cannot decide: ", name, " is unfinished");
    if (row->failures_decide) return FailedPrecondition("--gate cannot decide: ", report::kFailuresDecide, " ", name);
    if (row->outcome == stats::Outcome::kWorse) worse.push_back(name);
  }
  if (!has_rows) {
    return FailedPrecondition("--gate has no rows to check: no mean over tasks has several training runs of both arms");
  }
  if (worse.empty()) return ExitCode::kDone;
  console.err << report::Sentence("gate_worse", {{"list", absl::StrJoin(worse, ", ")}}) << "\n";
  return ExitCode::kFailed;
}

}  // namespace

absl::StatusOr<ExitCode> CompareArms(db::Reader& reader, const ArmsRequest& request, Console& console) {
  int64_t job_id = 0;
  if (request.job_id.has_value()) {
    RETURN_IF_ERROR(reader.Job(*request.job_id).status());
    job_id = *request.job_id;
  } else {
    ASSIGN_OR_RETURN(const db::JobRow job, reader.LatestJob());
    job_id = job.job_id;
  }
  ASSIGN_OR_RETURN(const stats::ArmTable table, stats::ArmTable::Read(reader, job_id));
  ASSIGN_OR_RETURN(const std::vector<stats::ArmComparison> comparisons,
                   table.Compare(request.baseline, request.candidate, request.options));
  const bool is_text = console.format == Format::kText;
  const auto is_shown = [&](const stats::ArmMeasure& measure) {
    if (!IsWanted(measure, request)) return false;
    return !is_text || request.all_metrics || !request.metric.empty() || measure.is_primary ||
           report::IsMainMeasure(measure, table);
  };
  std::vector<ShownRow> shown;
  for (const stats::ArmComparison& comparison : comparisons) {
    for (const stats::ArmRow& row : comparison.rows) {
      if (is_shown(row.measure)) shown.push_back({&comparison, &row});
    }
  }
  if (shown.empty()) return NotFound("the job has no such task or metric to compare");
  std::vector<std::pair<const report::Axis*, report::EqualLossRow>> ratios;
  for (const report::Axis& axis : report::Axes()) {
    if (!axis.has_ratio) continue;
    for (report::EqualLossRow& row :
         report::MakeAxisReport(table, axis, request.baseline, request.options.confidence).ratios) {
      const bool is_main = !is_text || IsFiltered(request) || report::IsMainMeasure(row.measure, table);
      if (row.candidate_arm == request.candidate && is_main && is_shown(row.measure))
        ratios.push_back({&axis, std::move(row)});
    }
  }
  if (is_text) {
    std::vector<std::string> notes = report::ArmNotes(comparisons);
    notes.insert(notes.end(), table.arms().notes.begin(), table.arms().notes.end());
    ASSIGN_OR_RETURN(const db::JobEpochs epochs, reader.Epochs(job_id));
    if (epochs.count > 1) notes.push_back(report::Sentence("epochs", report::EpochsNote(epochs, "")));
    for (const std::string& note : report::LengthNotes(table.tested()))
      notes.push_back(report::Sentence("prompts", note));
    PrintForPeople(shown, comparisons, ratios, request, job_id, table.tested(), notes, console);
  } else {
    std::vector<Column> columns;
    for (const std::string& key : report::ArmResultKeys()) columns.push_back({.key = key});
    Rows rows(console, std::move(columns));
    for (const auto& [comparison, row] : shown)
      RETURN_IF_ERROR(rows.Add(report::ArmRowJson(*comparison, *row, table.tested(), job_id)));
    for (const auto& [axis, row] : ratios)
      RETURN_IF_ERROR(rows.Add(report::EqualLossJson(row, *axis, table.tested(), job_id)));
    RETURN_IF_ERROR(rows.Finish());
  }
  return request.is_gate ? Gate(shown, request, table.tested(), console) : absl::StatusOr<ExitCode>(ExitCode::kDone);
}

}  // namespace varifocal::client
