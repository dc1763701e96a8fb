// Whether differences grow with the length, as a table: the change from the shortest to the longest length, and the slope
// per doubling. With many candidates, single tasks are folded.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ContrastTableHtml(const ReportData& data);

}  // namespace varifocal::report
