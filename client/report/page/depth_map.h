// Heat maps of the score by depth of the evidence and context length, one per variant, as common for
// needle-in-a-haystack results.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string DepthMapsHtml(const ReportData& data);
// Rows of kind "depth": the mean over a task's questions ("task" null: over tasks) whose evidence begins between two depths.
std::vector<Json> DepthJson(const ReportData& data);

}  // namespace varifocal::report
