// Figures of a sweep of a run-time setting.
#pragma once

#include <vector>

#include "client/report/charts/figure.h"
#include "client/report/data/report_data.h"
#include "client/report/data/sweep.h"

namespace varifocal::report {

// For each kind of value one for each length: the mean over tasks by value, a series a model. An interval is that of the
// difference to the baseline, drawn around the score; the baseline's own score is a line.
std::vector<Figure> SweepFigures(const std::vector<Sweep>& sweeps, const ReportData& data);
// For each kind of value one for each task: its score by value, a series a length; with several sweeps the longest length, a
// series a sweep.
std::vector<Figure> SweepTaskFigures(const std::vector<Sweep>& sweeps, const ReportData& data);

}  // namespace varifocal::report
