// Whether differences grow with the length, as a table: the change from the shortest to the longest length, and the slope
// per doubling. With many candidates, single tasks are folded.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string ContrastTableHtml(const ReportData& data);

// "1K → 8K"
std::string LengthsLabel(const ReportData& data, const stats::LengthContrast& row);

// "not steadily: at 4K the difference is −6.7 (worse)": decided differences between the two lengths that are outside of
// those at both; "" without one.
std::string SteadyNote(const ReportData& data, const CandidateComparison& versus, const stats::LengthContrast& row);

}  // namespace varifocal::report
