// A table for papers: one row per model, one column per context length, in LaTeX with booktabs. Each cell has the mean
// over tasks in percent and, below it, the difference to the baseline with its interval; a mark shows the outcome. For
// a single variant the rows are its tasks, with the interval of each score.
//
// Full tables, for an appendix: ComparisonTableLatex and ScoreTableLatex.
#pragma once

#include <string>

#include "client/report/data/report_data.h"

namespace varifocal::report {

std::string PaperTableLatex(const ReportData& data);

}  // namespace varifocal::report
