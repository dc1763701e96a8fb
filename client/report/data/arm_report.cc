#include "client/report/data/arm_report.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/report/data/arm_labels.h"

namespace varifocal::report {

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
    return NotFound("the job has no arm \"", options.baseline_arm, "\"",
                    names.empty() ? ": its checkpoints state no training arm and seed" : "; it has ",
                    absl::StrJoin(names, ", "));
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
      return InvalidArgument(
          "no arm of the job has two places on the axis ", axis->name, " with everything else equal: ",
          names.empty() ? "its checkpoints state no training arm and seed"
                        : absl::StrJoin(arms.arms, "; ", [](std::string* out, const auto& a) { *out += a.Label(); }));
    }
  }
  return report;
}

}  // namespace varifocal::report
