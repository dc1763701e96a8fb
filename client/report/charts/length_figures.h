// Figures of scores and differences over the context length.
#pragma once

#include <vector>

#include "client/report/charts/figure.h"
#include "client/report/data/report_data.h"

namespace varifocal::report {

// The mean over tasks of candidate minus baseline: the primary result.
Figure SuiteDifferenceFigure(const ReportData& data);
// One per task, of its primary metric.
std::vector<Figure> ScoreFigures(const ReportData& data);
std::vector<Figure> DifferenceFigures(const ReportData& data);

}  // namespace varifocal::report
