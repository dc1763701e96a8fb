// The table that papers print: a row a model, a column a context length, in LaTeX with booktabs. Each cell has the mean
// over tasks in percent and, below it, the difference to the baseline with its interval; a mark tells the outcome. Of a
// variant alone the rows are its tasks, with the interval of each score.
//
// All rows and columns there are, for an appendix: ComparisonTableLatex and ScoreTableLatex.
#pragma once

#include <string>

#include "client/report/report_data.h"

namespace varifocal::report {

std::string PaperTableLatex(const ReportData& data);

}  // namespace varifocal::report
