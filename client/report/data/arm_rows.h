// Rows of arms as JSON: what `compare --baseline-arm` and `report` print of comparisons over seeds, places on an axis, and
// equal-loss ratios.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/axis.h"
#include "db/stats/arm_table.h"

namespace varifocal::report {

// Keys of the rows of `compare --baseline-arm`, all in every row: those of ResultKeys() and what arms add.
const std::vector<std::string>& ArmResultKeys();

// kind "arm_cell" or "arm_mean".
Json ArmRowJson(const stats::ArmComparison& comparison, const stats::ArmRow& row, const stats::TestedLengths& tested,
                int64_t job_id);
// kind "equal_loss_ratio".
Json EqualLossJson(const EqualLossRow& row, const Axis& axis, const stats::TestedLengths& tested, int64_t job_id);
// kind "axis_point": the mean of one arm.
Json AxisPointJson(const AxisCurves& curves, const AxisSeries& series, const AxisPoint& point, const Axis& axis,
                   const stats::TestedLengths& tested);

}  // namespace varifocal::report
