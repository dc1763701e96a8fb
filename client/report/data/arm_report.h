// Arms of a report: comparisons over training seeds and curves over the axes that vary. Empty for a job whose
// checkpoints state no arm and seed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/report/data/answer_table.h"
#include "client/report/data/axis.h"
#include "db/reader.h"
#include "db/stats/arm_table.h"

namespace varifocal::report {

struct ArmReportOptions {
  int64_t job_id = 0;
  std::string baseline_variant;  // its arm is the reference where baseline_arm is empty; else the first arm
  std::string baseline_arm;
  std::string axis;  // this one alone; the axes that vary where empty
  stats::CompareOptions compare;
};

struct ArmReport {
  int64_t job_id = 0;
  double confidence = 0.95;
  std::string baseline;  // the reference arm, "" without arms
  stats::ArmTable table;
  std::vector<stats::ArmComparison> comparisons;  // of every other arm with it, over seeds or not
  std::vector<AxisReport> axes;
  std::vector<std::string> notes;
  AnswerTable answers;  // of the runs

  bool IsOverSeeds() const;  // some comparison has several runs of both arms
  // The comparisons of one arm over seeds.
  std::vector<stats::ArmComparison> Of(const std::string& candidate) const;
  std::vector<std::string> Candidates() const;  // with comparisons over seeds
  // A variant that is a run of an arm that is compared over seeds and is not shown alone.
  bool IsReplicate(const std::string& variant) const;
};

// INVALID_ARGUMENT for an axis without two places in any arm; NOT_FOUND for an unknown arm.
absl::StatusOr<ArmReport> CollectArms(db::Reader& reader, const ArmReportOptions& options);

}  // namespace varifocal::report
