#include "client/power.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "client/rows.h"
#include "db/stats/inference.h"
#include "db/stats/labels.h"
#include "eval_tasks/grid.h"
#include "eval_tasks/metric.h"
#include "wire/job_spec.h"

namespace varifocal::client {
namespace {

bool CanBeAveraged(const TaskSpec& task) {
  const Metric* metric = task.metrics.empty() ? nullptr : FindMetric(task.metrics.front());
  return metric != nullptr && !metric->is_unbounded;
}

std::string Percent(double share) { return absl::StrFormat("%.4g %%", 100 * share); }

bool Finds(const LengthPower& row, double detect) { return row.power.detectable_difference.value_or(1) <= detect; }

// "with 25 contexts: 11.0 points"
std::string EnoughNote(const LengthPower& row, double detect) {
  if (Finds(row, detect)) return "";
  if (!row.enough.has_value()) return absl::StrCat("not with ", stats::kEnoughContextsMax, " contexts");
  return absl::StrFormat("with %d contexts%s: %.1f points", row.enough->context_count,
                         row.task_count == 1 ? "" : " of each task", 100 * row.enough->detectable_difference);
}

std::string LengthNote(const LengthPower& row) {
  if (!row.power.can_infer) return absl::StrCat("a task with 1 context: ", stats::kNothingInferred);
  if (row.power.context_count < stats::kSignFlipClusterCountMin)
    return absl::StrCat("fewer than ", stats::kSignFlipClusterCountMin,
                        " contexts: t alone decides, and a difference found is marked ", stats::kFragileLabel);
  if (!row.power.detectable_difference.has_value()) return "it would be larger than the share assumed to differ";
  return "";
}

}  // namespace

void PowerFlags::AddTo(FlagSet& flags) {
  flags
      .Add("assume-flips", &assumptions.flip_share, "SHARE",
           "for --dry-run's power: share of a task's answers that differ between two variants (default 0.2; for graded "
           "metrics the squared standard deviation of a difference)")
      .AtLeast(0.0001)
      .AtMost(1);
  flags
      .Add("assume-correlation", &assumptions.correlation, "R",
           "likewise: correlation of the differences of one context (default 0.3)")
      .AtLeast(0)
      .AtMost(1);
  flags
      .Add("detect", &detect_points, "POINTS",
           "likewise: say how many contexts find a difference of so many points (default 15)")
      .AtLeast(0.1)
      .AtMost(100);
}

absl::StatusOr<JobPower> PlanPower(const v1::JobSpec& job, const PowerFlags& flags) {
  ASSIGN_OR_RETURN(const JobSpec spec, FromProto(job));
  return PlanPower(spec.suite, std::ssize(spec.variants), spec.limit, flags.assumptions, flags.detect_points / 100);
}

absl::StatusOr<JobPower> PlanPower(const SuiteSpec& suite, int64_t variant_count, int64_t limit,
                                   const stats::PowerAssumptions& assumptions, double detect) {
  JobPower job{assumptions, detect, variant_count - 1, 0, {}};
  if (job.candidate_count < 1) return job;
  JobSpec spec;
  spec.suite = suite;
  spec.variants = {{"any", {}}};  // the questions are the same for every variant
  spec.limit = std::min<int64_t>(limit, kSampleCountMax);
  ASSIGN_OR_RETURN(const Grid grid, MakeGrid(spec));
  struct Planned {
    int64_t question_count = 0;
    std::set<std::string> contexts;
  };
  std::map<int, std::map<int, Planned>> planned;  // by length and task
  for (const GridGroup& group : grid.groups) {
    if (!CanBeAveraged(suite.tasks[group.task_index])) continue;
    Planned& cell = planned[group.context_length][group.task_index];
    for (int i = 0; i < group.count; ++i) {
      cell.contexts.insert(grid.Identify(group, i).cluster);
    }
    cell.question_count += group.count;
  }
  job.test_count = job.candidate_count * std::ssize(planned);
  for (const auto& [length, tasks] : planned) {
    std::vector<stats::PlannedTask> cells;
    for (const auto& [task, cell] : tasks) cells.push_back({cell.question_count, std::ssize(cell.contexts)});
    LengthPower& row = job.lengths.emplace_back(
        LengthPower{length, std::ssize(cells), stats::PlannedPower(cells, assumptions, job.test_count), {}});
    if (!Finds(row, detect)) row.enough = stats::ContextsEnough(cells, assumptions, job.test_count, detect);
  }
  return job;
}

Json PowerJson(const JobPower& power) {
  Json lengths = Json::array();
  for (const LengthPower& row : power.lengths) {
    const std::optional<double>& detectable = row.power.detectable_difference;
    lengths.push_back({{"context_length", row.context_length},
                       {"task_count", row.task_count},
                       {"sample_count", row.power.question_count},
                       {"cluster_count", row.power.context_count},
                       {"detectable_difference", OrNull(detectable)},
                       {"p_sign_flip_min", row.power.p_sign_flip_min},
                       {"p_sign_flip_min_adjusted", row.power.p_sign_flip_min_adjusted},
                       {"enough_contexts", row.enough.has_value() ? Json(row.enough->context_count) : Json()},
                       {"enough_detectable", row.enough.has_value() ? Json(row.enough->detectable_difference) : Json()},
                       {"note", LengthNote(row)}});
  }
  return {{"assumed_flip_share", power.assumptions.flip_share},
          {"wanted_difference", power.detect},
          {"assumed_correlation", power.assumptions.correlation},
          {"candidate_count", power.candidate_count},
          {"test_count", power.test_count},
          {"lengths", std::move(lengths)}};
}

std::string PowerText(const JobPower& power, const Console& console) {
  if (power.candidate_count < 1) return "Power: one variant, so there is no difference to detect.\n";
  if (power.lengths.empty()) return "Power: no task has a metric that can be averaged over tasks.\n";
  std::vector<std::vector<std::string>> cells;
  bool is_too_small = false;
  for (const LengthPower& row : power.lengths) {
    is_too_small |= !Finds(row, power.detect);
    const std::optional<double>& detectable = row.power.detectable_difference;
    cells.push_back({WithThousands(row.context_length), absl::StrCat(row.task_count),
                     WithThousands(row.power.question_count), WithThousands(row.power.context_count),
                     detectable.has_value() ? absl::StrFormat("%.1f points", 100 * *detectable) : "none",
                     PText(row.power.p_sign_flip_min), PText(row.power.p_sign_flip_min_adjusted),
                     EnoughNote(row, power.detect), LengthNote(row)});
  }
  return absl::StrCat(
      "\nPower of the mean over tasks, for ", power.candidate_count,
      power.candidate_count == 1 ? " candidate" : " candidates", " at ", power.lengths.size(),
      power.lengths.size() == 1 ? " length" : " lengths", " (", power.test_count,
      power.test_count == 1 ? " test" : " tests", ")\n",
      AlignedTable(console,
                   {"length", "tasks", "questions", "contexts", "detectable", "smallest p of the check", "adjusted",
                    absl::StrFormat("enough for %.4g points", 100 * power.detect), ""},
                   {true, true, true, true, true, true, true, false, false}, cells),
      "Detectable: the smallest true difference detected with 80 % power at 0.05 adjusted for all tests, "
      "assuming\nthat ",
      Percent(power.assumptions.flip_share),
      " of a task's answers differ between two variants (standard deviation of a "
      "difference ",
      absl::StrFormat("%.2f", std::sqrt(power.assumptions.flip_share)), ") and a\ncorrelation of ",
      NumberText(power.assumptions.correlation),
      " within a context: --assume-flips and --assume-correlation change it.\n",
      is_too_small ? "More contexts: --seeds=N asks N times as many, or `samples` in a suite of your own.\n" : "");
}

}  // namespace varifocal::client
