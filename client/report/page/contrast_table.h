// Whether differences grow with the length, as a table: the change from the shortest to the longest length, and the slope
// per doubling. With many candidates, single tasks are folded.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string ContrastTableHtml(const ReportData& data);

// "1K → 8K"
std::string LengthsLabel(const ReportData& data, const stats::LengthContrast& row);

// Decided differences at lengths between those of the change or slope that are outside of the differences at both: by length.
std::vector<std::pair<int64_t, const stats::Inference*>> UnsteadyRows(const stats::ComparisonReport& report,
                                                                      const stats::LengthContrast& row);

// "not steadily: at 4K the difference is −6.7 (worse)"; "" without such rows.
std::string SteadyNote(const ReportData& data, const CandidateComparison& comparison, const stats::LengthContrast& row);
// The row's labels and that note.
std::vector<std::string> ContrastNotes(const ReportData& data, const CandidateComparison& comparison,
                                       const stats::LengthContrast& row);

}  // namespace varifocal::report
