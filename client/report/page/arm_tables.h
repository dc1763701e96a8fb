// The tables and rows of arms: HTML, Markdown, LaTeX, CSV and JSON. Empty for a job whose checkpoints state no arm and
// seed.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/arm_report.h"
#include "client/report/data/axis.h"

namespace varifocal::report {

std::string ArmsHtml(const ArmReport& arms);                          // the comparisons over seeds
std::string AxisHtml(const ArmReport& arms, const AxisReport& axis);  // figures, places, equal-loss ratios
std::string ArmsMarkdown(const ArmReport& arms);                      // both
std::vector<Json> ArmsJson(const ArmReport& arms);
std::string AxisCsv(const ArmReport& arms);    // a line for each place and measure
std::string AxisLatex(const ArmReport& arms);  // a table for each axis
// How comparisons over seeds are made.
std::string ArmsNote(const ArmReport& arms);

}  // namespace varifocal::report
